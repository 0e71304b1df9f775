"""Three nodes that answer well or oddly, and an apply of them with everything that it prints.

What a node says goes the way that its lines go, through the border and then through looking, planning, the walk,
admission, the records and all that is printed.
"""

from __future__ import annotations

import io
import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hpcforge.cluster.model import (
    Access,
    Cluster,
    GpuModel,
    Gpus,
    Network,
    Node,
    OperatingSystem,
    Partition,
    Service,
    Slurm,
)
from hpcforge.engines.node_output import AnswerReader
from hpcforge.engines.tasks import Command, Event, NodeProgram, Task, result
from hpcforge.kinds import KINDS
from hpcforge.kinds.files import File
from hpcforge.node.verbs import checked
from hpcforge.plan.desired import Check, Desired, DesiredRole, RoleNeed, Unit
from hpcforge.plan.diff import SLURM_NODES, diff
from hpcforge.plan.plan import Plan
from hpcforge.plan.roster import PATH as ROSTER_PATH
from hpcforge.plan.roster import Enrolled, LastRun, Roster, roster_document
from hpcforge.report.apply_text import nodes_table, verdicts_text
from hpcforge.report.event_stream import Stream
from hpcforge.report.plan_text import plan_text, stays_text
from hpcforge.report.progress import Progress
from hpcforge.report.status import history_table, status_json, status_text
from hpcforge.run.apply import admit, latest_facts
from hpcforge.run.executor import execute
from hpcforge.run.observe import wait_for_others
from hpcforge.run.records.history import past, write_log
from hpcforge.run.result import ApplyResult, Run, RunResult, Verified
from hpcforge.run.site import Goal
from hpcforge.run.status import status
from hpcforge.run.survey import Survey, survey_nodes
from hpcforge.verify.verdict_records import VERDICTS_PATH, KeptVerdicts, Recorded, dump, load
from hpcforge.verify.verdicts import Verdict

Line = dict[str, Any]
ODD = "w1"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
RUN = Run(8, "cafe", "ada@desk", "small", "0.1")


def node(name: str, function: str, address: str, gpus: Gpus | None = None) -> Node:
    return Node(
        name=name,
        group=name,
        functions=(function,),  # type: ignore[arg-type]
        hardware="rehearsal-node",
        sockets=1,
        cores_per_socket=2,
        threads_per_core=1,
        memory_mib=4096,
        gpus=gpus,
        address=address,
        host_keys=(KEY,),
        reserve_cores=1,
        reserve_memory_mib=1024,
    )


CLUSTER = Cluster(
    name="small",
    domain="small.example.org",
    access=Access("ops", "sudo", None),
    nodes=(
        node("head", "head", "10.0.0.1"),
        node(ODD, "worker", "10.0.0.2", Gpus("h100-sxm", 1)),
        node("w2", "worker", "10.0.0.3", Gpus("fake", 2)),
    ),
    network=Network("cluster", "10.0.0.0/24"),
    services={name: Service(("head",), (), {"forward": ()}) for name in ("dns", "time", "depot")},
    os=OperatingSystem("debian", "12", "3.11", "22.05", "2.36", "9.2"),
    pytorch=None,
    site_roles=(),
    slurm=Slurm("head", (), (Partition("main", ("w1", "w2"), True, "INFINITE"),)),
    users=(),
    acceptance=None,
    gpu_models={"h100-sxm": GpuModel(("NVIDIA H100 80GB HBM3",), 80, 18, 16, 5)},
)
NAMES = tuple(node.name for node in CLUSTER.nodes)


def wanted(role: str, *needs: RoleNeed) -> DesiredRole:
    text = File(f"/etc/{role}.conf", "0644", "root", "root", "d1", None, False)
    return DesiredRole(
        role=role,
        packages=(role,),
        resources=(text,),
        units=(Unit(f"{role}.service", (text.path,)),),
        checks=(Check("it answers", ("true",), None, 1.0),),
        needs=needs,
        opaque=None,
    )


SERVER = (wanted("server"),)
CLIENT = (wanted("client", RoleNeed("server", ("head",))),)
DESIRED = Desired(("server", "client"), {"head": SERVER, "w1": CLIENT, "w2": CLIENT}, {"d1": "new\n"})

FACTS = {
    "hostname": "n",
    "machine_id": "m",
    "boot_id": "b",
    "os_id": "debian",
    "os_release": "12",
    "kernel": "6.1",
    "arch": "x86_64",
    "virtualisation": "none",
    "python": "3.11.2",
    "memory_kib": 4 << 20,
    "cpus": 2,
    "gpus": {"fake": 2, "nvidia": 1},
    "time_s": 1.7e9,
}
GPU = {
    "index": 0,
    "model": "NVIDIA H100 80GB HBM3",
    "serial": "1652323000000",
    "uuid": "GPU-0",
    "vbios": "96.00",
    "bus_id": "0000:1b:00.0",
    "memory_mib": 81559,
    "ecc": True,
    "ecc_uncorrected": 1,
    "ecc_uncorrected_ever": 1,
    "remapped": {"correctable": 0, "uncorrectable": 0, "pending": False, "failed": False},
    "nvlinks": {"active": 18, "total": 18},
    "pcie_width": 16,
    "pcie_width_max": 16,
    "pcie_generation": 5,
    "pcie_generation_max": 5,
    "clock_mhz": 345,
    "clock_max_mhz": 1980,
    "clock_reasons": 8,
    "temperature_c": 31,
    "mig": None,
    "error": None,
    "troubles": {"model": "odd"},
}
NVML = {"driver": "550.163.01", "gpus": [GPU], "error": None, "on_bus": ["0000:1b:00.0"]}
STAYS = {"kind": "package", "names": ["oldd", "older"], "why": "they stay"}
RECEIPT = {
    "run": 7,
    "who": "ada@desk",
    "since_s": 1.7e9,
    "cluster": "small",
    "hpcforge": "0.1",
    "trouble": "it is damaged",
    "surplus": {
        "old": {
            "files": ["/etc/old"],
            "units": ["old.service"],
            "accounts": ["old"],
            "trees": ["/opt/old"],
            "stays": [STAYS],
            "disrupts": "restart",
            "on_remove": "stop",
        }
    },
    "unowned": ["client"],
}
HOLDER = {
    "run_id": "beef",
    "who": "eve@far",
    "number": 7,
    "process": {"where": "there", "pid": 12, "started": 3},
    "since_s": 1.7e9,
    "age_s": 60.0,
    "silent_s": 1.0,
}
OLD = {"digest": "d0", "text": "old\n", "written": None}
OWNED = {"mode": "0644", "owner": "root", "group": "root"}


def difference(role: str) -> Line:
    path = f"/etc/{role}.conf"
    return {
        "role": role,
        "packages": [role],
        "removes": [{"name": "other", "by": [role]}],
        "unforeseen": ["newer"],
        **{kind: [] for kind in KINDS},
        "directories": [{"path": "/etc/d", "exists": False, "kind": None, "mode": None, "owner": None, "group": None}],
        "files": [{"path": path, "exists": True, "kind": "file", **OLD, **OWNED}],
        "accounts": [
            {"name": "a", "exists": True, "uid": 1, "gid": 1, "home": "/h", "shell": "/s", "expires": None}
        ],
        "units": [{"name": f"{role}.service", "enabled": False, "active": "inactive", "restart_pending": False}],
        "checks": [{"name": "it answers", "detail": "no"}],
        "opaque": {"digest": "d"},
        "reboot": False,
    }  # fmt: skip


def observed(role: str, reads: Mapping[str, str] | None = None, answers: Mapping[str, str] | None = None) -> Line:
    return {
        "event": "observed",
        "facts": FACTS,
        "differs": [difference(role)],
        "obstacles": [],
        "reads": dict(reads or {"/etc/read": "text"}),
        "answers": dict(answers or {"asked": "text"}),
        "receipt": RECEIPT,
        "reverted": [{"guard": "g", "role": role, "since_s": 1.7e9, "why": "time", "errors": ["one"]}],
        "armed": [{"guard": "g", "roles": [role], "left_s": 0.0}],
        "at_work": {
            "purpose": "p",
            "who": "eve@far",
            "number": 7,
            "task": None,
            "unit": "u",
            "since_s": 1.7e9,
            "pid": 9,
        },
        "clock": {"asked_s": 1.7e9, "said_s": 1.7e9},
    }


DONE = {"event": "done", "changed": 1, "failed": [], "skipped": [], "facts": FACTS}
LEASE = {"event": "lease", "held": HOLDER, "took_over": HOLDER}
PAST = past(RUN, ApplyResult(RunResult({})), args=[], dirty=False, started_s=1.7e9, exit_code=0)
LOG = {
    "event": "log",
    "lines": ['{"id": "x", "who": "y", "number": 3, "started_s": 1.7e9}'],
    "before": 2,
    "roster": None,
}
AT_WORK = [
    {"event": "changed", "role": "client", "kind": "file", "name": "/etc/client.conf", "detail": "content"},
    {"event": "progress", "role": "client", "detail": "installing"},
    {"event": "warning", "detail": "odd"},
    {"event": "remains", "stays": [STAYS]},
    {"event": "skipped", "role": "client", "because": "server"},
    {"event": "role_done", "role": "client"},
]
FAILED = {"event": "failed", "role": "client", "kind": "unit", "name": "client.service", "error": "no"}
NO_PYTHON = {
    "event": "no_python",
    **{key: FACTS[key] for key in ("os_id", "os_release", "arch", "kernel", "hostname", "memory_kib", "cpus")},
}
NO_ROOT = {"event": "no_root", "user": "ops", "error": "no"}
ROSTER = Roster(
    "small",
    LastRun(7, "beef", "ada@desk", 1.7e9, "0.1"),
    {node.name: Enrolled(node.address, node.host_keys, node.group, node.functions, 1) for node in CLUSTER.nodes},
)
SLURM = "".join(f"NodeName={name} State=IDLE Reason=x\n" for name in ("w1", "w2"))
VERDICT = Verdict("allreduce", "passed", ("w1", "w2"), ranks=2, measurements=({"busbw_gb_per_s": 1, "size_bytes": 8},))


def kept(verdict: Verdict, time_s: float) -> str:
    return dump(Recorded((KeptVerdicts(verdict, time_s, verdict.nodes),)))


HEAD_SAYS = observed(
    "server",
    {ROSTER_PATH: json.dumps(roster_document(ROSTER)), VERDICTS_PATH: kept(VERDICT, 1.7e9)},
    {SLURM_NODES: SLURM},
)

Say = Callable[[Task], list[Any] | None]  # lines of a node in place of what it says well; text is sent as it is


class Nodes:
    """Three nodes that answer requests; what they say passes the border as in the engine's process."""

    def __init__(self, odd: Say) -> None:
        self.odd, self.events = odd, deque[Event]()

    def start(self, task: Task) -> None:
        if isinstance(task, NodeProgram):
            checked(json.loads(json.dumps(task.request)))  # as the node does
        if isinstance(task, Command):
            self.events.append(Event(task.node, task.id, "result", result(ok=True, rc=0, stdout=SLURM)))
            return
        hearing = AnswerReader()
        for line in self.odd(task) or said(task):
            event = hearing.take(line if isinstance(line, str) else json.dumps(line))
            if event is not None:
                kind, data = event
                clock = {"heard": {"asked_s": 1.7e9, "said_s": 1.7e9}} if kind == "observed" else {}
                self.events.append(Event(task.node, task.id, kind, {**data, **clock}))
        error = hearing.error(task.node, None)
        self.events.append(Event(task.node, task.id, "result", result(ok=error is None, rc=0, error=error)))

    def next(self, timeout_s: float | None = None) -> Event | None:
        return self.events.popleft() if self.events else None

    def run(self, task: Task) -> Event:
        self.start(task)
        while True:
            event = self.events.popleft()
            if event.task == task.id and event.kind == "result":
                return event


def said(task: Task) -> list[Line]:
    """What a healthy node says."""
    verb = task.request["verb"] if isinstance(task, NodeProgram) else "bootstrap"
    if verb == "observe":
        first = HEAD_SAYS if task.node == "head" else observed("client")
        return [{**first, "armed": [], "at_work": None}, DONE]
    if verb == "lease":
        return [{**LEASE, "held": None}, {**DONE, "facts": {"time_s": 1.7e9}}]
    if verb == "log":
        return [LOG, {**DONE, "facts": {"time_s": 1.7e9}}]
    role = "server" if task.node == "head" else "client"
    return [{"event": "role_done", "role": role}, DONE]


class Printed:
    """An apply of the three, and everything that it prints."""

    def __init__(self, odd: Say) -> None:
        self.engine, self.human, self.json = Nodes(odd), io.StringIO(), io.StringIO()
        self.text: list[str] = []

    def look(self) -> tuple[Survey, Plan]:
        found = survey_nodes(self.engine, CLUSTER, Goal({}, DESIRED, nodes=NAMES), lambda _: None, self.say, {})
        wait_for_others(self.engine, {n: replace(o, armed=()) for n, o in found.at_work.items()}, 1.0, self.say)
        return found, diff(CLUSTER, DESIRED, found.observed, found.leaving, head=found.head)

    def say(self, text: str) -> None:
        with Progress(self.human, live=False) as progress:
            progress.say(text)

    def apply(self) -> tuple[Plan, RunResult]:
        with Progress(self.human, live=False) as human, Stream(human, self.json.write) as stream:
            observed, plan = self.look()
            stream.plan(plan, {})
            receipts = [one.receipt for one in observed.observed.values()]
            run = RUN.numbered(receipts, observed.roster)
            assert run.number == 8
            ended = execute(plan, {}, self.engine, stream.event, lambda: False, run)
            facts = latest_facts(observed.observed, ended)
            admission = admit(self.engine, plan, facts, 0.0, ended)
            one = past(run, ApplyResult(ended), args=[], dirty=False, started_s=1.7e9, exit_code=5)
            for problem in write_log(self.engine, "head", one, observed.roster, "small", observed.strangers):
                stream.say(problem)
            verified = Verified(recorded=load(observed.head.reads.get(VERDICTS_PATH)))
            stream.result(ApplyResult(ended, admission, verified), 0)
        self.text += [plan_text(plan, new_files=True), nodes_table(plan, ended, admission)]
        self.text += [verdicts_text(verified, "hpcforge apply", ended.lost, 1.7e9 + 9), stays_text(ended.stays)]
        return plan, ended

    def status(self) -> None:
        state = status(self.engine, CLUSTER, 10, print, desired=DESIRED)
        self.text += [status_text(state, 1.8e9), history_table(state.history), json.dumps(status_json(state, None))]

    def check(self) -> None:
        """Nothing steers a terminal, no line is forged, and the JSON lines are ours."""
        for text in (*self.text, self.human.getvalue()):
            for line in text.split("\n"):
                assert line.replace("\t", "").isprintable(), line
                assert not line.startswith("FORGED"), line
        for line in self.json.getvalue().splitlines():
            event = json.loads(line)
            assert event["schema_version"] == 3
            assert isinstance(event["time_s"], float)
