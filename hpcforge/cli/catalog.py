"""`hpcforge catalog`: the hardware that hpcforge knows."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcforge.cli import completion
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import AsJson
from hpcforge.cli.verb import VerbGroup
from hpcforge.errors import UsageError
from hpcforge.report import printing

if TYPE_CHECKING:
    from hpcforge.report.catalog_text import CatalogModel

catalog = VerbGroup()
MODEL_NAME = re.compile("[a-z0-9][a-z0-9.-]{0,63}")


@dataclass(frozen=True, kw_only=True)
class CatalogListOptions:
    """Options of `hpcforge catalog list`."""

    kind: Annotated[
        str | None,
        typer.Argument(
            help="servers, gpus, cpus, nics, drives, switches, cables, racks, pdus or ups. Default: all.",
            metavar="[KIND]",
            show_default=False,
            autocompletion=completion.catalog_kinds,
        ),
    ] = None
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class CatalogShowOptions:
    """Options of `hpcforge catalog show`."""

    model: Annotated[
        str,
        typer.Argument(help="A model's name.", show_default=False, autocompletion=completion.catalog_models),
    ]
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class CatalogNewOptions:
    """Options of `hpcforge catalog new`."""

    kind: Annotated[
        str,
        typer.Argument(
            help="servers, gpus, cpus, nics, drives, switches, cables, racks, pdus or ups.",
            metavar="KIND",
            show_default=False,
            autocompletion=completion.catalog_kinds,
        ),
    ]
    name: Annotated[str, typer.Argument(help="The model's name.", show_default=False)]
    folder: Annotated[
        Path, typer.Option("--in", help="The folder of the blueprint.", metavar="FOLDER", exists=True, file_okay=False)
    ] = Path()
    like: Annotated[
        str | None,
        typer.Option(
            help="The model to start from.",
            metavar="MODEL",
            show_default=False,
            autocompletion=completion.catalog_models,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class CatalogSearchOptions:
    """Options of `hpcforge catalog search`."""

    words: Annotated[list[str], typer.Argument(help="Words of the name, the description or a fact.")]
    as_json: AsJson = False


@catalog.verb(epilog="Example: hpcforge catalog list gpus")
def list_(options: CatalogListOptions) -> int:
    """List the models of a kind, with a sentence for each."""
    from hpcforge.blueprint.diagnostics import did_you_mean

    models, kind = _models(), options.kind
    kinds = list(dict.fromkeys(model.kind for model in models))
    if kind is not None and kind not in kinds:
        raise UsageError(f"unknown kind {kind}", did_you_mean(kind, kinds) or "")
    _print([model for model in models if kind in (None, model.kind)], options.as_json)
    return Exit.DONE


@catalog.verb(epilog="Example: hpcforge catalog show dgx-h100")
def show(options: CatalogShowOptions) -> int:
    """Show the facts of a model, and the source of each. What is not listed is unknown."""
    from hpcforge.blueprint.diagnostics import did_you_mean
    from hpcforge.report.catalog_text import model_text

    models, name = _models(), options.model
    matches = [model for model in models if model.name == name]
    if not matches:
        close = did_you_mean(name, (model.name for model in models))
        raise UsageError(f"the catalog has no model {name}", close or f"hpcforge catalog search {name}")
    if options.as_json:
        _print(matches, as_json=True)
    else:
        printing.result("\n".join(model_text(model, printing.columns()) for model in matches))
    return Exit.DONE


@catalog.verb(epilog="Example: hpcforge catalog new servers our-8u --like dgx-h100")
def new(options: CatalogNewOptions) -> int:
    """Begin a model that the catalog lacks, as a file that a blueprint includes. Never overwrites a file."""
    from hpcforge.blueprint.diagnostics import did_you_mean
    from hpcforge.catalog import load_catalog
    from hpcforge.report.catalog_text import ENTRIES, new_model_text

    kind, name, like = options.kind, options.name, options.like
    if kind not in ENTRIES:
        raise UsageError(f"unknown kind {kind}", did_you_mean(kind, ENTRIES) or "")
    if not MODEL_NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a model name: lower-case letters, digits, . and -", "for example our-8u")
    models = getattr(load_catalog(), kind)
    if name in models:
        raise UsageError(f"the catalog has {name} already", f"hpcforge catalog show {name}, or choose another name")
    if like is not None and like not in models:
        raise UsageError(f"the catalog has no {like} in {kind}", did_you_mean(like, models) or "")
    target = options.folder / f"{name}.yaml"
    if target.exists():
        raise UsageError(f"{target} already exists; nothing was written", "choose another name, or edit it")
    target.write_text(new_model_text(kind, name, like), "utf-8")
    printing.result(f"{target}\n")
    printing.note(
        f"Next, after your changes: add `include: [{name}.yaml]` to the blueprint beside it, then validate it\n"
    )
    return Exit.DONE


@catalog.verb(epilog="Example: hpcforge catalog search h100 pcie")
def search(options: CatalogSearchOptions) -> int:
    """Find the models that have all of these words. Exit code 1 if none has."""
    from hpcforge.report.catalog_text import found

    models = found(_models(), options.words)
    _print(models, options.as_json)
    if not models and not options.as_json:
        printing.note("no model has all these words; all models: hpcforge catalog list\n")
    return Exit.DONE if models else Exit.ERROR


def _models() -> Sequence[CatalogModel]:
    from hpcforge.catalog import load_catalog
    from hpcforge.report.catalog_text import models_of

    return models_of(load_catalog())


def _print(models: Sequence[CatalogModel], as_json: bool) -> None:
    from hpcforge.report.catalog_text import facts, models_text

    if as_json:
        entries = [{"kind": model.kind, "name": model.name, "facts": facts(model.entry)} for model in models]
        printing.result(json.dumps({"schema_version": 1, "models": entries}, indent=2) + "\n")
    elif models:
        printing.result(models_text(models, printing.columns()))
        printing.note(f"Next: hpcforge catalog show {models[0].name}\n")
