"""Why a worker takes no job, from answers in the forms that the programs print.

Forms: `systemctl show` (systemctl(1)), `nft list ruleset` (nft(8)), `iptables-legacy -S` (iptables(8)), `unmunge`
(unmunge(1), and munge's enum.c for the words of a status), `df -P` (POSIX). slurmd's and slurmctld's numbers have to be
the same: see "Slurm user" in Slurm's quick start for administrators.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcforge.slurm.down_causes import (
    WorkerAnswers,
    causes,
    checked,
    controller_causes,
    controller_questions,
    foreign_rules,
    questions,
)

SLURMD = """\
Id=slurmd.service
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
FragmentPath=/lib/systemd/system/slurmd.service
ExecStart={ path=/usr/sbin/slurmd ; argv[]=/usr/sbin/slurmd -D ; ignore_errors=no }
"""
MUNGE = """\
Id=munge.service
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
FragmentPath=/lib/systemd/system/munge.service
"""
SOUND = {
    "host": "w03\n",
    "units": f"{SLURMD}\n{MUNGE}",
    "credential": "STATUS:          Success (0)\n",
    "disks": "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda1 100 40 60 40% /\n",
}
WELL = WorkerAnswers("w03", "head", SOUND, (64030, 64030))
POLICY = """\
table inet site {
	chain input {
		type filter hook input priority filter; policy drop;
		ct state established,related accept
		tcp dport 22 accept
	}
}
"""
OURS = POLICY.replace("inet site", "inet hpcforge")
SILENT = "head cannot connect to its slurmd at 10.0.0.3:6818: no answer within 2 s"
REFUSED = SILENT.replace("no answer within 2 s", "connection refused")


def units(old: str = "", new: str = "", munge: tuple[str, str] = ("", "")) -> str:
    return f"{SLURMD.replace(old, new)}\n{MUNGE.replace(*munge)}"


STOPPED = "ActiveState=active", "ActiveState=inactive"
DISABLED = units("ActiveState=active", "ActiveState=inactive").replace("enabled", "disabled", 1)
LOG = "started\n[2026-11-28T10:00:00] error: Munge encode failed: Failed to access\nslurmd: fatal: no NodeName\nbye\n"
BUILT = units("ExecStart={ path=/usr/sbin", "ExecStart={ path=/usr/local/sbin").replace("/lib/s", "/etc/s", 1)
ONE = [  # one answer that is other, and the cause
    ("host", "ip-10-0-0-3.eu.internal\n", "w03's host name is ip-10-0-0-3.eu.internal, which is not in slurm.conf: "),
    ("units", units(munge=STOPPED), "munge is not running on w03 (inactive, enabled)"),
    ("units", units(munge=("=loaded", "=masked")).replace("masked\nActiveState=active", "masked\nActiveState=failed"),
     "munge is not running on w03 (masked)"),
    ("units", DISABLED, "slurmd is not running on w03 (inactive, disabled)"),
    ("units", BUILT, "slurmd on w03 is not the package's: /etc/systemd/system/slurmd.service starts /usr/local/sbin/"),
    ("credential", "STATUS: Invalid credential (15)\n", "w03 has another munge key than head: unmunge says Invalid"),
    ("credential", "STATUS: Rewound credential (16)\n", "w03: its clock is off: unmunge says Rewound credential"),
    ("credential", "STATUS: Expired credential (15)\n", "w03: its clock is off: unmunge says Expired credential"),
    ("disks", "tmpfs 100 100 0 100% /run\n/dev/vda1 9 9 0 100% /var/log\n", "the file system /run on w03 is full"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "answer", "cause"), ONE)
def test_a_cause_is_named(name: str, answer: str, cause: str) -> None:
    assert causes(replace(WELL, answers={**SOUND, name: answer}))[0].startswith(cause)


def test_another_number_of_slurm_is_named() -> None:
    assert causes(replace(WELL, slurm_numbers=(1001, 64030))) == ("w03: slurm is 1001 here and 64030 on head",)
    assert causes(replace(WELL, slurm_numbers=(None, 64030))) == ()
    assert causes(replace(WELL, slurm_numbers=(1001, None))) == ()


def test_a_sound_worker_has_no_cause_and_what_was_checked_is_told() -> None:
    assert causes(WELL) == ()
    assert "w03; head reaches its slurmd" in checked(WELL)
    assert causes(replace(WELL, answers={})) == ()
    assert causes(replace(WELL, answers={**SOUND, "rules": POLICY})) == ()  # every port answers


def test_the_last_error_of_a_slurmd_that_ended_by_itself_is_told() -> None:
    failed = DISABLED.replace("ActiveState=inactive", "ActiveState=failed", 1)
    assert causes(replace(WELL, answers={**SOUND, "units": failed, "log": LOG})) == (
        "slurmd is not running on w03 (failed, disabled): slurmd: fatal: no NodeName",
    )
    assert causes(replace(WELL, answers={**SOUND, "units": DISABLED, "log": LOG})) == (
        "slurmd is not running on w03 (inactive, disabled)",
    )


def test_the_line_of_a_port_probe_is_no_error_of_slurmd() -> None:
    failed = DISABLED.replace("ActiveState=inactive", "ActiveState=failed", 1)
    log = LOG + "slurmd: error: slurm_receive_msg [10.0.0.1:4000]: Zero Bytes were transmitted or received\n"
    (cause,) = causes(replace(WELL, answers={**SOUND, "units": failed, "log": log}))
    assert cause.endswith(": slurmd: fatal: no NodeName")


PIDS = units("ActiveState", "MainPID=41\nActiveState", ("ActiveState", "MainPID=42\nActiveState"))
PROCESSES = [  # of /proc/PID/stat, see proc(5)
    ("41 (slurmd) S 1 41\n42 (munged) S 1 42\n", ()),
    ("41 (slurmd) T 1 41\n42 (munged) S 1 42\n", ("slurmd on w03 is stopped by a signal (state T): kill -CONT 41",)),
    ("41 (a) T b) S 1 41\n42 (munged) T 1\n", ("munge on w03 is stopped by a signal (state T): kill -CONT 42",)),
]


@pytest.mark.parametrize(("processes", "named"), PROCESSES)
def test_a_process_that_a_signal_stopped_is_named(processes: str, named: tuple[str, ...]) -> None:
    assert causes(replace(WELL, answers={**SOUND, "units": PIDS, "processes": processes})) == named


CONTROLLER = [  # answers of the head, why its Slurm is silent
    ({}, ("scontrol on head gives no answer",)),
    ({"units": units()}, ("scontrol on head gives no answer",)),
    ({"units": units(*STOPPED)}, ("slurmctld is not running on head (inactive, enabled)",)),
    ({"units": units(munge=("=loaded", "=masked")).replace("masked\nActiveState=active", "masked\nActiveState=failed")},
     ("munge is not running on head (masked)",)),
    ({"units": units("=active", "=failed"), "log": "slurmctld: fatal: no ClusterName\n"},
     ("slurmctld is not running on head (failed, enabled): slurmctld: fatal: no ClusterName",)),
    ({"units": units(munge=("=active", "=failed")), "munge_log": "munged: Error: Keyfile is insecure\n"},
     ("munge is not running on head (failed, enabled): munged: Error: Keyfile is insecure",)),
    ({"units": PIDS, "processes": "41 (slurmctld) T 1\n"},
     ("slurmctld on head is stopped by a signal (state T): kill -CONT 41",)),
]  # fmt: skip


@pytest.mark.parametrize(("answers", "named"), CONTROLLER)
def test_why_the_controller_lists_no_nodes(answers: dict[str, str], named: tuple[str, ...]) -> None:
    assert controller_causes("head", answers) == named
    assert {*answers} <= {*controller_questions("slurmctld.service", "munge.service")}


def test_a_firewall_is_the_cause_only_where_a_port_does_not_answer() -> None:
    blocked = replace(WELL, answers={**SOUND, "rules": POLICY}, silent=SILENT)
    cause = "w03's firewall has rules of its own: table inet site, chain input, policy drop"
    assert causes(blocked) == (cause,)
    stopped = replace(blocked, answers={**blocked.answers, "units": DISABLED}, silent=REFUSED)
    assert causes(stopped) == ("slurmd is not running on w03 (inactive, disabled)",)
    outward = replace(blocked, silent="", unreached=["slurmctld on head (10.0.0.1:6817): no answer within 2 s"])
    assert causes(outward) == (cause,)
    assert causes(replace(outward, answers=SOUND)) == (
        "w03 cannot connect to slurmctld on head (10.0.0.1:6817): no answer within 2 s",
    )
    assert causes(replace(WELL, silent=SILENT)) == (SILENT,)  # something between them


def test_a_clock_and_obstacles_of_a_search() -> None:
    off = replace(WELL, clock="its clock is 86,400 s behind that of head", obstacles=["w03: unit slurmd: masked"])
    assert causes(off) == ("w03: its clock is 86,400 s behind that of head", "w03: unit slurmd: masked")


IPTABLES = "-P INPUT ACCEPT\n-A INPUT -p tcp -m tcp --dport 6818 -j DROP\n"
RULES = [  # nft, iptables-legacy, what is named
    ("", "", ""),
    (OURS, "", ""),
    (OURS + POLICY, "", "table inet site, chain input, policy drop"),
    ("table inet a {\n chain input {\n  type filter hook input priority 0; policy accept;\n"
     "  tcp dport 6818 drop\n }\n}\n", "", "table inet a, chain input, tcp dport 6818 drop"),
    ("table inet firewalld {\n\tchain filter_INPUT {\n\t\ttype filter hook input priority filter + 10; policy accept;\n"
     "\t\tct state { established, related } accept\n\t\treject with icmpx admin-prohibited\n\t}\n}\n",
     "", "table inet firewalld, chain filter_INPUT, reject with icmpx admin-prohibited"),
    ("table ip filter {\n\tchain INPUT {\n\t\ttype filter hook input priority filter; policy drop;\n"
     "\t\tcounter packets 9 bytes 9 jump ufw-before-input\n\t}\n}\n", "", "table ip filter, chain INPUT, policy drop"),
    ("table ip filter {\n chain DOCKER-ISOLATION-STAGE-2 {\n  oifname \"docker0\" counter drop\n }\n}\n", "", ""),
    ("table ip nat {\n chain fwd {\n  type filter hook forward priority 0; policy drop;\n }\n}\n", "", ""),
    ("", IPTABLES, "iptables-legacy, chain INPUT, -p tcp -m tcp --dport 6818 -j DROP"),
    ("", "-P INPUT DROP\n-P FORWARD DROP\n", "iptables-legacy, chain INPUT, policy drop"),
    ("", "-P INPUT ACCEPT\n-P FORWARD DROP\n-A FORWARD -j DROP\n", ""),
    ("table inet cut {", "-A", ""),
]  # fmt: skip


@pytest.mark.parametrize(("ruleset", "legacy", "named"), RULES)
def test_whose_rules_drop_packets(ruleset: str, legacy: str, named: str) -> None:
    assert foreign_rules(ruleset, legacy) == named


def test_no_question_changes_anything_and_each_has_its_answer() -> None:
    asked = questions("slurmd.service", "munge.service", "MUNGE:abc:")
    assert {*SOUND} <= {*asked}
    assert asked["credential"][-1] == "MUNGE:abc:"
    assert asked["units"][-2:] == ["slurmd.service", "munge.service"]
