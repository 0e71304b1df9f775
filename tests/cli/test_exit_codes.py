"""Every expected error has one base, one hint and an exit status of the one table, which the README repeats."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import get_args

import hpcforge
from hpcforge.cli import failures
from hpcforge.cli.exit_codes import MEANING, OF_ERRORS, WORST_FIRST, Exit
from hpcforge.errors import ExpectedError, Kind

README = Path(__file__).parents[2] / "README.md"
ELSEWHERE = {
    "MisfitError",  # an answer of a node: caught where it comes in
    "_SlurmError",
    "_LateError",
    "_FloodError",
}


def errors() -> Iterator[type[BaseException]]:
    for module in pkgutil.walk_packages(hpcforge.__path__, "hpcforge."):
        if module.name != "hpcforge.__main__" and not module.name.startswith("hpcforge.node."):  # it travels alone
            for _, found in inspect.getmembers(import_module(module.name), inspect.isclass):
                if issubclass(found, BaseException) and found.__module__ == module.name:
                    yield found


def test_every_error_of_ours_is_an_expected_one() -> None:
    strangers = {error.__name__ for error in errors() if not issubclass(error, ExpectedError)}
    assert strangers == ELSEWHERE


def test_every_kind_of_error_has_its_exit_status() -> None:
    assert set(OF_ERRORS) == set(get_args(Kind))
    for error in errors():
        if issubclass(error, ExpectedError):
            assert error.kind in OF_ERRORS, error


def test_every_exit_status_has_a_meaning_and_a_rank() -> None:
    assert set(MEANING) == set(Exit)
    assert set(WORST_FIRST) == set(Exit) - {Exit.DONE}


def test_the_readme_has_the_table() -> None:
    rows = [f"| {code:d} | {meaning} |" for code, meaning in MEANING.items()]
    assert "\n".join(["| exit status | meaning |", "|---|---|", *rows, ""]) in README.read_text(encoding="utf-8")


def test_message_and_hint_are_shown() -> None:
    assert failures.explain(ExpectedError("no", "do so")) == ("error: no\nhint: do so\n", Exit.ERROR)
    assert failures.explain(ExpectedError("no")) == ("error: no\n", Exit.ERROR)
