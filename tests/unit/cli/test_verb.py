"""The flat signature that typer gets of a dataclass, and the dataclass that a verb gets back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer

from hpcforge.cli.verb import VerbGroup, verb


@dataclass(frozen=True, kw_only=True)
class Shared:
    node: Annotated[str, typer.Argument(help="A node.")]
    deep: Annotated[bool, typer.Option("--deep", help="All of it.")] = False


@dataclass(frozen=True, kw_only=True)
class Chosen:
    first: Annotated[int, typer.Option("--first", help="A number.")] = 1
    shared: Shared
    last: Annotated[list[str] | None, typer.Option("--last", help="Words.")] = None


group = VerbGroup("More about it.")
called: list[Chosen] = []


@group.verb(epilog="Example: app things list-all w1")
def list_all(options: Chosen) -> int:
    """List all things."""
    called.append(options)
    return 7


@verb(epilog="Example: app once w1")
def once(options: Chosen) -> int:
    """Below the sentence."""
    called.append(options)
    return 5


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    group.add_to(app, "things", "Panel", "Things.")
    once.add_to(app, "once", "Panel", "Do it once.")
    called.clear()
    return app


def test_a_verb_gets_its_dataclass_with_the_shared_one_in_it(app: typer.Typer) -> None:
    assert app(["once", "w1", "--last", "a", "--last", "b", "--deep"], standalone_mode=False) == 5
    assert called == [Chosen(first=1, shared=Shared(node="w1", deep=True), last=["a", "b"])]
    assert once(called[0]) == 5


def test_a_verb_of_a_group_is_named_by_its_function(app: typer.Typer) -> None:
    assert app(["things", "list-all", "w1", "--first", "3"], standalone_mode=False) == 7
    assert called == [Chosen(first=3, shared=Shared(node="w1"))]


def test_help_has_sentence_docstring_and_options_in_the_order_of_fields(
    app: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    app(["once", "--help"], standalone_mode=False)
    text = capsys.readouterr().out
    places = [
        text.index(part) for part in ("Do it once.", "Below the sentence.", "--first", "--deep", "--last", "app once")
    ]
    assert places == sorted(places)
    app(["things", "--help"], standalone_mode=False)
    text = capsys.readouterr().out
    assert text.index("Things.") < text.index("More about it.") < text.index("List all things.")
