"""Smoke tests as their folders describe them: `NAME/test.yaml`, and beside it the program, `NAME.py`.

The section `acceptance.tests` of a blueprint follows from those there are: the shipped ones, and the site's own, in
folders that it names under `acceptance.folders`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field

from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import Diagnostic, InvalidInput, SourceFile, did_you_mean, quote
from hpcforge.blueprint.reader import read_inside_of
from hpcforge.blueprint.section import Section
from hpcforge.blueprint.site_folders import Addition
from hpcforge.blueprint.transports import TransportSection, transport_findings
from hpcforge.blueprint.untrusted_files import having
from hpcforge.blueprint.validate import Draft, Finding, validate
from hpcforge.blueprint.variables import Variable
from hpcforge.launchers import CONTAINERS, LAUNCHERS, ContainerName, LauncherName

# The launches of a smoke test, as its `test.yaml` lists them, and the ranks that they need.
MOST_LAUNCHES = 16
ADDED = ("launch", "scratch")  # further options of a program whose test has launches
_NO_KILL = "hpcforge kills no launch that ends on its own"

# Variables that hpcforge sets for each process, and variables that change how programs are located or loaded.
_SET = re.compile(
    r"PATH|HOME|LANG|OMP_NUM_THREADS|TMPDIR|XDG_CACHE_HOME|USE_LIBUV|IFS|ENV|PET_(?:NODE_RANK|NNODES|NPROC.*|RDZV.*|MASTER.*)"
    r"|(?:PYTHON|LD_|SLURM|BASH).*|RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT"
)

LaunchName = Annotated[
    str,
    v.Matches(
        r"[a-z][a-z0-9_]{0,30}",
        "the name of a launch: up to 31 lower-case letters, digits and _, a letter first",
        "save",
    ),
]
_Name = Annotated[
    str, v.Matches(r"[A-Z][A-Z0-9_]{0,63}", "an environment variable: upper-case letters, digits and _", "NCCL_DEBUG")
]
# srun takes variables as one word, separated by commas.
_Value = Annotated[
    str, v.Matches(r"[A-Za-z0-9_./:@+-]{1,200}", "a value of up to 200 letters, digits and _./:@+-", "INFO")
]
_Ranks = Annotated[int, Field(ge=1, le=100_000), BeforeValidator(v.whole)]


class RanksSection(Section):
    """How many ranks a test can run with."""

    per_node: Annotated[int, Field(ge=1, le=1024), BeforeValidator(v.whole)] | None = Field(
        None, description="Ranks on each node; default: one for each GPU, at least one. Without GPUs they share cores."
    )
    multiple_of: _Ranks = Field(1, description="The number of ranks must be a multiple of this.")
    at_most: _Ranks | None = Field(None, description="Highest number of all ranks.")


class LaunchSection(Section):
    """One launch of a test."""

    launcher: LauncherName | None = Field(None, description="Its launcher; default: the test's.")
    ends: Literal["done", "killed"] = Field(
        "done",
        description="Its end. done: each process ends well; killed: SIGKILL ends a process, by the program or by "
        "kill_after.",
    )
    kill_after: v.Duration | None = Field(None, description="Time after which hpcforge kills all processes.")
    ranks_divided_by: Annotated[int, Field(ge=1, le=1024), BeforeValidator(v.whole)] = Field(
        1, description="2: half of the test's ranks."
    )
    environment: dict[_Name, _Value] = Field({}, description="Environment variables.")


def ranked(launcher: str | None, launches: Mapping[str, LaunchSection]) -> bool:
    """Return whether any launch starts ranks, of which rank 0 reports for all; `launcher` is the test's."""
    names = [launch.launcher or launcher for launch in launches.values()] or [launcher]
    return any(LAUNCHERS[name].ranked for name in names if name and name in LAUNCHERS)


def launch_findings(
    launcher: str | None, launches: Mapping[str, LaunchSection], ranks: RanksSection, time_limit_min: float
) -> Iterator[Finding]:
    """Yield what the launches say wrongly together. `time_limit_min` is the test's, minutes."""
    if len(launches) > MOST_LAUNCHES:
        yield Finding(("launches",), f"{len(launches)} launches: at most {MOST_LAUNCHES} fit in a test", key=True)
    if ranks.at_most is not None and ranks.at_most < ranks.multiple_of:
        message = f"no number of ranks is a multiple of {ranks.multiple_of} and at most {ranks.at_most}"
        yield Finding(("needs", "ranks", "at_most"), message, f"at least {ranks.multiple_of}")
    for name, launch in launches.items():
        loc = ("launches", name)
        if launch.kill_after is not None and launch.ends != "killed":
            yield Finding((*loc, "kill_after"), _NO_KILL, "add `ends: killed`, or remove kill_after", key=True)
        if launch.kill_after is not None and v.minutes(launch.kill_after) >= time_limit_min:
            message = f"`{name}` is killed after the test's time_limit"
            yield Finding((*loc, "kill_after"), message, "a shorter time, or a longer time_limit")
        if ranks.multiple_of % launch.ranks_divided_by:
            message = f"the ranks cannot be divided by {launch.ranks_divided_by}"
            hint = f"add `multiple_of: {launch.ranks_divided_by}`, or a multiple, under needs.ranks"
            yield Finding((*loc, "ranks_divided_by"), message, hint)
        starts = launch.launcher or launcher
        if launch.ranks_divided_by > 1 and starts and starts in LAUNCHERS and LAUNCHERS[starts].per_node == "one":
            hint = f"`{starts}` starts one process on each node"
            yield Finding((*loc, "ranks_divided_by"), f"`{name}` has no ranks to divide", hint, key=True)
        for variable in launch.environment:
            if _SET.fullmatch(variable):
                variable_loc = (*loc, "environment", variable)
                yield Finding(variable_loc, f"{quote(variable)} is set by hpcforge or Slurm", "remove it", key=True)


Shown = Literal["number", "count", "size", "text"]
Bound = Literal[
    "at_least",
    "at_most",
    "at_least_of_median",
    "at_most_of_median",
    "at_least_of_baseline",
    "at_most_of_baseline",
    "at_least_of_derived",
    "at_most_of_derived",
]
BOUNDS: tuple[Bound, ...] = get_args(Bound)
Operation = Literal["point-to-point", "all-reduce", "all-gather", "reduce-scatter", "all-to-all"]
OneGpu = Literal["bf16-product", "host-copy"]  # operations of each GPU alone
_UNITS = {"bf16-product": "TFLOP/s"}  # units of derived numbers; all others are in GB/s
Level = Literal["smoke", "quick", "standard"]
LEVELS: tuple[Level, ...] = get_args(Level)  # each level includes the tests of the levels before it

PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]{0,39})(?::([a-z_]{1,20}))?\}")
OF_NODES = ("median", "worst", "worst_node")  # summaries of the numbers of several nodes

_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
_TAKEN = frozenset({"ranks", "in_turn", "torch"}) | sys.stdlib_module_names  # all programs are in one folder of a node
_SAID = frozenset({"event", "test", "host", "rank", "task"})  # keys of an event besides its measures

MeasureName = Annotated[
    str,
    v.Matches(
        r"[a-z][a-z0-9_]{0,39}",
        "the name of a measure: up to 40 lower-case letters, digits and _, a letter first",
        "busbw_gb_per_s",
        _SAID,
    ),
]
# Options of each program besides its own: from hpcforge, from tests of the smoke tests, and from people.
_TOLD = frozenset({"json", "timeout_s", "limit_s", "inject", "next", "help"})
_HOLD_COMMAS = ("text", "path")  # types whose lists could not be separated again
OptionName = Annotated[
    str,
    v.Matches(
        r"[a-z][a-z0-9_]{0,39}",
        "the name of an option: up to 40 lower-case letters, digits and _, a letter first",
        "sizes_kib",
        _TOLD,
    ),
]
_Unit = Annotated[str, v.Matches(r"[A-Za-z0-9%/^. -]{1,20}", "a unit: up to 20 letters, digits, / and %", "GB/s")]
_Package = Annotated[str, v.Matches(r"[a-z0-9][a-z0-9.+-]{1,63}", "the name of a package", "fio")]
_Module = Annotated[
    str, v.Matches(r"[A-Za-z_][A-Za-z0-9_]{0,63}", "a module as Python imports it, without a point", "numpy")
]
_Beside = Annotated[
    str,
    v.Matches(r"[a-z][a-z0-9_]{0,30}", "a module beside the test's folder: lower-case letters, digits and _", "model"),
]
_Version = Annotated[str, v.Matches(r"[1-9][0-9]?\.[0-9]{1,3}", "a version of two numbers, in quotes", "2.6")]
_Part = Annotated[float, Field(ge=0.01, le=1), BeforeValidator(v.number)]
_Times = Annotated[float, Field(ge=1, le=100), BeforeValidator(v.number)]


def _lines(value: Any) -> Any:
    return {} if value == "none" else value


def _or_none(schema: dict[str, Any]) -> None:
    either = {key: schema.pop(key) for key in list(schema) if key not in ("description", "default", "title")}
    schema["anyOf"] = [{"const": "none"}, either]


class MeasureSection(Section):
    """A number that the test reports."""

    unit: _Unit = Field(description="Its unit, such as GB/s, ms or samples/s; 1: no unit.")
    better: Literal["higher", "lower"] | None = Field(
        None, description="Whether higher or lower is better; default: neither."
    )
    format: Shown = Field(
        "number",
        description="Format for people: number, three significant digits; count, a whole number; size, bytes as KiB, "
        "MiB or GiB; text, not a number: it must be the same on all nodes of one hardware.",
    )
    per: Literal["rank"] | None = Field(
        None,
        description="rank: each rank reports its own, with `rank`, so that a limit names the node; "
        "default: once for all ranks, or by each process.",
    )
    between: Literal["ranks", "local_ranks"] | None = Field(
        None,
        description="What exchanges data: ranks, all of the job; local_ranks, those of a node. With one rank nothing "
        "moves, and it is not measured; default: it takes no second rank.",
    )


class ThresholdSection(Section):
    """The limits of a measure."""

    at_least: v.Number | None = Field(None, description="Lowest value that passes.")
    at_most: v.Number | None = Field(None, description="Highest value that passes.")
    at_least_of_median: _Part | None = Field(
        None,
        description="Lowest value of a node as a fraction of the median of all nodes, such as 0.8; a node "
        "below it fails.",
    )
    at_most_of_median: _Times | None = Field(
        None,
        description="Highest value of a node as a multiple of the median of all nodes, such as 1.25; a node "
        "above it fails.",
    )
    at_least_of_baseline: _Part | None = Field(
        None,
        description="Lowest value as a fraction of the baseline that `verify --baseline compare` names; it counts only "
        "if software and options are those of the baseline.",
    )
    at_most_of_baseline: _Times | None = Field(
        None, description="Highest value as a multiple of the baseline; the same holds."
    )
    derived: Operation | OneGpu | None = Field(
        None,
        description="The operation whose bandwidth the catalog and the fabric bound, or what each GPU does by itself "
        "(a BF16 product of matrices, a copy from or to its host): the bound and the expected value are shown with "
        "each number. It sets no limit.",
    )
    at_least_of_derived: _Part | None = Field(
        None, description="Lowest value as a fraction of the expected bandwidth of `derived`."
    )
    at_most_of_derived: _Times | None = Field(
        None,
        description="Highest value as a multiple of the bound of `derived`: above it, something else was measured.",
    )


class TestNeedsSection(Section):
    """What must be there for the test to run."""

    nodes: Annotated[int, Field(ge=1, le=10_000), BeforeValidator(v.whole)] = Field(
        1, description="Lowest number of nodes."
    )
    gpus: Literal["any", "real"] | None = Field(
        None, description="any: GPUs or a rehearsal's stand-ins; real: only real GPUs; default: none."
    )
    pytorch: v.Truth = Field(
        False, description="PyTorch from `software.frameworks`; always true with the launcher torchrun."
    )
    pytorch_at_least: _Version | None = Field(None, description="Lowest version of PyTorch.")
    framework: v.SectionName | None = Field(
        None, description="A framework of `software.frameworks` beside PyTorch; its Python runs the program."
    )
    imports: tuple[_Beside, ...] = Field(
        (),
        description="Modules NAME.py beside the test's folder, or programs of tests there, that its program imports, "
        "besides ranks.",
    )
    packages: tuple[_Package, ...] = Field((), description="Packages of the distribution, installed on every worker.")
    modules: tuple[_Module, ...] = Field(
        (),
        description="Python modules, by the names of their wheels: among PyTorch's if it needs these, else of the "
        "package python3-NAME.",
    )
    ranks: RanksSection = Field(
        RanksSection.model_construct(), description="How many ranks it can run with; not with the launcher plain."
    )
    scratch: Literal["shared"] | None = Field(
        None,
        description="shared: the scratch folder must be on storage that all its nodes mount; default: if possible.",
    )
    declared: v.Truth = Field(
        False, description="The file declared.json beside its program: the node as the blueprint declares it."
    )
    container: ContainerName | None = Field(
        None,
        description="The ranks run in a container of this runtime, which `software.containers.runtimes` must name: "
        + "; ".join(f"{name}: {container.description}" for name, container in CONTAINERS.items())
        + ". Its image has the node's own packages.",
    )


class SmokeTestSpec(Section):
    """The `test.yaml` of a smoke test; its program `NAME.py` is in the same folder."""

    description: v.Sentence = Field(description="What it proves: one sentence with a full stop.")
    launcher: LauncherName = Field(
        description="; ".join(f"{name}: {launcher.description}" for name, launcher in LAUNCHERS.items()) + "."
    )
    launches: dict[LaunchName, LaunchSection] = Field(
        {},
        description="Its launches by name, in this order; default: a single launch, which ends well. The program gets "
        "--launch=NAME and --scratch=FOLDER.",
    )
    isolates: v.Truth = Field(
        False,
        description="Its launches are rounds that isolate a bad part: the program gets --nodes, --alone, --pairs, "
        "--port and --gpus, and measures what these name.",
    )
    needs: TestNeedsSection = Field(TestNeedsSection.model_construct(), description="Requirements.")
    time_limit: v.Duration = Field("10min", description="Time limit, such as 90s or 10min.")
    options: dict[OptionName, Variable] = Field(
        {},
        description="Options that a blueprint may set, by name with its unit, each with a default. The program gets "
        "--NAME=VALUE, with - for _; a list with commas, a boolean as true or false, a duration in seconds.",
    )
    measures: dict[MeasureName, MeasureSection] = Field(
        min_length=1, description="Measures that it reports, by name; if one is missing, the verdict is unknown."
    )
    headline: v.Sentence = Field(
        description="Summary of the result, with measures in braces: busbw {busbw_gb_per_s} GB/s. With several nodes "
        "it is the median; {NAME:worst} and {NAME:worst_node} are the worst value and its node."
    )
    thresholds: Annotated[dict[MeasureName, ThresholdSection], BeforeValidator(_lines)] = Field(
        {},
        description="Limits of measures, by measure; none: only the program's own checks count.",
        json_schema_extra=_or_none,
    )
    level: Level = Field(
        "smoke",
        description="smoke: `apply` and `verify` run it; quick, standard: `verify --level` does, or `--test` by name.",
    )
    transport: TransportSection | None = Field(None, description="The transport that its ranks must use; default: any.")


@dataclass(frozen=True)
class SmokeTestFolder:
    """A smoke test: its folder, and its test.yaml, which is read at first use."""

    path: Path

    @cached_property
    def spec(self) -> SmokeTestSpec:
        """Return the content of its test.yaml. Raise InvalidInput with all errors of the folder."""
        draft, diagnostics = validate(SmokeTestSpec, read_inside_of(self.path, SMOKE_TESTS.file))
        spec = draft.model if isinstance(draft.model, SmokeTestSpec) else None
        diagnostics += [*draft.place(_findings(draft)), *draft.place(_import_errors(self.path, spec))]
        diagnostics += _folder_errors(self.path)
        if spec is None or any(entry.severity == "error" for entry in diagnostics):
            raise InvalidInput(diagnostics)
        return spec

    @property
    def program(self) -> Path:
        """Return the program's path."""
        return self.path / f"{self.path.name}.py"


def _is_name(text: str) -> bool:
    return bool(_NAME.fullmatch(text)) and text not in _TAKEN and not hasattr(Section, text)


SMOKE_TESTS = Addition(
    "smoke test",
    "test.yaml",
    ("acceptance", "folders"),
    (("acceptance", "tests"),),
    _is_name,
    "lower-case letters, digits and _, a letter first; not a module of Python's, nor `ranks` or `in_turn`",
)


def load_smoke_tests(*folders: Path, named: Collection[str] | None = None) -> dict[str, SmokeTestFolder]:
    """Load the smoke tests of folders that have a `test.yaml`, by name. Raise InvalidInput with all errors.

    Of the first folder, the shipped one, only the tests `named` are read now; None: all.
    """
    loaded, wrong = dict[str, SmokeTestFolder](), list[Diagnostic]()
    for place, folder in enumerate(folders):
        for path in having(folder, SMOKE_TESTS.file):
            loaded[path.name] = SmokeTestFolder(path)
            if named is None or place > 0 or path.name in named:
                wrong += _errors(loaded[path.name])
    if wrong:
        raise InvalidInput(wrong)
    return loaded


def _errors(test: SmokeTestFolder) -> tuple[Diagnostic, ...]:
    try:
        _ = test.spec
    except InvalidInput as error:
        return error.diagnostics
    return ()


def _import_errors(folder: Path, spec: SmokeTestSpec | None) -> Iterator[Finding]:
    """Yield modules outside a test's folder, and modules whose names are taken."""
    for number, name in enumerate(spec.needs.imports if spec else ()):
        place = ("needs", "imports", number)
        if not _is_name(name):
            yield Finding(place, f"{quote(name)} is a reserved name", f"rename the module: {SMOKE_TESTS.a_name}")
        elif not os.path.lexists(imported(folder, name)):
            yield Finding(
                place, f"`{name}.py` is missing beside the folder {folder.name}", f"write {folder.parent}/{name}.py"
            )


def imported(folder: Path, name: str) -> Path:
    """Return the file of a module that the program of a test's folder imports: beside the folder, or another test's."""
    of_test = folder.parent / name / f"{name}.py"
    return of_test if os.path.lexists(of_test) else folder.parent / f"{name}.py"


def _folder_errors(folder: Path) -> Iterator[Diagnostic]:
    """Report the errors of a folder beside those of its file."""
    name, source = folder.name, SourceFile(str(folder / SMOKE_TESTS.file))
    if not _is_name(name):
        message = f"{quote(name)} cannot be a test's name"
        yield Diagnostic("error", message, source, None, f"rename the folder: {SMOKE_TESTS.a_name}")
    elif not os.path.lexists(folder / f"{name}.py"):
        yield Diagnostic(
            "error", f"`{name}.py` is missing beside it", source, None, "the program has the folder's name"
        )


def _findings(draft: Draft) -> Iterator[Finding]:
    """Report values of a file that contradict each other."""
    yield from _options(draft)
    yield from _launches(draft)
    if draft.intact("transport") and draft.intact("launcher") and draft.intact("launches"):
        launches: Mapping[str, LaunchSection] = draft.sections["launches"] or {}
        names = {launch.launcher or draft.sections["launcher"] for launch in launches.values()}
        yield from transport_findings(names or {draft.sections["launcher"]}, draft.sections["transport"])
    measures: Mapping[str, MeasureSection] | None = draft.sections["measures"]
    if measures is None or not draft.intact("measures"):
        return
    per_node = not (draft.intact("launcher") and ranked(draft.sections["launcher"], draft.sections["launches"] or {}))
    yield from _texts(measures, draft.sections["thresholds"] or {}, per_node and not draft.sections["launches"])
    if draft.sections["headline"] is not None and draft.intact("headline"):
        yield from _headline(draft.sections["headline"], measures, per_node)
    if draft.intact("thresholds"):
        for name, line in draft.sections["thresholds"].items():
            yield from _line(("thresholds", name), name, line, measures, per_node)


def _options(draft: Draft) -> Iterator[Finding]:
    options: Mapping[str, Variable] = draft.sections["options"] or {}
    for name, option in options.items():
        loc = ("options", name)
        if draft.intact(*loc) and option.required:
            yield Finding(
                loc, f"{quote(name)} has no default", "add the default for blueprints that do not set it", key=True
            )
        if draft.intact(*loc) and option.list_of in _HOLD_COMMAS:
            hint = "a list of name, whole, number or another type without commas"
            yield Finding((*loc, "list_of"), f"a program cannot get a list of {option.list_of}", hint)


def _launches(draft: Draft) -> Iterator[Finding]:
    """Report errors of launches, and of needs that follow from them."""
    launches: Mapping[str, LaunchSection] = draft.sections["launches"] or {}
    needs: TestNeedsSection = draft.sections["needs"]
    launcher = draft.sections["launcher"] if draft.intact("launcher") else None
    if draft.intact("launches") and draft.intact("needs") and draft.intact("time_limit"):
        yield from launch_findings(launcher, launches, needs.ranks, v.minutes(draft.sections["time_limit"]))
    for name in ADDED:
        if launches and name in (draft.sections["options"] or {}):
            message = f"{quote(name)} is a reserved name in a test with launches"
            yield Finding(("options", name), message, "choose another", key=True)
    if draft.intact("isolates") and draft.sections["isolates"] and (launches or launcher not in (None, "srun")):
        yield Finding(("isolates",), "rounds are launches of `srun`", "launcher: srun, without `launches`")
    if needs.scratch and not launches and draft.intact("launches"):
        yield Finding(("needs", "scratch"), "only a test with `launches` has a scratch folder", "remove it", key=True)
    one = launcher and launcher in LAUNCHERS and LAUNCHERS[launcher].per_node == "one"
    if (
        one
        and not any(launch.launcher for launch in launches.values())
        and needs.ranks != RanksSection.model_construct()
    ):
        hint = f"`{launcher}` starts one process on each node"
        yield Finding(("needs", "ranks"), "this test has no ranks to count", hint, key=True)


def option_text(value: Any) -> str:
    """Return an option's value as text for its program."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(option_text, value)) if isinstance(value, tuple) else str(value)


def _texts(
    measures: Mapping[str, MeasureSection], lines: Mapping[str, ThresholdSection], per_node: bool
) -> Iterator[Finding]:
    """Yield measures that are texts where only numbers are compared."""
    for name in (name for name, measure in measures.items() if measure.format == "text"):
        if not per_node:
            hint = "use the launcher srun or plain, without launches"
            yield Finding(("measures", name, "format"), "a text is compared only where each node reports", hint)
        if name in lines:
            yield Finding(("thresholds", name), f"{quote(name)} is a text and has no limit", "remove it", key=True)


def _headline(text: str, measures: Mapping[str, MeasureSection], per_node: bool) -> Iterator[Finding]:
    rest = PLACEHOLDER.sub("", text)
    if "{" in rest or "}" in rest:
        yield Finding(("headline",), "braces without a measure", "write {NAME}, {NAME:worst} or {NAME:worst_node}")
    for name, which in PLACEHOLDER.findall(text):
        if name not in measures:
            yield Finding(("headline",), f"{quote(name)} is not a measure of this test", did_you_mean(name, measures))
        elif measures[name].format == "text":
            yield Finding(("headline",), f"{quote(name)} is a text", "name a measure that is a number")
        elif which and which not in OF_NODES:
            yield Finding(
                ("headline",), f"{quote(which)} is not accepted after a measure", did_you_mean(which, OF_NODES)
            )
        elif which and not per_node and not measures[name].per:
            yield Finding(
                ("headline",), f"{quote(which)} needs a launcher with a report from each node", "srun or plain"
            )
        elif which.startswith("worst") and measures[name].better is None:
            yield Finding(
                ("headline",),
                f"{quote(name)} does not set whether higher or lower is better",
                f"add `better` to measure {name}",
            )


def _line(
    loc: tuple[str, ...], name: str, line: ThresholdSection, measures: Mapping[str, MeasureSection], per_node: bool
) -> Iterator[Finding]:
    if name not in measures:
        yield Finding(loc, f"{quote(name)} is not a measure of this test", did_you_mean(name, measures), key=True)
    limits = bounds(line)
    yield from _derived(loc, name, line, measures)
    if not limits and line.derived is None:
        yield Finding(loc, "no limit is set", "at_least, at_most, at_least_of_median or at_most_of_median", key=True)
    for bound in limits:
        if bound.endswith("_of_median") and not per_node and not (name in measures and measures[name].per):
            hint = "rank 0 reports for all; use at_least or at_most, `per: rank`, or the launcher srun or plain"
            yield Finding((*loc, bound), "a median needs a report of each node", hint, key=True)


def _derived(
    loc: tuple[str, ...], name: str, line: ThresholdSection, measures: Mapping[str, MeasureSection]
) -> Iterator[Finding]:
    """Yield errors of a derived limit."""
    if line.derived is None and (line.at_least_of_derived or line.at_most_of_derived):
        yield Finding(loc, "the operation of the derived bandwidth is not set", "derived: all-reduce", key=True)
    unit = _UNITS.get(line.derived or "", "GB/s")
    if line.derived is not None and name in measures and measures[name].unit != unit:
        message = f"{line.derived} is derived in {unit}, and the unit of {quote(name)} is {measures[name].unit}"
        yield Finding((*loc, "derived"), message, f"remove derived, or report {unit}", key=True)


def bounds(line: ThresholdSection) -> dict[Bound, float]:
    """Return the given limits, by kind."""
    return {bound: value for bound in BOUNDS if (value := getattr(line, bound)) is not None}
