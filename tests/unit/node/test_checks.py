"""Programs that hang, print without end, leave daemons behind or print what is no text."""

import time

import pytest

from hpcforge.node import checks, commands
from hpcforge.node.events import NodeError
from hpcforge.slurm.nodes import SLURM_NODES_COMMAND, parse_slurm_nodes


def test_outcomes(wanted):
    assert checks.attempt(wanted.check("true"), 5) is None
    assert checks.attempt(wanted.check("sh", "-c", "echo no >&2; exit 3"), 5) == "exit status 3: no"
    assert "program 'nosuch' does not exist" in checks.attempt(wanted.check("nosuch"), 5)
    assert checks.attempt(wanted.check("echo", "a\nUP 3", stdout=r"^UP \d$"), 5) is None
    assert checks.attempt(wanted.check("echo", "DOWN", stdout="UP"), 5) == "output does not match /UP/: DOWN"
    assert "not a program" in checks.attempt(wanted.check("/etc/passwd"), 5)


def test_output_is_plain_text_whatever_it_is(wanted):
    detail = checks.attempt(wanted.check("printf", r"\033[31mred\033[0m \377\000\a\n\nEND", stdout="never"), 5)
    assert detail == "output does not match /never/: red \ufffd\n\nEND"


def test_hung_program_is_killed_with_what_it_started(wanted):
    begin = time.monotonic()
    assert "no answer within 2 s; so far: x" in checks.attempt(
        wanted.check("sh", "-c", "echo x; sleep 60 & sleep 60"), 2
    )
    assert time.monotonic() - begin < 30


def test_daemon_that_keeps_the_pipe_open_does_not_hold_us_up():
    begin = time.monotonic()
    outcome = commands.run(["sh", "-c", "setsid sleep 25 & echo done"], 60)
    assert (outcome.rc, outcome.stdout, outcome.timed_out) == (0, "done\n", False)
    assert time.monotonic() - begin < 20


def test_endless_output_is_bounded():
    outcome = commands.run(["yes"], 2)
    assert outcome.timed_out
    assert len(outcome.stdout) == commands.OUTPUT_LIMIT
    assert outcome.cut


def test_output_that_is_cut_is_a_failure_for_who_reads_it(wanted):
    much = ["head", "-c", str(commands.OUTPUT_LIMIT + 1), "/dev/zero"]
    just = ["head", "-c", str(commands.OUTPUT_LIMIT), "/dev/zero"]
    with pytest.raises(NodeError, match="more than 4 MiB of output"):
        checks.output(much)
    with pytest.raises(NodeError, match="more than 4 MiB of output"):
        commands.succeed(much, 5)
    assert checks.attempt(wanted.check(*much, stdout="x"), 5) == "more than 4 MiB of output"
    assert checks.attempt(wanted.check(*much), 5) is None  # nobody reads it
    assert len(checks.output(just)) == commands.OUTPUT_LIMIT


SHOWN = (
    "NodeName=gpu{0:05} Arch=x86_64 CoresPerSocket=64 CPUAlloc=0 CPUTot=256 CPULoad=0.10 AvailableFeatures=(null) "
    "ActiveFeatures=(null) Gres=gpu:h200:8 NodeAddr=10.9.{1}.{2} NodeHostName=gpu{0:05} Version=22.05.8 OS=Linux "
    "6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 RealMemory=2063000 AllocMem=0 FreeMem=2001000 Sockets=2 "
    "Boards=1 State=IDLE+DRAIN ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=main "
    "BootTime=2026-11-01T10:00:00 SlurmdStartTime=2026-11-01T10:01:00 LastBusyTime=2026-11-20T14:42:46 "
    "CfgTRES=cpu=256,mem=2063000M,billing=256 AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0 "
    "ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s "
    "Reason=hpcforge: memory 1800.5 GiB, declared 2014 GiB (2013 GiB after the reserve) [root@2026-11-20T14:42:46]"
)


def test_ten_thousand_drained_nodes_fit_an_answer(tmp_path, monkeypatch):
    names = range(10_000)
    (tmp_path / "all").write_text("".join(SHOWN.format(n, n // 250, n % 250) + "\n" for n in names))
    assert (tmp_path / "all").stat().st_size > commands.OUTPUT_LIMIT
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f'#!/bin/sh\n[ "$*" = "--oneliner show node" ] && cat {tmp_path}/all\n')
    scontrol.chmod(0o755)
    monkeypatch.setitem(commands.ENVIRONMENT, "PATH", f"{tmp_path}:{commands.ENVIRONMENT['PATH']}")
    found = parse_slurm_nodes(checks.output(SLURM_NODES_COMMAND))
    assert len(found) == 10_000
    assert set(found.values()) == set(parse_slurm_nodes(SHOWN.format(0, 0, 0)).values())
    scontrol.write_text("#!/bin/sh\nexit 1\n")
    assert checks.output(SLURM_NODES_COMMAND) is None


def test_waiting_until_it_passes(tmp_path, wanted):
    flag = tmp_path / "flag"
    script = f"test -e {flag} || {{ touch {flag}; exit 1; }}"
    checks.until_passed(wanted.check("sh", "-c", script, wait_s=5))
    with pytest.raises(NodeError, match=r"`false` \(waited 0.3 s\): exit status 1"):
        checks.until_passed(wanted.check("false", wait_s=0.3))


def test_a_plan_believes_a_failure_at_once_or_when_it_comes_twice(wanted, tmp_path):
    flaky = ("sh", "-c", f"test -e {tmp_path}/seen || {{ touch {tmp_path}/seen; exit 4; }}")
    assert checks.once([wanted.check(*flaky)]) == ["exit status 4"]
    (tmp_path / "seen").unlink()
    assert checks.once([wanted.check(*flaky, wait_s=10)]) == [None]
    assert checks.once([wanted.check("false", wait_s=10)]) == ["exit status 1"]


def test_what_had_all_of_its_time_is_not_tried_again(wanted, tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "_ONCE_S", 0.2)
    hangs = ["sh", "-c", 'echo >>"$1"; exec sleep 30', "sh", str(tmp_path / "tries")]
    assert checks.once([wanted.check(*hangs, wait_s=10)]) == ["no answer within 0.2 s"]
    assert (tmp_path / "tries").read_text() == "\n"


def test_a_command_of_several_checks_runs_once_and_each_judges_what_it_said(wanted, tmp_path):
    count = ("sh", "-c", f"echo run >> {tmp_path}/runs; echo up; echo 'port 22'")
    several = [wanted.check(*count, stdout=pattern) for pattern in ("^up$", "^port 22$", "^down$", "(")] + [
        wanted.check(*count)
    ]
    assert checks.once(several) == [
        None,
        None,
        "output does not match /^down$/: up\nport 22",
        "/(/ is not a regular expression: missing ), unterminated subpattern at position 0",
        None,
    ]
    assert (tmp_path / "runs").read_text() == "run\n"


def test_of_several_checks_those_that_may_need_time_get_a_second_try(wanted, tmp_path):
    flaky = ("sh", "-c", f"test -e {tmp_path}/seen && echo up; touch {tmp_path}/seen")
    at_once, patient = wanted.check(*flaky, stdout="up"), wanted.check(*flaky, stdout="up", wait_s=10)
    assert checks.once([at_once, patient]) == ["output does not match /up/: it is empty", None]


def test_side_by_side(wanted, tmp_path):
    """Each of five waits until all of them have begun."""
    script = f"touch {tmp_path}/$0; until [ $(ls {tmp_path} | wc -l) = 5 ]; do sleep 0.05; done"
    tasks = [lambda number=number: checks.once([wanted.check("sh", "-c", script, str(number))]) for number in range(5)]
    assert checks.side_by_side([*tasks, lambda: 1 / 0]) == [[None]] * 5 + ["ZeroDivisionError: division by zero"]


def test_asking():
    assert checks.output(["echo", "yes"]) == "yes\n"
    assert checks.output(["false"]) is None
    assert checks.output(["nosuch"]) is None
