"""What goes wrong in training is found: in each mode, in checkpoints, after restarts; and a node dies under a job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hpcforge.lab import lab as labs
from hpcforge.lab.kinds import kind_of
from tests.stories.training.test_training import MODES, SITE
from tests.support.real_site import Rehearsal, configured
from tests.support.site import REPOSITORY

pytestmark = [pytest.mark.lab, pytest.mark.training]

DOCUMENT = REPOSITORY / "docs" / "training.md"
SMOKE_TESTS = REPOSITORY / "smoke_tests"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    with configured(tmp_path_factory.mktemp("faults"), "train-faults", SITE, "head,w[01-04]") as here:
        yield here


def job_of(name: str) -> str:
    """A job script of the document."""
    return DOCUMENT.read_text().partition(f"<!-- {name} -->\n```\n")[2].partition("```")[0]


def test_slurm_requeues_a_job_whose_node_died(site: Rehearsal) -> None:
    """The job of the document: it continues on other nodes at its last complete checkpoint."""
    script = job_of("requeued.sh")
    assert "--requeue" in script
    site.inside("head", f"cat > /tmp/requeued.sh <<'END'\n{script}END\n")
    site.becomes("head", "sinfo -h -o '%T %D'", "idle 4\n")
    number = site.inside("head", "cd / && sudo -u tests sbatch --parsable --nodelist=w[01-02] /tmp/requeued.sh").strip()
    steps = f"sudo cat /scratch/job-{number}/steps 2>/dev/null | wc -l"
    until(lambda: int(site.inside("w04", steps)) >= 7)
    lab = labs.load(site.lab)
    assert lab is not None
    kind_of(lab).stop(lab, lab.node("w02"), graceful=False)
    killed_s = time.time()
    before = int(site.inside("w04", steps))
    site.becomes("head", f"squeue -h -j {number} -o %r%T | grep -c BeginTime || :", "1\n")
    print(f"requeued {time.time() - killed_s:.0f} s after the kill")
    # What an administrator types: Slurm itself waits two minutes more.
    site.inside("head", f"sudo scontrol update JobId={number} ReqNodeList= StartTime=now")
    until(lambda: int(site.inside("w04", steps)) > before)
    site.becomes("head", f"squeue -h -j {number} -t all -o %T", "COMPLETED\n")
    lines = [json.loads(line) for line in site.inside("w04", f"sudo cat /scratch/job-{number}/steps").splitlines()]
    last = [line for line in lines if line["start"] == lines[-1]["start"]]
    first = [line for line in lines if line["start"] == lines[0]["start"]]
    print(f"resumed {last[0]['at_s'] - killed_s:.0f} s after the kill, at step {last[0]['step']}")
    done = first[-1]["step"]
    assert last[0]["step"] in (done - done % 3 + 1, done - done % 3 - 2)  # the last checkpoint may have been under way
    assert [line["step"] for line in last] == list(range(last[0]["step"], last[-1]["step"] + 1))
    assert "none lost or doubled" in site.inside("w04", f"cat /scratch/job-{number}.out")


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds, five minutes at most."""
    end = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < end
        time.sleep(1)


def here(test: str, ranks: int, *arguments: str, restarts: int = 0) -> list[dict[str, Any]]:
    """The events of a test's ranks on this machine."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SMOKE_TESTS)}
    environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    program = [str(SMOKE_TESTS / test / f"{test}.py"), "--json", *arguments]
    ran = subprocess.run(
        [*command, f"--max_restarts={restarts}", *program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    events = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert events, ran.stderr
    return events


def untrue(events: list[dict[str, Any]]) -> set[str]:
    """What does not hold of what was compared."""
    told = [event for event in events if event["event"] == "assertion"]
    assert told
    return {event["what"] for event in told if not event["at_least"] <= event["error"] <= event["tolerance"]}


@pytest.mark.parametrize("fault", ["lost", "doubled"])
def test_a_fault_in_any_mode_is_found(fault: str) -> None:
    found = untrue(here("train_parallel", 4, "--fault", f"all:{fault}"))
    assert {f"{mode}: gradients, 2-norm" for mode in MODES} <= found
    found = untrue(here("train_3d", 8, "--fault", f"all:{fault}"))
    assert "pipeline_fsdp_tensor: gradients, 2-norm" in found


@pytest.mark.parametrize(("fault", "where"), [("shard", "blocks.0.up.weight as loaded"), ("file", "SHA-256 of ")])
def test_a_wrong_checkpoint_is_found(fault: str, where: str, tmp_path: Path) -> None:
    here("checkpoint", 2, "--launch", "save", "--scratch", str(tmp_path), "--size-mib", "1")
    said = here("checkpoint", 2, "--launch", "load", "--scratch", str(tmp_path), "--size-mib", "1", "--fault", fault)
    assert any(event["where"].startswith(where) for event in said if event["event"] == "wrong")
    assert not any(event["event"] == "result" for event in said)


@pytest.mark.parametrize("fault", ["lost", "doubled", "shard"])
def test_a_wrong_restart_is_found(fault: str, tmp_path: Path) -> None:
    said = here("restart", 2, "--scratch", str(tmp_path), "--size-mib", "1", "--fault", fault, restarts=1)
    wrong = [event["where"] for event in said if event["event"] == "wrong"]
    assert any("optimizer" in where for where in wrong) or untrue(said)
    assert not any(event["event"] == "result" for event in said)
