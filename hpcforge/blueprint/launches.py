"""The launches of a smoke test, as its `test.yaml` lists them, and the ranks that they need. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import quote
from hpcforge.blueprint.section import Section
from hpcforge.blueprint.validate import Finding
from hpcforge.launchers import LAUNCHERS, LauncherName

MOST_LAUNCHES = 16
ADDED = ("launch", "scratch")  # options that the program of a test with launches gets besides its own
_NO_KILL = "a launch that ends by itself is not killed"

# What hpcforge sets for each process, and what changes how programs are found or loaded.
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
# srun takes names and values as one word with commas between.
_Value = Annotated[
    str, v.Matches(r"[A-Za-z0-9_./:@+-]{1,200}", "a value of up to 200 letters, digits and _./:@+-", "INFO")
]
_Ranks = Annotated[int, Field(ge=1, le=100_000), BeforeValidator(v.whole)]


class RanksSection(Section):
    """How many ranks a test can run with."""

    per_node: Annotated[int, Field(ge=1, le=1024), BeforeValidator(v.whole)] | None = Field(
        None, description="Ranks on each node; default: one for each GPU, at least one. Without GPUs they share cores."
    )
    multiple_of: _Ranks = Field(1, description="The number of all ranks is a multiple of it.")
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
    """Whether any launch starts ranks, of which rank 0 reports for all; `launcher` is the test's."""
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
            hint = f"add `multiple_of: {launch.ranks_divided_by}` or a multiple of it under needs.ranks"
            yield Finding((*loc, "ranks_divided_by"), message, hint)
        starts = launch.launcher or launcher
        if launch.ranks_divided_by > 1 and starts and starts in LAUNCHERS and LAUNCHERS[starts].per_node == "one":
            hint = f"`{starts}` starts one process on each node"
            yield Finding((*loc, "ranks_divided_by"), f"`{name}` has no ranks to divide", hint, key=True)
        for variable in launch.environment:
            if _SET.fullmatch(variable):
                where = (*loc, "environment", variable)
                yield Finding(where, f"{quote(variable)} is set by hpcforge or Slurm", "remove it", key=True)
