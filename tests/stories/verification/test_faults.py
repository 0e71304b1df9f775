"""Each fault of faults.yaml is planted on eight nodes and named; healthy nodes are accused of nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.planted import Fault, Found, Outcome, planted, read_faults, ready, table, verified
from tests.support.real_site import Rehearsal, configured

pytestmark = [pytest.mark.lab, pytest.mark.faults]

HERE = Path(__file__).parent
SITE = HERE / "planted.yaml"
FUNCTIONS, FAULTS = read_faults(HERE / "faults.yaml")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    with configured(tmp_path_factory.mktemp("planted"), "planted", SITE, "head,w[01-08]") as here:
        ready(here)
        yield here


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Iterator[list[Outcome]]:
    """What was found, in order; written as a table if --fault-table is given."""
    found: list[Outcome] = []
    yield found
    if path := request.config.getoption("--fault-table"):
        Path(path).write_text(table(found, f"{datetime.now(UTC):%Y-%m-%d}"))


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_the_bad_part_is_named(fault: Fault, site: Rehearsal, outcomes: list[Outcome]) -> None:
    with planted(site, FUNCTIONS, fault, site.folder / "planted"):
        outcomes.append(found := verified(site, SITE, fault, "--test", fault.test))
    print(f"{found.seconds} s: {found.detail}")
    assert found.hit, found


def test_healthy_nodes_are_not_accused(site: Rehearsal, outcomes: list[Outcome], pytestconfig: pytest.Config) -> None:
    runs = [verified(site, SITE, None, "--level", "standard") for _ in range(pytestconfig.getoption("--healthy-runs"))]
    outcomes += runs
    assert [run for run in runs if not run.hit] == []


def test_training_far_below_its_usual_rate_is_missed(site: Rehearsal, outcomes: list[Outcome]) -> None:
    for _ in range(5):
        assert verified(site, SITE, None, "--test", "train_ddp").hit
    slow, right = "tc qdisc add dev host0 root tbf rate 5mbit burst 32kbit latency 400ms", "tc qdisc del dev host0 root"
    missed = Found("missed", "train_ddp", (), "the usual rate, the median of 5 runs")
    fault = Fault("training over 5 Mb/s", "w03", {"w03": slow}, {"w03": right}, "train_ddp", missed)
    with planted(site, FUNCTIONS, fault, site.folder / "planted"):
        outcomes.append(found := verified(site, SITE, fault, "--test", "train_ddp"))
        unlimited = verified(site, SITE, None, "--test", "train_ddp", "--no-usual")
    assert found.hit, found
    assert unlimited.hit, unlimited
