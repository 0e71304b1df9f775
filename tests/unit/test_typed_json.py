"""Types of messages as forms, and values against them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import pytest

from hpcforge.schemas import MisfitError
from hpcforge.typed_json import fits, form
from hpcforge.wire_types import LazyType, NotRequired, PrintableLine, Within


class Item(TypedDict):
    """A key that has to be there, and one that need not."""

    name: Annotated[str, PrintableLine(5)]
    size: NotRequired[int]


@dataclass(frozen=True)
class Point:
    """One field with a default."""

    x: int
    y: float = 0.0


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (str | None, [None, "a"], [1]),
        (int | str, [1, "a"], [None, 1.5]),
        (list[int], [[1]], [["a"], (1,)]),
        (tuple[int, ...], [[], [1, 2]], [["a"]]),
        (tuple[int, str], [[1, "a"]], [[1], ["a", 1]]),
        (dict[str, bool], [{"a": True}], [{"a": 1}]),
        (Literal["a", "b"], ["a"], ["c"]),
        (Annotated[int, Within(0, 3)], [0, 3], [4]),
        (Annotated[str, "a remark"], ["a"], [1]),
        (Annotated[Any, LazyType(lambda: int)], [1], ["a"]),
        (Item, [{"name": "a"}, {"name": "a", "size": 1}], [{}, {"name": "abcdef"}, {"name": "a", "size": None}]),
        (Point, [{"x": 1}, {"x": 1, "y": 2}], [{}, {"y": 2}, {"x": 1, "z": 2}]),
        (Any, [None, [{}]], []),
    ],
)
def test_a_value_fits_its_type_or_is_refused(kind: Any, right: list[Any], wrong: list[Any]) -> None:
    for value in right:
        fits(kind)(value)
    for value in wrong:
        with pytest.raises(MisfitError):
            fits(kind)(value)


def test_a_form_is_plain_data() -> None:
    assert form(list[Item]) == ("list", ("record", {"name": ("line", 5), "size": ("whole number",)}, ["name"]))
    assert form(Point) == ("record", {"x": ("whole number",), "y": ("number",)}, ["x"])
    assert fits(Item) is fits(Item)  # made once
