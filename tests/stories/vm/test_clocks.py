"""Clocks, which machines have for themselves and containers share with their host: `make test-vm`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from tests.support.vm_rehearsal import Rehearsal, blueprint, with_image

pytestmark = pytest.mark.vm

NAME = f"test-vm-clocks-{os.getpid()}"
BLUEPRINT = blueprint(
    "clocks",
    """\
nodes:
  head: {functions: [head],   hardware: rehearsal-node, addresses: 10.77.0.10}
  w01:  {functions: [worker], hardware: rehearsal-node, addresses: 10.77.0.11}
slurm:
  partitions:
    main: {nodes: w01, default: true}
rollout: {confirm_wait: 5min}
""",
)
AHEAD_S = 7200
NAMED = re.compile(r"w01: its clock is 7,[12][0-9]{2} s ahead of that of head")
SET_AHEAD = f"sudo date --set=@$(($(date +%s) + {AHEAD_S})) > /dev/null"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Two machines, of which one came with a clock that is hours ahead; one apply."""
    with with_image(NAME, tmp_path_factory.mktemp("site"), BLUEPRINT) as rehearsal:
        rehearsal.run("rehearse", "up", rehearsal.blueprint)
        rehearsal.on("w01", SET_AHEAD)
        said = rehearsal.run("apply", rehearsal.blueprint, "--yes", errors=True)
        assert NAMED.search(said), said
        yield rehearsal


def ahead_s(up: Rehearsal) -> tuple[int, int]:
    """How far w01's clock is ahead of the head's, s: no less than the first, no more than the second."""
    head, worker, later = (int(up.on(node, "date +%s")) for node in ("head", "w01", "head"))
    return worker - later, worker - head


def test_the_first_apply_sets_a_clock_that_came_hours_ahead(up: Rehearsal) -> None:
    least, most = ahead_s(up)
    assert least <= 2
    assert most >= -2
    assert "System clock was stepped by -" in up.on("w01", "sudo journalctl -b -u chrony --no-pager")
    assert up.on("head", "srun hostname") == "w01\n"


def test_a_clock_that_goes_astray_is_named_and_set_by_the_next_apply(up: Rehearsal) -> None:
    """chrony does not step a clock under a running cluster by itself: its restart does, which the plan names."""
    up.on("w01", SET_AHEAD)
    said = up.run("plan", up.blueprint, expect=2)
    assert NAMED.search(said), said
    assert "unit chrony.service: restart" in said
    up.run("apply", up.blueprint, "--yes")
    least, most = ahead_s(up)
    assert least <= 2
    assert most >= -2
    up.run("plan", up.blueprint)
