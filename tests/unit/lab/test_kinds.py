from __future__ import annotations

from typing import get_args

from hpcforge.blueprint.lab_kinds import LabKind
from hpcforge.lab.kinds import KINDS


def test_every_kind_that_a_blueprint_may_ask_for_is_there() -> None:
    assert tuple(KINDS) == get_args(LabKind)
