"""Every expected error has one base, one hint and an exit status of the one table, which the README repeats."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import get_args

from hpcforge.cli import failures
from hpcforge.cli.exit_codes import MEANING, OF_ERRORS, WORST_FIRST, Exit
from hpcforge.errors import ExpectedError, Kind

README = Path(__file__).parents[3] / "README.md"
ELSEWHERE = {
    "MisfitError",  # an answer of a node: caught where it comes in
    "StoppedError",  # the run is told to end: caught by the verb, which says so
    "OutsideError",  # a file that is not read: becomes a diagnostic where it is named
    "TooMuchError",  # of Jinja's: caught where a role is rendered
    "CellError",  # a cell of a machine list: becomes a diagnostic at its place
    "_SlurmError",
    "_UnknownNameError",  # of Jinja's: caught where a role is rendered
    "_WrongFileError",  # caught where a role is read
    "HandshakeError",  # with what answers port 22: becomes the reason why a node is unreachable
    "NothingInCommonError",  # with an sshd: likewise
    "_WaitingShellError",  # of a login shell that asks: likewise
    "_LateError",
    "_SilentError",
    "_FloodError",
    "_TimeOver",  # becomes a TimeLimitError where the limit was set
    "_CutOffError",  # a download that ended early: caught where it is tried again
}


_ALL = """
import inspect, json, pkgutil
from importlib import import_module
import hpcforge
from hpcforge.errors import ExpectedError
found = {}
for module in pkgutil.walk_packages(hpcforge.__path__, "hpcforge."):
    if module.name != "hpcforge.__main__" and not module.name.startswith("hpcforge.node."):  # that travels alone
        for name, kind in inspect.getmembers(import_module(module.name), inspect.isclass):
            if issubclass(kind, BaseException) and kind.__module__ == module.name:
                found[name] = kind.kind if issubclass(kind, ExpectedError) else None
print(json.dumps(found))
"""


@cache
def errors() -> dict[str, str | None]:
    """Every error class of ours with its kind, by a process of its own: some modules change theirs."""
    done = subprocess.run([sys.executable, "-c", _ALL], capture_output=True, text=True, check=True)
    found: dict[str, str | None] = json.loads(done.stdout)
    return found


def test_every_error_of_ours_is_an_expected_one() -> None:
    assert {name for name, kind in errors().items() if kind is None} == ELSEWHERE


def test_every_kind_of_error_has_its_exit_status() -> None:
    assert set(OF_ERRORS) == set(get_args(Kind))
    assert len(errors()) > 15
    assert {kind for kind in errors().values() if kind} == set(OF_ERRORS)


def test_every_exit_status_has_a_meaning_and_a_rank() -> None:
    assert set(MEANING) == set(Exit)
    assert set(WORST_FIRST) == set(Exit) - {Exit.DONE}


def test_the_readme_has_the_table() -> None:
    rows = [f"| {code:d} | {meaning} |" for code, meaning in MEANING.items()]
    assert "\n".join(["| exit status | meaning |", "|---|---|", *rows, ""]) in README.read_text(encoding="utf-8")


def test_message_and_hint_are_shown() -> None:
    assert failures.explain(ExpectedError("no", "do so")) == ("error: no\nhint: do so\n", Exit.ERROR)
    assert failures.explain(ExpectedError("no")) == ("error: no\n", Exit.ERROR)


def test_a_full_disk_is_named_with_its_file_where_the_error_has_it() -> None:
    hint = "No space left on device\nhint: make room, then run it again\n"
    assert failures.explain(OSError(28, "No space left on device")) == (f"error: on this machine: {hint}", Exit.ERROR)
    assert failures.explain(OSError(28, "No space left on device", "a/b")) == (f"error: a/b: {hint}", Exit.ERROR)
