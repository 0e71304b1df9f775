"""pydantic's adapters, each made at its first use: making one takes longer than most commands have use for."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter


@cache
def adapter(value_type: object) -> TypeAdapter[Any]:
    """Return the adapter between plain data and this type, such as a dataclass."""
    return TypeAdapter(cast(type, value_type))
