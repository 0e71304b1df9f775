"""Everything that is printed goes one way, and comes out harmless."""

from __future__ import annotations

import ast
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hpcforge
from hpcforge.report import printing
from hpcforge.report.text import one_line, table

ROOT = Path(hpcforge.__file__).parent
PRINTS = {"report/printing.py"}
DRAWS = {"report/progress.py"}  # rich needs the stream itself; what it is given is cleaned: test_live.py
WATCHES = {"report/live.py"}  # a whole screen: what it cleans is tested in test_watch.py
LOGS = {"engines/child.py"}  # its standard error is a file of the engine's
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}


def other_ways(path: Path) -> Iterator[str]:
    """Whatever in a module could write to a terminal by another way."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Attribute(value=ast.Name(id="sys"), attr=name) if name in STREAMS:
                yield f"sys.{name}"
            case ast.ImportFrom(module="sys", names=names) if STREAMS & {name.name for name in names}:
                yield "from sys import"
            case ast.Name(id="print"):
                yield "print"
            case ast.Attribute(value=ast.Name(id="typer" | "click"), attr="echo" | "secho" | "echo_via_pager" as name):
                yield name
            case ast.Attribute(value=ast.Name(id="traceback"), attr=name) if name.startswith("print"):
                yield name
            case ast.Name(id="Console"):
                yield "Console"


def test_nothing_else_writes_to_the_terminal() -> None:
    found = {}
    for path in ROOT.rglob("*.py"):
        name = str(path.relative_to(ROOT))
        on_nodes = name.startswith("node/") or name in ("verify/ports.py", "run/port_probe.py")
        if not on_nodes:  # these speak to the engine
            found[name] = set(other_ways(path))
    assert found.pop(*PRINTS) == {"sys.stdout", "sys.stderr"}
    assert found.pop(*DRAWS) == {"sys.stderr", "Console"}
    assert found.pop(*WATCHES) == {"Console"}
    assert found.pop(*LOGS) == {"print_exc"}
    assert {name: ways for name, ways in found.items() if ways} == {}


HOSTILE = "w1\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202egnp\u2066\x00\ud800\u2028\U000e0041"


def test_what_is_printed_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    printing.result(f"{HOSTILE}\n\tindented\r\n")
    printing.note(HOSTILE)
    out, err = capsys.readouterr()
    assert out.endswith("\n\tindented\r\n")
    for text in (out.removesuffix("\n\tindented\r\n"), err):
        assert text.isprintable()
        assert text.startswith("w1\\x1b[2J")


def test_what_the_encoding_lacks_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    printing.line("münchen\n")
    assert raw.getvalue() == b"m\\xfcnchen\n"


def test_an_unexpected_error_is_told_and_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    printing.fault(ValueError(HOSTILE))
    said = capsys.readouterr().err
    assert said.endswith("\\U000e0041\n") or said.endswith("\\xe0041\n")
    assert all(line.isprintable() for line in said.splitlines())


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\x85", "\u2028", "\x0b", " \n\n  "])
def test_foreign_text_stays_one_line(end: str) -> None:
    forged = f"no space{end}[   1.0 s] w2: base done{end}"
    assert len(one_line(forged).splitlines()) == 1
    assert len(table(("node", ""), [["w1", forged]]).splitlines()) == 2
