"""pydantic's adapters, each made once."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pydantic import ValidationError

from hpcforge.adapters import adapter


@dataclass(frozen=True)
class Pair:
    """Something with types."""

    name: str
    number: int


def test_an_adapter_is_made_once_and_validates() -> None:
    assert adapter(Pair) is adapter(Pair)
    assert adapter(tuple[Pair, ...]).validate_python([{"name": "a", "number": 1}]) == (Pair("a", 1),)
    with pytest.raises(ValidationError):
        adapter(Pair).validate_python({"name": "a"})
