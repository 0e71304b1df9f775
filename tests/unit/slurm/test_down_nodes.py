"""Which workers take no job without an operator's doing, by what scontrol prints of them.

The forms are those of `scontrol --oneliner show node` of 22.05 and 24.11, less the fields that are not asked for: the
reason comes last, with account and time in brackets; 24.11 may print a comment or extra text after it. Reasons are
those of Slurm's sources, which `SLURM_DRAINS` names (https://github.com/SchedMD/slurm); "Kill task failed
[root@...]" is as public reports of drained nodes have it: slurmd asks for the drain as root.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hpcforge.slurm.down_nodes import (
    DownWorker,
    down_workers,
    slurm_requests,
    slurmd_requests,
    still_suspect,
    suspect_states,
)
from hpcforge.slurm.nodes import SLURM_DRAINS, reason_setters

AT = "2026-11-28T10:02:41"
OPERATOR = f"Reason=new disk [ada@{AT}]"
STATES = [  # state, reason; what it is called where it is a fault
    ("IDLE", "", ""),
    ("MIXED+PLANNED", "", ""),
    ("IDLE+RESERVED", "", ""),
    ("IDLE+DRAIN", OPERATOR, ""),
    ("MIXED+DRAIN", OPERATOR, ""),
    ("IDLE+DRAIN+NOT_RESPONDING", OPERATOR, ""),
    ("DOWN+DRAIN", OPERATOR, ""),
    ("DOWN+MAINTENANCE", "", ""),
    ("IDLE+MAINTENANCE+NOT_RESPONDING", "", ""),
    ("DOWN+REBOOT_ISSUED", f"Reason=reboot requested [root@{AT}]", ""),
    ("IDLE+REBOOT_REQUESTED", "", ""),
    ("FUTURE", "", ""),
    ("DOWN+FUTURE", "", ""),
    ("IDLE+CLOUD+POWERED_DOWN", "", ""),
    ("IDLE+CLOUD+POWERING_UP+NOT_RESPONDING", "", ""),
    ("DOWN+CLOUD+POWERED_DOWN", "", ""),
    ("IDLE+POWERING_DOWN", "", ""),
    ("IDLE+FAIL", f"Reason=fan [root@{AT}]", ""),
    ("DOWN+NOT_RESPONDING", f"Reason=Not responding [slurm@{AT}]", "down"),
    ("DOWN", f"Reason=Node unexpectedly rebooted [slurm@{AT}]", "down"),
    ("DOWN", f"Reason=broken [root@{AT}]", "down"),  # no drain: nothing says that somebody is at work there
    ("DOWN", "", "down"),
    ("IDLE+NOT_RESPONDING", "", "not responding"),
    ("ALLOCATED+NOT_RESPONDING", "", "not responding"),
    ("UNKNOWN", "", "not registered"),
    ("UNKNOWN+NOT_RESPONDING", "", "not responding"),
    ("IDLE+INVALID_REG", f"Reason=gres/gpu count reported lower than configured (0 < 2) [slurm@{AT}]", "invalid"),
    ("INVAL", "", "invalid"),
    ("ERROR", "", "in error"),
    ("IDLE+DRAIN", f"Reason=Low RealMemory (reported:1 < 100.00% of configured:2) [slurm@{AT}]", "drained"),
    ("IDLE+DRAIN", f"Reason=Kill task failed [root@{AT}]", "drained"),
    ("IDLE+DRAIN", f"Reason=Prolog error [root@{AT}]", "drained"),
    ("IDLE+DRAIN", f"Reason=hpcforge: GPUs 1, declared 2 [root@{AT}]", "drained"),
    ("IDLE+DRAIN", f"Reason=hpcforge-health: disk [root@{AT}]", "drained"),
]


BY_SLURM = [  # as Slurm 22.05, 24.11 or 26.05 writes them
    "SlurmdSpoolDir is full",
    "switch_g_job_postfini failed",
    "Kill task failed",
    "Kill task failed (JobId=7 StepId=batch)",
    "Job step not running",
    "Failed to set node feature(s): 'cache'",
    "Low socket*core*thread count, Low CPUs",
    "Low CPUs",
    "Low TmpDisk",
    "CoreSpec differ",
    "RestrictedCoresPerGPU=2 but no gpus on node w02",
    "Could not unpack gres data",
    "Reported active features (a) are not a superset of currently active changeable features (b)",
    "Failed to parse dynamic_conf nodeline",
    "Failed to set topology 'default:s1'",
    "Job env setup error",
    "Prolog error",
    "Prolog error : Low CPUs",
    "Epilog error",
    "gres/gpu count reported lower than configured (0 < 2)",
    "Prolog/Epilog failure",
    "Duplicate jobid",
    "batch job complete failure",
    "Bad core count",
    "Not responding",
    "Low RealMemory (reported:1 < 100.00% of configured:2)",
    "Node unexpectedly rebooted",
    "ResumeTimeout reached",
    "reboot timed out",
    "NO NETWORK ADDRESS FOUND",
]


@pytest.mark.parametrize("reason", BY_SLURM)
def test_a_drain_by_slurm_itself_is_a_fault_whatever_account_it_has(reason: str) -> None:
    for state in ("IDLE+DRAIN", "MIXED+DRAIN"):
        lines = f"NodeName=w02  State={state} Reason={reason} [root@{AT}]\n"
        assert [(worker.state, worker.reason) for worker in down_workers(["w02"], lines, {})] == [("drained", reason)]


def test_each_reason_of_slurm_has_an_example() -> None:
    assert [known for known in SLURM_DRAINS if not any(reason.startswith(known) for reason in BY_SLURM)] == []


@pytest.mark.parametrize("reason", ["disk is full", "spool: Kill task failed?", "prolog of site", "full", "update"])
def test_a_drain_by_root_for_another_reason_is_an_operators(reason: str) -> None:
    assert down_workers(["w02"], f"NodeName=w02  State=IDLE+DRAIN Reason={reason} [root@{AT}]\n", {}) == ()


@pytest.mark.parametrize(("state", "reason", "word"), STATES)
def test_a_state_is_an_operators_or_a_fault(state: str, reason: str, word: str) -> None:
    lines = f"NodeName=w01  State=IDLE\nNodeName=w02  State={state} {reason}\n"
    assert [worker.state for worker in down_workers(["w01", "w02"], lines, {})] == [word] * bool(word)
    silent = {"w02": "head cannot connect"}  # what nothing is expected of may be silent, too
    found = [worker.state for worker in down_workers(["w02"], lines, silent)]
    expected = {"IDLE", "MIXED+PLANNED", "IDLE+RESERVED", "IDLE+REBOOT_REQUESTED"}
    assert found == ([word] if word else ["not reachable for slurmctld"] * (state in expected))


def test_one_that_refuses_slurmctld_is_named_where_something_is_expected_of_it() -> None:
    lines = f"NodeName=w01  State=IDLE\nNodeName=w02  State=IDLE+DRAIN {OPERATOR}\n"
    (worker,) = down_workers(["w01", "w02"], lines, {}, refusing=["w01", "w02"])
    assert worker.sentence == "w01 is refusing slurmctld's requests"


def test_since_when_and_why() -> None:
    line = f"NodeName=w03  State=DOWN+NOT_RESPONDING Reason=Not responding [slurm@{AT}]"
    (worker,) = down_workers(["w03"], f"{line}\n", {})
    assert worker.sentence == "w03 is down since 2026-11-28 10:02 (Not responding)"
    assert DownWorker("w03", "down", causes=("a", "b")).sentence == "w03 is down: a; b"
    assert DownWorker("w03", "down", checked="munge").sentence == "w03 is down: no cause found: munge"


def test_the_account_of_a_reason_is_the_last_one_in_brackets() -> None:
    lines = [
        f"NodeName=w01  State=DOWN Reason=see [root@2020-01-01T00:00:00] [slurm@{AT}]",
        f"NodeName=w02  State=DOWN Reason=disk [ada@{AT}] Extra=rack 7",
        "NodeName=w03  State=DOWN Reason=no bracket",
        f"NodeName=w04  State=IDLE Comment=[x@{AT}]",
    ]
    setters = reason_setters("\n".join(lines))
    assert setters == {"w01": ("slurm", "2026-11-28 10:02"), "w02": ("ada", "2026-11-28 10:02")}


def test_what_slurm_does_not_list_is_named_only_where_it_was_configured() -> None:
    lines = "NodeName=w01  State=IDLE\n"
    assert down_workers(["w01", "w02"], lines, {}) == ()
    (worker,) = down_workers(["w01", "w02"], lines, {}, registered=["w01", "w02"])
    assert worker.sentence == "w02 is not in Slurm's list of nodes"
    assert down_workers(["w01", "w02"], "", {}, registered=["w01", "w02"]) == ()  # slurmctld is silent


def test_on_another_distribution_slurmctld_has_another_account() -> None:
    lines = f"NodeName=w01  State=IDLE+DRAIN Reason=odd [slurmd@{AT}]\n"
    assert down_workers(["w01"], lines, {}) == ()
    assert len(down_workers(["w01"], lines, {}, "slurmd")) == 1


SUSPECTS = [  # answers of the controller and of w01; its state as a suspect
    ("", "", ""),
    ("", "slurmctld\n", "not reaching slurmctld"),
    ("", "slurmd\n", "not answering Slurm's requests"),
    ("", "slurmd\nslurmctld\n", "not answering Slurm's requests"),
    (f"{AT}\nw[01-02]|2026-11-28T10:02:40\n", "", "completing"),
    (f"{AT}\nw[01-02]|2026-11-28T10:02:42\n", "", ""),
    (f"{AT}\nw01|2026-11-28T10:03:00\nw01|2026-11-28T09:00:00\n", "", "completing"),
    (f"{AT}\nw01|Unknown\nw01|\n|\nw[|{AT}\n", "", ""),
    ("w01|2026-11-28T10:01:00\n", "", ""),
]


@pytest.mark.parametrize(("completing", "requests", "state"), SUSPECTS)
def test_which_workers_are_suspects(completing: str, requests: str, state: str) -> None:
    states = suspect_states(completing, {"w01": requests})
    assert states.get("w01", "") == state
    found = down_workers(["w01"], "NodeName=w01  State=IDLE\n", {}, suspects=states)
    assert [(worker.state, worker.suspect) for worker in found] == [(state, True)] * bool(state)
    assert down_workers(["w01"], "NodeName=w01  State=IDLE+DRAIN\n", {}, suspects=states) == ()


def test_which_suspects_are_so_when_slurm_is_asked_again() -> None:
    ending, lost = DownWorker("w01", "completing"), DownWorker("w01", "not responding")
    for worker, state, still in (
        (ending, "IDLE+COMPLETING", True),
        (ending, "IDLE", False),
        (lost, "IDLE+NOT_RESPONDING", True),
        (lost, "IDLE", False),
        (DownWorker("w01", "not reaching slurmctld"), "IDLE", False),
    ):
        assert still_suspect(worker, f"NodeName=w01  State={state}\n") == still


SCONTROL = """\
#!/bin/sh
case "$1 ${SLURMD_NODENAME:-here}" in
"ping here") echo "Slurmctld(primary) at head is @controller@" ;;
"show w02" | "show @stopped@") exec tail -f /dev/null ;;
esac
"""


@pytest.mark.parametrize(
    ("controller", "stopped", "words"),
    [
        ("UP", "none", []),
        ("DOWN", "none", ["slurmctld"]),
        ("UP", "here", ["slurmd"]),
        ("DOWN", "here", ["slurmctld", "slurmd"]),
    ],
)
def test_daemons_that_give_no_answer_are_printed(
    controller: str, stopped: str, words: list[str], tmp_path: Path
) -> None:
    """A daemon that is stopped accepts the request, and scontrol waits."""
    program = tmp_path / "scontrol"
    program.write_text(SCONTROL.replace("@controller@", controller).replace("@stopped@", stopped))
    program.chmod(0o755)

    def printed(command: list[str], path: str) -> list[str]:
        done = subprocess.run(command, capture_output=True, text=True, env={"PATH": path}, check=False)
        assert done.stderr == ""
        return sorted(done.stdout.split()) if done.returncode == 0 else ["failed"]

    path = f"{tmp_path}:/usr/bin:/bin"
    assert printed(slurm_requests(0.3), path) == words
    assert printed(slurmd_requests(["w01", "w02", "w03"], 0.3), path) == ["w02"]
    assert printed(slurm_requests(0.3), "/nonexistent:/usr/bin:/bin") == ["failed"]  # no Slurm there yet
