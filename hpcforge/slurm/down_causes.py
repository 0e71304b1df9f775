"""The cause for which a worker takes no job: questions to the worker itself, and the judgement of its answers. Pure.

The worker's answers count for itself alone. What its port does for others is the head's word.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

_SHOW = "Id,LoadState,ActiveState,SubState,UnitFileState,FragmentPath,ExecStart,MainPID"
_PROCESSES = 'for u; do cat "/proc/$(systemctl show --property=MainPID --value "$u")/stat"; done 2>/dev/null; true'
# On a kernel without tables of iptables-legacy the program would create one.
_LEGACY = "for f in ip ip6; do grep -q . /proc/net/${f}_tables_names && ${f}tables-legacy -S; done 2>/dev/null; true"
_LOG = (  # log of a unit, and of Slurm's daemon with this name
    'journalctl -u "$1" -n 20 -o cat --no-pager 2>/dev/null; tail -n 40 "/var/log/slurm/$2.log" 2>/dev/null; '
    'journalctl -u "$1" -n 200 -o cat --no-pager 2>/dev/null | grep -E "error:|fatal:" | tail -n 3; true'
)
_DISKS = "for o in -Pk -Pi; do df $o / /run /tmp /var/lib /var/log; done 2>/dev/null; true"
_FOREIGN_PLACES = ("/etc/", "/run/", "/usr/local/", "/opt/", "/home/", "/srv/")
_OWN_TABLE = "table inet hpcforge"
_CHAIN = re.compile(r"\s*chain (\S+) \{")
_TROUBLE = re.compile(r"(?:[Ee]rror|fatal): ")
_NO_CAUSE = ("pmix", "Zero Bytes were transmitted or received")  # logged at every start, and after a port's probe


def questions(slurmd_unit: str, munge_unit: str, credential: str) -> dict[str, list[str]]:
    """Return the commands for a worker, by name. `credential` was made on the head."""
    return {
        "host": ["uname", "-n"],
        **_unit_questions(slurmd_unit, munge_unit),
        "log": ["sh", "-c", _LOG, "sh", slurmd_unit, "slurmd"],
        "rules": ["sh", "-c", "nft list ruleset 2>/dev/null; true"],
        "legacy": ["sh", "-c", _LEGACY],
        "disks": ["sh", "-c", _DISKS],
        "credential": ["sh", "-c", 'printf %s "$1" | timeout 5 unmunge 2>&1; true', "sh", credential],
    }


def controller_questions(slurmctld_unit: str, munge_unit: str) -> dict[str, list[str]]:
    """Return the commands for a head whose Slurm lists no nodes, by name."""
    return {
        **_unit_questions(slurmctld_unit, munge_unit),
        "log": ["sh", "-c", _LOG, "sh", slurmctld_unit, "slurmctld"],
        "munge_log": ["sh", "-c", _LOG, "sh", munge_unit, "munged"],
    }


def _unit_questions(*units: str) -> dict[str, list[str]]:
    return {
        "units": ["systemctl", "show", f"--property={_SHOW}", *units],
        "processes": ["sh", "-c", _PROCESSES, "sh", *units],
    }


def controller_causes(head: str, answers: Mapping[str, str]) -> tuple[str, ...]:
    """Return why Slurm on the head gives no answer, from the answers to `controller_questions`."""
    slurmctld, munge = _units(answers)
    reasons = [
        *_not_running(f"munge on {head}", munge, answers.get("munge_log", "")),
        *_not_running(f"slurmctld on {head}", slurmctld, answers.get("log", "")),
    ]
    return tuple(reasons) or (f"scontrol on {head} gives no answer",)


@dataclass(frozen=True)
class WorkerAnswers:
    """The known facts of a worker that takes no job."""

    node: str
    head: str
    answers: Mapping[str, str]  # answers of the worker, by the names of `questions`
    slurm_numbers: tuple[int | None, int | None] = (None, None)  # of the account slurm on worker and head
    clock: str = ""  # problem of its clock
    silent: str = ""  # the head's error when it connects to its slurmd
    unreached: Sequence[str] = ()  # targets that the worker cannot connect to, with the error
    obstacles: Sequence[str] = ()  # sentences from the search for obstacles
    no_answer: Collection[str] = ()  # slurmctld or slurmd if it did not answer the worker
    mute: bool = False  # its slurmd did not answer the head

    @property
    def cut_off(self) -> bool:
        """Return whether Slurm's requests fail just now, on one of the two sides."""
        return bool(self.silent or self.no_answer or self.mute)

    @property
    def evidence(self) -> str:
        """The answers that both sides get."""
        worker_side = f"no answer from {' or '.join(self.no_answer)}" if self.no_answer else "an answer from slurmctld"
        head_side = "none" if self.mute or self.silent else "one"
        return f"{self.node} gets {worker_side}; {self.head} gets {head_side} from its slurmd"

    def answer(self, name: str) -> str:
        """Return the first line of an answer."""
        return self.answers.get(name, "").partition("\n")[0].strip()[:200]


def causes(worker: WorkerAnswers) -> tuple[str, ...]:
    """Return the causes, the likeliest first; each is a sentence with the node."""
    slurmd, munge = _units(worker.answers)
    reasons = [
        *_accounts(worker),
        *_host_name(worker),
        *_munge(worker, munge),
        *_slurmd(worker, slurmd),
        *_disks(worker),
    ]
    blocked = [
        *([worker.silent] if worker.silent else []),
        *(f"{worker.node} cannot connect to {peer}" for peer in worker.unreached),
    ]
    stopped = slurmd.get("ActiveState", "active") != "active"
    filtered = bool(worker.unreached) or (bool(worker.silent) and not (stopped and "refused" in worker.silent))
    rules = foreign_rules(worker.answers.get("rules", ""), worker.answers.get("legacy", "")) if filtered else ""
    if rules:
        reasons.insert(0, f"{worker.node}'s firewall has rules of its own: {rules}")
    if not reasons and worker.mute and not worker.silent and "slurmd" in worker.no_answer:
        reasons.append(f"slurmd on {worker.node} accepts connections and answers no request: systemctl restart slurmd")
    reasons += worker.obstacles
    return tuple(dict.fromkeys(reasons or (blocked if filtered else ())))


def checked(worker: WorkerAnswers) -> str:
    """Return what showed nothing."""
    reached = (
        "" if worker.silent else f"; {worker.head} reaches its slurmd, and slurmctld asks it again within a minute"
    )
    return f"slurmd, munge and its key, slurm's number, host name, clock, disks and ports of {worker.node}{reached}"


def foreign_rules(ruleset: str, legacy: str) -> str:
    """Return a chain or rule that drops packets and is not hpcforge's: of `nft list ruleset`, of `iptables-legacy -S`.

    A policy first, then a rule. Chains for incoming packets that others jump to have `input` in their names, as those
    of firewalld and ufw.
    """
    policies, rules = list[str](), list[str]()
    table, chain, hook = "", "", False
    for line in ruleset.splitlines():
        words = line.split()
        if line.startswith("table "):
            table, chain = line.rstrip(" {"), ""
        elif started := _CHAIN.match(line):
            chain, hook = started[1], "input" in started[1].lower()
        elif chain and table != _OWN_TABLE:
            place = f"{table}, chain {chain}"
            if "hook" in words:
                hook = bool({"input", "output"} & {*words})
                policies += [f"{place}, policy drop"] if hook and "policy drop;" in line else []
            elif hook and {"drop", "reject"} & {*words}:
                rules.append(f"{place}, {' '.join(words)[:120]}")
    for line in legacy.splitlines():
        kind, _, rest = line.strip().partition(" ")
        if kind == "-P" and rest in ("INPUT DROP", "OUTPUT DROP"):
            policies.append(f"iptables-legacy, chain {rest.split()[0]}, policy drop")
        elif kind == "-A" and rest.startswith(("INPUT ", "OUTPUT ")) and re.search(r"-j (DROP|REJECT)\b", rest):
            name, _, rule = rest.partition(" ")
            rules.append(f"iptables-legacy, chain {name}, {rule[:120]}")
    return next(iter((*policies, *rules)), "")


def _units(answers: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the properties of Slurm's unit and of munge's, with the `State` of the main process."""
    blocks = answers.get("units", "").split("\n\n")
    units = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in blocks]
    states = {}
    for line in answers.get("processes", "").splitlines():  # PID (NAME) STATE ...: proc(5)
        states[line.partition(" ")[0]] = line.rpartition(") ")[2][:1]
    slurm, munge = ({**unit, "State": states.get(unit.get("MainPID", ""), "")} for unit in (*units, {}, {})[:2])
    return slurm, munge


def _not_running(daemon: str, unit: Mapping[str, str], log: str = "") -> Iterator[str]:
    """Say that a `daemon`, `slurmd on w01`, has ended, with its last error if that was by itself, or is stopped."""
    name, _, node = daemon.partition(" on ")
    active = unit.get("ActiveState", "active")
    if active != "active":
        lines = [line.strip() for line in log.splitlines() if _TROUBLE.search(line)]
        lines = [line for line in lines if not any(words in line for words in _NO_CAUSE)]
        last = f": {lines[-1][:200]}" if lines and active != "inactive" else ""
        yield f"{name} is not running on {node} ({_state(unit)}){last}"
    elif unit.get("State") in ("T", "t"):
        yield f"{daemon} is stopped by a signal (state {unit['State']}): kill -CONT {unit['MainPID']}"


def _accounts(worker: WorkerAnswers) -> Iterator[str]:
    own, expected = worker.slurm_numbers
    if own is not None and expected is not None and own != expected:
        yield f"{worker.node}: slurm is {own} here and {expected} on {worker.head}"


def _host_name(worker: WorkerAnswers) -> Iterator[str]:
    """Compare the host name: slurmd looks it up in slurm.conf, to the first dot."""
    name = worker.answer("host")
    if name and name.partition(".")[0] != worker.node:
        yield f"{worker.node}'s host name is {name}, which is not in slurm.conf: hostnamectl set-hostname {worker.node}"


def _munge(worker: WorkerAnswers, unit: Mapping[str, str]) -> Iterator[str]:
    answer = worker.answers.get("credential", "")
    if stopped := [*_not_running(f"munge on {worker.node}", unit)]:
        yield from stopped
    elif "Invalid credential" in answer:
        yield f"{worker.node} has another munge key than {worker.head}: unmunge says Invalid credential"
    elif worker.clock or "Expired credential" in answer or "Rewound credential" in answer:
        word = "Expired" if "Expired" in answer else "Rewound"
        yield f"{worker.node}: {worker.clock or f'its clock is off: unmunge says {word} credential'}"


def _slurmd(worker: WorkerAnswers, unit: Mapping[str, str]) -> Iterator[str]:
    path, program = unit.get("FragmentPath", ""), _program(unit.get("ExecStart", ""))
    foreign = [place for place in (path, program) if place.startswith(_FOREIGN_PLACES)]
    if unit.get("LoadState") != "masked" and foreign:
        yield f"slurmd on {worker.node} is not the package's: {' starts '.join(filter(None, (path, program)))}"
    yield from _not_running(f"slurmd on {worker.node}", unit, worker.answers.get("log", ""))


def _state(unit: Mapping[str, str]) -> str:
    """Return `masked`, `not installed`, or `inactive, disabled`."""
    load = unit.get("LoadState", "")
    if load == "masked":
        return "masked"
    if load == "not-found":
        return "not installed"
    return ", ".join(filter(None, (unit.get("ActiveState"), unit.get("UnitFileState"))))


def _program(start: str) -> str:
    """Return the program of `{ path=/usr/sbin/slurmd ; argv[]=... }`."""
    return start.partition("path=")[2].partition(" ")[0]


def _disks(worker: WorkerAnswers) -> Iterator[str]:
    full: dict[str, str] = {}
    for line in worker.answers.get("disks", "").splitlines():
        fields = line.split()
        if len(fields) == 6 and fields[4] == "100%" and fields[3].isdigit() and int(fields[3]) == 0:
            full.setdefault(fields[5], "")
    yield from (f"the file system {place} on {worker.node} is full" for place in full)
