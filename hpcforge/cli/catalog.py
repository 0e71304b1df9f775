"""`hpcforge catalog`: the hardware that hpcforge knows."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from hpcforge.blueprint.diagnostics import did_you_mean
from hpcforge.catalog import load_catalog
from hpcforge.cli.exit_codes import Exit
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.catalog_text import (
    ENTRIES,
    CatalogModel,
    facts,
    found,
    model_text,
    models_of,
    models_text,
    new_model_text,
)

MODEL_NAME = re.compile("[a-z0-9][a-z0-9.-]{0,63}")


def list_(kind: str | None, as_json: bool) -> int:
    """Run `hpcforge catalog list`. Returns the exit status."""
    models = models_of(load_catalog())
    kinds = list(dict.fromkeys(model.kind for model in models))
    if kind is not None and kind not in kinds:
        raise UsageError(f"there is no kind {kind}", did_you_mean(kind, kinds) or "")
    _print([model for model in models if kind in (None, model.kind)], as_json)
    return Exit.DONE


def show(name: str, as_json: bool) -> int:
    """Run `hpcforge catalog show`. Returns the exit status."""
    models = models_of(load_catalog())
    named = [model for model in models if model.name == name]
    if not named:
        close = did_you_mean(name, (model.name for model in models))
        raise UsageError(f"the catalog has no model {name}", close or f"hpcforge catalog search {name}")
    if as_json:
        _print(named, as_json=True)
    else:
        printing.result("\n".join(model_text(model, printing.columns()) for model in named))
    return Exit.DONE


def search(words: Sequence[str], as_json: bool) -> int:
    """Run `hpcforge catalog search`. Returns the exit status."""
    models = found(models_of(load_catalog()), words)
    _print(models, as_json)
    if not models and not as_json:
        printing.note("no model has all of these words; all models: hpcforge catalog list\n")
    return Exit.DONE if models else Exit.ERROR


def new(kind: str, name: str, folder: Path, like: str | None) -> int:
    """Run `hpcforge catalog new`. Returns the exit status."""
    if kind not in ENTRIES:
        raise UsageError(f"there is no kind {kind}", did_you_mean(kind, ENTRIES) or "")
    if not MODEL_NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a model name: lower-case letters, digits, . and -", "for example our-8u")
    models = getattr(load_catalog(), kind)
    if name in models:
        raise UsageError(f"the catalog has {name} already", f"hpcforge catalog show {name}, or choose another name")
    if like is not None and like not in models:
        raise UsageError(f"the catalog has no {like} in {kind}", did_you_mean(like, models) or "")
    target = folder / f"{name}.yaml"
    if target.exists():
        raise UsageError(f"{target} already exists; nothing was written", "choose another name, or edit it")
    target.write_text(new_model_text(kind, name, like), "utf-8")
    printing.result(f"{target}\n")
    printing.note(
        f"Next, after your changes: add `include: [{name}.yaml]` to the blueprint beside it, then validate it\n"
    )
    return Exit.DONE


def _print(models: Sequence[CatalogModel], as_json: bool) -> None:
    if as_json:
        entries = [{"kind": model.kind, "name": model.name, "facts": facts(model.entry)} for model in models]
        printing.result(json.dumps({"schema_version": 1, "models": entries}, indent=2) + "\n")
    elif models:
        printing.result(models_text(models, printing.columns()))
        printing.note(f"Next: hpcforge catalog show {models[0].name}\n")
