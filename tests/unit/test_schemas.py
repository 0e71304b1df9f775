"""Values from outside against their form, as plain data."""

from __future__ import annotations

from typing import Any

import pytest

from hpcforge.schemas import Form, MisfitError, check

WORD: Form = ("line", 5)
RECORD: Form = ("record", {"name": WORD, "size": ("whole number",)}, ["name"])


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [
        (("text",), ["", "a\n"], [None, 1, b"a"]),
        (("yes or no",), [True, False], [0, "true"]),
        (("whole number",), [0, -(2**53)], [True, 1.0, 2**53 + 1, "1"]),
        (("number",), [0, 1.5], [True, float("nan"), float("inf"), 1e300, "1"]),
        (("null",), [None], [0, ""]),
        (("anything",), [None, {}, [1]], []),
        (WORD, ["", "abcde"], ["abcdef", "a\n", "\x1b", 1]),
        (("within", 0, 2, ("number",)), [0, 2, 1.5], [-1, 3, "1"]),
        (("either", True, [("text",)]), [None, "a"], [1]),
        (("either", False, [("text",), ("whole number",)]), ["a", 1], [None, 1.5]),
        (("one of", ("a", "b")), ["a"], ["c", None, 1]),
        (("list", ("text",)), [[], ["a"]], [("a",), "a", [1]]),
        (("row", [("text",), ("whole number",)]), [["a", 1]], [["a"], ["a", 1, 2], [1, "a"]]),
        (("mapping", WORD, ("text",)), [{}, {"a": "b"}], [[], {"a": 1}, {"abcdef": "b"}]),
        (RECORD, [{"name": "a"}, {"name": "a", "size": 1}], [{}, {"size": 1}, {"name": "a", "more": 1}, []]),
    ],
)
def test_a_value_fits_its_form_or_is_refused(form: Form, right: list[Any], wrong: list[Any]) -> None:
    fits = check(form)
    for value in right:
        fits(value)
    for value in wrong:
        with pytest.raises(MisfitError):
            fits(value)


@pytest.mark.parametrize(
    ("form", "value", "place"),
    [
        (("list", RECORD), [{"name": "a"}, {"name": "a", "size": "x"}], ["1", "size"]),
        (("mapping", WORD, ("list", ("text",))), {"a": ["x", 1]}, ["a", "1"]),
        (RECORD, {"name": "a", "more": 1}, ["more"]),
        (RECORD, {}, ["name"]),
        (("row", [("text",), RECORD]), ["a", {"name": 1}], ["1", "name"]),
        (("text",), 1, []),
    ],
)
def test_an_error_has_the_place_in_the_value(form: Form, value: Any, place: list[str]) -> None:
    with pytest.raises(MisfitError) as refused:
        check(form)(value)
    assert refused.value.place == place
    assert str(refused.value) == ": ".join(filter(None, [".".join(place), refused.value.why]))


def test_a_key_that_cannot_be_printed_is_escaped_and_a_long_one_cut() -> None:
    for key, shown in (("a\x1b", "'a\\x1b'"), ("k" * 50, "k" * 40)):
        with pytest.raises(MisfitError) as refused:
            check(RECORD)({"name": "a", key: 1})
        assert refused.value.place == [shown]
