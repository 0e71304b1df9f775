"""What stands in a test job's comment, and who is believed."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.verify import heartbeat
from hpcforge.verify.submit import SCRIPT

OURS = heartbeat.Owner("cafe01", "ada@desk.example.org", {"where": "0123456789abcdef", "pid": 17, "started": 99})
NOW = "01234567.1000"


def listed(comment: str, state: str = "RUNNING") -> str:
    return f"{NOW}\n12|{state}|w[1-2]|{comment}\n"


def alive(moment: str) -> str:
    return f"{OURS.comment()} alive={moment}"


def up() -> int:
    """Whole seconds since this machine started."""
    return int(float(Path("/proc/uptime").read_text().split()[0]))


def test_the_stamp_of_this_very_moment_is_added_and_understood() -> None:
    before_s = up()
    comment = subprocess.run(
        heartbeat.stamped("echo", OURS.comment()), capture_output=True, text=True, check=True
    ).stdout
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    up_s = up()
    (job,) = heartbeat.parse_owned(f"{boot}.{up_s + 3}\n12|RUNNING|w[1-2]|{comment}")
    assert (job.number, job.nodes, job.owner, job.completing) == ("12", "w[1-2]", OURS, False)
    assert 3 <= job.silent_s <= 3 + up_s - before_s


def test_the_head_is_asked_for_its_moment_and_the_jobs_of_one_user(tmp_path: Path) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text('#!/bin/sh\necho "$@"\n')
    squeue.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = heartbeat.list_command("tests; reboot")
    said = subprocess.run(words, env=path, capture_output=True, text=True, check=True).stdout.splitlines()
    assert heartbeat._MOMENT.fullmatch(said[0])
    assert "--user=tests; reboot --states=PENDING," in said[1]


@pytest.mark.parametrize(("moment", "silent_s"), [("01234567.990", 10), ("01234567.1001", 0), ("deadbeef.990", 1000)])
def test_silence_is_counted_by_the_heads_uptime(moment: str, silent_s: float) -> None:
    assert [job.silent_s for job in heartbeat.parse_owned(listed(alive(moment)))] == [silent_s]


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "(null)",
        "hpcforge",
        OURS.comment(),  # without a stamp
        alive("01234567.990") + " and more",
        alive("01234567.990").replace("ada@", "ada@\x1b[2J"),
        alive("01234567.990").replace(".17.", f".{'9' * 30}."),
        alive("01234567.٣"),
        alive("01234567.990").replace(" by", "\nby"),
    ],
)
def test_any_other_comment_is_a_users_own(comment: str) -> None:
    assert heartbeat.parse_owned(listed(comment)) == ()


@pytest.mark.parametrize("output", ["", "nonsense\n", "12|RUNNING|w1|x\n", f"{NOW}\n{'|' * 40}\n\n12\n"])
def test_an_odd_answer_has_no_jobs(output: str) -> None:
    assert heartbeat.parse_owned(output) == ()


def test_an_odd_name_of_an_operator_makes_no_odd_comment() -> None:
    odd = replace(OURS, who="zoë and | others@\ndesk" + "x" * 200)
    (job,) = heartbeat.parse_owned(listed(f"{odd.comment()} alive=01234567.1"))
    assert job.owner.who.startswith("zo__and___others@_deskxxx")


def test_the_job_ends_when_it_hears_the_same_for_too_long(tmp_path: Path) -> None:
    """The batch script itself, its seconds made tenths, with a queue that tells it three things and then no more."""
    squeue = tmp_path / "squeue"
    squeue.write_text(
        f"#!/bin/sh\n"
        f"count=$(($(cat {tmp_path}/count) + 1)); echo $count >{tmp_path}/count\n"
        f'case $count in 1|2|3) echo "beat $count";; 4) exit 1;; 5) ;; *) echo "beat 3";; esac\n'
    )
    squeue.chmod(0o755)
    (tmp_path / "count").write_text("0")
    script = SCRIPT.replace(f"sleep {heartbeat.POLL_S}", "sleep 0.01")
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "12"}
    subprocess.run(["sh"], input=script, env=path, text=True, check=True, timeout=120)
    assert int((tmp_path / "count").read_text()) == 5 + heartbeat.SILENT_S // heartbeat.POLL_S
