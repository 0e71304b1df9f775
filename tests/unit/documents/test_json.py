"""docs/json.md: each jq example finds what it says, in what hpcforge prints or, of a running cluster, would print."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hpcforge import bundled
from hpcforge.cli import run
from hpcforge.engines.tasks import Event
from hpcforge.report.acceptance import AcceptanceBasis, acceptance_json, acceptance_report
from hpcforge.report.event_stream import Stream
from hpcforge.report.progress import Progress
from hpcforge.report.status import status_json
from hpcforge.run.records.history import History
from hpcforge.run.status import NodeStatus, Status
from tests.unit.report.acceptances import broken

PAGE = (bundled.root() / "docs" / "json.md").read_text("utf-8")
EXAMPLES = re.findall(r"^(hpcforge .*?) \| jq (.*)$", PAGE, re.M)
NODE_FREE = [pair for pair in EXAMPLES if pair[0] in PAGE.partition("## Of a running cluster")[0]]
JQ = shutil.which("jq")
pytestmark = pytest.mark.skipif(JQ is None, reason="jq is not installed (Debian: apt-get install jq)")


def jq(words: str, text: str) -> list[str]:
    """What jq makes of a document; the words are as in a shell."""
    done = subprocess.run(["sh", "-c", f"jq {words}"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"jq {words}: {done.stderr}"
    return done.stdout.splitlines()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = bundled.root()
    machines = (root / "inventory" / "air-cooled-16.yaml").read_text("utf-8")
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "air-cooled-16.yaml").write_text(machines.replace(", serial: BOR0004", ""))
    text = (root / "blueprints" / "air-cooled-16.yaml").read_text("utf-8")
    (tmp_path / "site.yaml").write_text(text.replace("../inventory", "inventory"))
    (tmp_path / "list.csv").write_text("node,serial\ng01,BOR0004\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "site.yaml"


@pytest.mark.parametrize(("command", "words"), NODE_FREE, ids=[command for command, _ in NODE_FREE])
def test_an_example_without_nodes_finds_something(
    command: str, words: str, site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert site.exists()
    code = run(command.split()[1:])
    assert code in (0, 2)
    document = capsys.readouterr().out
    assert json.loads(document)["schema_version"] >= 1
    found = jq(words, document)
    assert found or command.startswith(("hpcforge validate", "hpcforge rehearse list"))


def of_a_cluster(basis: AcceptanceBasis) -> dict[str, str]:
    """What commands print of a cluster in which much is wrong, by the command; made by hpcforge's own code."""
    lines: list[str] = []
    stream = Stream(Progress(live=False), lines.append)
    settled = {"role": "time", "status": "failed", "detail": "no"}
    stream.event(Event("g01", "t", "settled", settled))
    beside: list[str] = ["launches of tests ...\n"]  # not every line of stderr is an event
    with Stream(Progress(live=False), beside.append).tally("launches of tests", ["gemm", "allreduce"]) as tally:
        tally.end("gemm")
    nodes = tuple(
        NodeStatus(node.name, basis.observed[node.name].unreachable, "idle", None, 1) for node in basis.cluster.nodes
    )
    found = Status(basis.cluster.name, "head01", nodes, {}, None, None, History(basis.runs), basis.recorded)
    documents = {
        "status": status_json(found, History(basis.runs)),
        "report acceptance": acceptance_json(acceptance_report(basis)),
    }
    return {name: json.dumps(document) for name, document in documents.items()} | {
        "apply": "".join(lines),
        "verify": "".join(beside),
    }


RUNNING = [pair for pair in EXAMPLES if pair not in NODE_FREE]


@pytest.mark.parametrize(("command", "words"), RUNNING, ids=[words for _, words in RUNNING])
def test_an_example_of_a_running_cluster_finds_something(command: str, words: str) -> None:
    documents = of_a_cluster(broken())
    name = next(name for name in documents if command.startswith(f"hpcforge {name} "))
    assert jq(words, documents[name]) != []


def test_the_keys_of_status_are_listed() -> None:
    document = json.loads(of_a_cluster(broken())["status"])
    [row] = re.findall(r"^\| `status` \| (.*) \|$", PAGE, re.M)
    assert set(re.findall(r"`(\w+)`", row)) == document.keys() - {"schema_version"}


def test_the_states_of_a_verdict_are_listed() -> None:
    from hpcforge.verify.verdicts import Status as VerdictStatus  # noqa: PLC0415

    listed: Any = VerdictStatus.__args__  # type: ignore[attr-defined]
    assert all(f"`{status}`" in PAGE.rpartition("\n\n")[2] for status in listed)
