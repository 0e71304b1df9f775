"""Types of the node program's answers. Both sides use them, and hpcforge checks each answer when it arrives.

The type checker uses them on both sides, and `hpcforge.engines.node_output` checks answers; they do not travel. The
docstring of `hpcforge.node` has what types cannot express. Every answer also has `event`, its kind (`EVENTS`). The
types of requests are in `hpcforge.node.requests`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, get_type_hints

from hpcforge.kinds import KINDS
from hpcforge.node.requests import Disruption, KeptRequest, OnRemove, ProcessRequest
from hpcforge.wire_types import Count, NotRequired, Path, PrintableLine, RunNumber, SpanS, TimeS, Word


class Remapped(TypedDict):
    """Remapped rows of a GPU's memory, by cause; whether one waits for a reset; whether one ever failed."""

    correctable: Count
    uncorrectable: Count
    pending: bool
    failed: bool


class NvLinks(TypedDict):
    """The number of active NVLinks of a GPU; `total` 0: the driver shows none."""

    active: Count
    total: Count


class FabricRegistration(TypedDict):
    """A GPU's registration with the fabric of its NVSwitches: state, NVML's error number of its end, faults since."""

    state: Word
    status: Count
    health: list[Word]


class GpuAnswer(TypedDict):
    """The driver's report on one GPU; None: not reported, and `troubles` has the reason if it should be.

    `error`: it cannot be used. `clock_reasons` are NVML's bits, 1 while it is idle. `mig`: its instances, None where
    MIG is off. `pcie_..._max` is the maximum of card and slot together.
    """

    index: Count
    model: Word | None
    serial: Word | None
    uuid: Word | None
    vbios: Word | None
    bus_id: Word | None
    memory_mib: Count | None
    ecc: bool | None
    ecc_uncorrected: Count | None
    ecc_uncorrected_ever: Count | None
    remapped: Remapped | None
    nvlinks: NvLinks | None
    pcie_width: Count | None
    pcie_width_max: Count | None
    pcie_generation: Count | None
    pcie_generation_max: Count | None
    clock_mhz: Count | None
    clock_max_mhz: Count | None
    clock_reasons: Count | None
    temperature_c: Count | None
    power_limit_w: NotRequired[Count | None]  # now; NVIDIA's alone
    power_limit_default_w: NotRequired[Count | None]  # the card's own
    fabric: NotRequired[FabricRegistration | None]  # NVIDIA's alone; None: no NVSwitches
    mig: list[Word] | None
    error: Word | None
    troubles: dict[Word, Word]


class Nvml(TypedDict):
    """The report of NVML: the GPUs that answered, and the error if it did not finish.

    For AMD's GPUs the kernel reports the same fields, with the instruction set (gfx942) as `model`.
    """

    driver: Word | None
    gpus: list[GpuAnswer]
    error: Word | None
    on_bus: list[Word]


class Facts(TypedDict):
    """The facts of a node."""

    hostname: Word
    machine_id: Word
    boot_id: Word
    os_id: Word
    os_release: Word
    kernel: Word
    arch: Word
    virtualisation: Word
    python: Word
    memory_kib: Count
    cpus: Count
    gpus: dict[Word, Count]
    time_s: TimeS
    nvml: NotRequired[Nvml | None]  # only from observe; None: the library is missing
    amdgpu: NotRequired[Nvml | None]  # only from observe; None: no GPUs of AMD


class NoFacts(TypedDict):
    """The end of an answer without facts: of first contact, the lease and the log."""

    time_s: NotRequired[TimeS]


class UnitAnswer(TypedDict):
    """A unit that is not as desired."""

    name: Word
    enabled: bool
    active: Word
    restart_pending: bool


class FailedCheck(TypedDict):
    """A check that does not pass."""

    name: Word
    detail: str


class OldOpaque(TypedDict):
    """Opaque work whose digest differs from the desired one, or is missing."""

    digest: Word | None


class SurplusName(TypedDict):
    """A package that would be removed for others."""

    name: Word
    by: list[Word]


class ObstacleAnswer(TypedDict):
    """A conflict with the desired state, and the commands that remove it, to be run on the node as root."""

    role: Word
    kind: Word
    name: Path
    why: str
    commands: list[str]


class AccountsAnswer(TypedDict):
    """Numbers by name: of local users and groups, and of the owners of entries in shared folders."""

    users: dict[Word, Count]
    groups: dict[Word, Count]
    owner_users: dict[Word, Count]
    owner_groups: dict[Word, Count]


class _Difference(TypedDict):
    role: Word
    packages: list[Word]
    removes: list[SurplusName]
    unforeseen: list[Word]
    units: list[UnitAnswer]
    checks: list[FailedCheck]
    opaque: OldOpaque | None
    reboot: bool


class _Surplus(TypedDict):
    units: NotRequired[list[Word]]
    packages: NotRequired[list[Word]]
    trees: NotRequired[list[Path]]
    stays: NotRequired[list[KeptRequest]]
    disrupts: NotRequired[Disruption]
    on_remove: OnRemove


if TYPE_CHECKING:
    Difference = _Difference
    Surplus = _Surplus
else:  # with every kind of resource
    _FOUND = {name: list[import_module(f"hpcforge.kinds.{name}").FOUND] for name in KINDS}
    # A role that is not as desired.
    Difference = TypedDict("Difference", {**get_type_hints(_Difference, include_extras=True), **_FOUND})
    # The receipt's resources of a role that no desired role has.
    Surplus = TypedDict(
        "Surplus", {**get_type_hints(_Surplus, include_extras=True), **dict.fromkeys(KINDS, NotRequired[list[Path]])}
    )


class ReceiptAnswer(TypedDict):
    """The node's receipt of earlier runs."""

    run: RunNumber
    who: Word
    since_s: TimeS
    cluster: Word | None
    hpcforge: Annotated[str, PrintableLine(64)] | None
    trouble: str | None
    surplus: dict[Word, Surplus]
    unowned: list[Word]


class Reverted(TypedDict):
    """A reverted guarded change."""

    guard: Word
    role: Word
    since_s: TimeS
    why: str
    errors: list[str]


class Armed(TypedDict):
    """A guarded change that will be reverted soon."""

    guard: Word
    roles: list[Word]
    left_s: SpanS


class AtWork(TypedDict, total=False):
    """Another active run there, with its reported fields."""

    purpose: Word
    who: Word
    number: RunNumber | None
    task: Word | None
    unit: Word | None
    since_s: TimeS
    pid: Count


class Clock(TypedDict):
    """The times of request and answer, by the node's clock."""

    asked_s: TimeS
    said_s: TimeS


class HolderAnswer(TypedDict):
    """The holder of the lease."""

    run_id: Word
    who: Word
    number: RunNumber | None
    process: ProcessRequest | None
    since_s: TimeS
    age_s: SpanS
    silent_s: SpanS


class ObserveAnswer(TypedDict):
    """Differences from the desired state, and the requested data."""

    facts: Facts
    differs: list[Difference]
    obstacles: list[ObstacleAnswer]
    accounts: NotRequired[AccountsAnswer | None]
    reads: dict[Path, str | None]
    answers: dict[Word, str]
    receipt: ReceiptAnswer
    reverted: list[Reverted]
    armed: list[Armed]
    at_work: AtWork | None
    clock: Clock


class LeaseAnswer(TypedDict):
    """The holder of the lease, and the holder that lost it."""

    held: HolderAnswer | None
    took_over: HolderAnswer | None


class LogAnswer(TypedDict):
    """Lines of history, the latest last; `before`: the number of older ones."""

    lines: list[str]
    before: Count
    roster: str | None


class LogLine(TypedDict):
    """A line of a node's log."""

    time_s: TimeS
    node: Word
    line: str


class LogsAnswer(TypedDict):
    """Lines of logs, the latest last; the number of older ones, and the nodes with a log."""

    lines: list[LogLine]
    left_out: Count
    kept: list[Word]


class Changed(TypedDict):
    """A change."""

    role: Word | None
    kind: Word
    name: Path
    detail: str


class ProgressEvent(TypedDict):
    """Progress of long work; role null: for several roles."""

    role: Word | None
    detail: str


class Warned(TypedDict):
    """A warning; the work continues."""

    detail: str


class Remains(TypedDict):
    """The items that still exist after a removal."""

    stays: list[KeptRequest]


class Failed(TypedDict):
    """A role failed; role null: the whole request, with kind `busy` if another run is active or newer."""

    role: Word | None
    kind: Word
    name: Path | None
    error: str


class Skipped(TypedDict):
    """A role did not start, because another one failed."""

    role: Word
    because: Word


class RoleDone(TypedDict):
    """A role's units run and its checks pass."""

    role: Word


class Done(TypedDict):
    """The last answer, with the failed and the skipped roles."""

    changed: Count
    failed: list[Word]
    skipped: list[Word]
    facts: Facts | NoFacts


class NoPython(TypedDict):
    """First contact: there is no Python 3."""

    os_id: Word
    os_release: Word
    arch: Word
    kernel: Word
    hostname: Word
    memory_kib: Count
    cpus: Count
    users: NotRequired[str]  # NAME:NUMBER, with spaces between
    groups: NotRequired[str]


class NoRoot(TypedDict):
    """The login may not become root."""

    user: str
    error: str


EVENTS: dict[str, Any] = {
    "observed": ObserveAnswer,
    "lease": LeaseAnswer,
    "log": LogAnswer,
    "logs": LogsAnswer,
    "changed": Changed,
    "progress": ProgressEvent,
    "warning": Warned,
    "remains": Remains,
    "failed": Failed,
    "skipped": Skipped,
    "role_done": RoleDone,
    "done": Done,
    "no_python": NoPython,
    "no_root": NoRoot,
}
