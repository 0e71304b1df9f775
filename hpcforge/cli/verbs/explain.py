"""`hpcforge explain`: the rules behind codes such as POWER-003."""

from __future__ import annotations

from typing import Annotated

import typer

from hpcforge.cli import options


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Write and check a blueprint",
        epilog="Example: hpcforge explain POWER-003",
    )(explain)


def explain(
    code: Annotated[
        str | None, typer.Argument(help="The code, such as POWER-003. Default: all.", show_default=False)
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Explain the code of a rule, as in POWER-003.

    Prints what the rule compares, and what to do when it is broken.
    """
    from hpcforge.cli import explain as work

    return work.explain(code, as_json)
