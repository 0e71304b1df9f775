"""What a smoke test needs of nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from hpcforge.cluster.launches import ProgramLaunch
from hpcforge.cluster.model import Gpus, SmokeTestProgram
from tests.unit.plan.conftest import node

PROGRAM = SmokeTestProgram()


@pytest.mark.parametrize(
    ("program", "ranked"),
    [
        (PROGRAM, True),
        (replace(PROGRAM, launcher="plain"), False),
        (replace(PROGRAM, launches=(ProgramLaunch("a", "plain"), ProgramLaunch("b", "torchrun"))), True),
        (replace(PROGRAM, launches=(ProgramLaunch("a", "plain"),)), False),
    ],
)
def test_a_test_has_ranks_where_a_launch_starts_some(program: SmokeTestProgram, ranked: bool) -> None:
    assert program.ranked is ranked


@pytest.mark.parametrize(
    ("needed", "gpus", "right"),
    [
        (None, None, True),
        ("any", None, False),
        ("any", Gpus("fake", 1), True),
        ("real", Gpus("fake", 1), False),
        ("real", Gpus("h100", 1), True),
    ],
)
def test_stand_ins_are_no_real_gpus(needed: Literal["any", "real"] | None, gpus: Gpus | None, right: bool) -> None:
    assert replace(PROGRAM, gpus=needed).has_gpus(node("w1", "worker", "10.0.0.2", gpus)) is right


@pytest.mark.parametrize(
    ("pytorch", "gpus", "result"), [(True, None, True), (False, "any", True), (False, None, False)]
)
def test_ranks_take_whole_gpus(pytorch: bool, gpus: Literal["any"] | None, result: bool) -> None:
    assert replace(PROGRAM, pytorch=pytorch, gpus=gpus).wants_whole_gpus is result
