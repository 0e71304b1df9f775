"""The command line: options of commands, and the output of their results.

A verb is a row of the table below and the module of its name, which has its options and its function
(`hpcforge.cli.verb`). Results go to stdout, everything for people to stderr. The package may import every other one,
except the lease, the history and the stages of a run. Logic does not belong here: a verb calls the packages below.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from hpcforge import __version__, process
from hpcforge.cli import completion, failures
from hpcforge.cli.exit_codes import MEANING, Exit
from hpcforge.report import printing

_ABOUT = "Builds a Slurm cluster for GPU training from a blueprint and an inventory, and tests it by training on it."
_NEXT = (
    ("hpcforge rehearse up blueprints/rehearsal.yaml", "start 4 nodes here (as root)"),
    ("hpcforge apply blueprints/rehearsal.yaml", "configure and test them"),
    ("hpcforge init SITE.yaml", "write a blueprint of your own"),
    ("hpcforge validate SITE.yaml", "check it"),
    ("hpcforge plan SITE.yaml", "see what would change"),
    ("hpcforge COMMAND --help", "options, with an example"),
)
_NEXT_OF_SITE = (
    ("validate", "check it"),
    ("plan", "see what would change"),
    ("apply", "configure and test its nodes"),
    ("status", "see nodes, last run, results"),
    ("verify", "test again"),
)

# Errors of the command line: typer carries its own click, and does not export the base of BadParameter.
_UsageError: type[Any] = typer.BadParameter.__mro__[1]

# All verbs by their panel of `--help`, each with the first sentence of its own help.
_PANELS = {
    "Write and check a blueprint": {
        "init": "Write a first blueprint, with comments, and its inventory.",
        "design": "Compute racks, power, cooling, fabrics and cables; check rules.",
        "inventory": "List machines: addresses, MACs, BMCs, serials, hardware, groups.",
        "validate": "Check blueprint and inventory; show every error with its line.",
        "show": "Show the cluster with every default applied.",
        "explain": "Explain a rule, as in POWER-003, or the lines of a smoke test.",
        "pin": "Write rack positions into the inventory.",
        "catalog": "List, show and search the hardware that hpcforge knows.",
    },
    "Build and test the cluster": {
        "plan": "Show what `apply` would change, and why. Changes nothing.",
        "apply": "Configure the nodes, then run the smoke tests. Safe to repeat.",
        "verify": "Run the smoke tests again, or compare cables with the design.",
        "status": "Show nodes, the last run and test results. Changes nothing.",
        "logs": "Show logs of nodes, as one node collects them. Changes nothing.",
        "report": "Write a document about a cluster. Runs no test.",
    },
    "Operate the cluster": {
        "discover": "Read serial, MACs, memory and GPUs of machines over Redfish.",
        "export": "Write preseed or cloud-init files for the site's own installer.",
        "trust": "Confirm the machine of a removed node, so it can be cleaned up.",
        "nodes": "Add, remove, replace or import nodes of a blueprint.",
        "power": "Switch nodes on and off, and set their boot device.",
        "netboot": "Install nodes that boot from the network.",
        "secrets": "Create, set, list, show and rotate the cluster's secrets.",
    },
    "Extend hpcforge": {
        "schema": "Print JSON Schemas for editors.",
        "role": "Start a role of your own, or check one.",
    },
    "Rehearse on this machine": {
        "image": "Build, list and remove node images.",
        "rehearse": "Run a blueprint's nodes on this machine, and take them down.",
    },
}
_VERBS = tuple(name for verbs in _PANELS.values() for name in verbs)
# A pager shows the results of these verbs if they are longer than the terminal. None of these verbs asks a question.
_LONG_READING = ("catalog", "design", "explain", "inventory", "logs", "plan", "report", "schema", "show", "status")


def run(arguments: list[str], began_s: float | None = None) -> int:
    """Run one command; every expected failure becomes a message on stderr and a code of the table.

    `began_s` is its start by `time.monotonic`: before the start of Python, if Python was started for it.
    """
    token = process.began_s.set(time.monotonic() if began_s is None else began_s)
    try:
        return _run(arguments)
    finally:
        process.began_s.reset(token)


def _run(arguments: list[str]) -> int:
    try:
        reads = arguments[:1] and arguments[0] in _LONG_READING and "--watch" not in arguments
        with printing.paged() if reads else contextlib.nullcontext():
            code = _program(arguments)(arguments, standalone_mode=False)
        return int(code or Exit.DONE)
    except _UsageError as error:
        error.show()
        return Exit.INVALID
    except typer.Exit as error:
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        printing.note("interrupted\n")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        printing.nobody_reads()
        return Exit.ERROR
    except Exception as error:
        message, code = failures.explain(error)
        if message is None:
            printing.fault(error)
        else:
            printing.note(message)
        return code


def _program(arguments: list[str]) -> typer.Typer:
    """Return the program with the called or completed verb, and with only names and help of the other verbs."""
    completion.rejoin_words()
    app = typer.Typer(
        name="hpcforge",
        help=_ABOUT,
        epilog=_epilog(arguments),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_about)
    words = _complete_words() or arguments
    called = words[0] if words and words[0] in _VERBS else None
    for panel, verbs in _PANELS.items():
        for name, summary in verbs.items():
            if name == called:
                module = name.replace("-", "_")
                getattr(import_module(f"hpcforge.cli.{module}"), module).add_to(app, name, panel, summary)
            elif called is None:
                app.command(name, help=summary, rich_help_panel=panel)(_nothing)
    return app


def _nothing() -> None:
    """Stand for a verb where only names and sentences are shown."""


def _epilog(arguments: list[str]) -> str:
    """Return exit codes and what to type next: alone, `hpcforge` lists the blueprints of its folder."""
    blueprints: list[str] = []
    if not arguments and "_HPCFORGE_COMPLETE" not in os.environ:
        blueprint = os.environ.get(completion.IN_ENVIRONMENT)
        blueprints = [blueprint] if blueprint else completion.blueprints_here()
    site = shlex.quote(blueprints[0]) if len(blueprints) == 1 else "BLUEPRINT"
    following = [(f"hpcforge {verb} {site}", purpose) for verb, purpose in _NEXT_OF_SITE] if blueprints else _NEXT
    return "\n".join(
        [
            "Exit codes:",
            *(f"  {code:<3d}  {meaning}" for code, meaning in MEANING.items()),
            "\nWhat to type next:",
            *(f"  {command:<46} {purpose}" for command, purpose in following),
            *(_choice(blueprints) if len(blueprints) > 1 else ()),
        ]
    )


def _choice(blueprints: Sequence[str]) -> Iterator[str]:
    """List the blueprints of a folder that has several, and say how to choose."""
    yield "\nBLUEPRINT is one of this folder's:"
    yield from (f"  {shlex.quote(path)}" for path in blueprints[: completion.MOST_LISTED])
    if len(blueprints) > completion.MOST_LISTED:
        yield f"  and {len(blueprints) - completion.MOST_LISTED} more"
    yield f"To choose it once: export {completion.IN_ENVIRONMENT}={shlex.quote(blueprints[0])}"


def _complete_words() -> list[str]:
    """Return the words of the command line before the word that a TAB completes, from the shell's variables."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    if "_HPCFORGE_COMPLETE" not in os.environ:
        return []
    words = line.split()[1:]
    return words if line[-1:].isspace() else words[:-1]


def _show_version(requested: bool) -> None:
    if requested:
        printing.result(f"hpcforge {__version__}\n")
        raise typer.Exit


def _about(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version, and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Read the options before a verb."""
