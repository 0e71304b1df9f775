"""`hpcforge catalog`: the hardware that hpcforge knows."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hpcforge.blueprint.diagnostics import did_you_mean
from hpcforge.catalog import load_catalog
from hpcforge.cli.exit_codes import Exit
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.catalog_text import CatalogModel, facts, found, model_text, models_of, models_text


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


def _print(models: Sequence[CatalogModel], as_json: bool) -> None:
    if as_json:
        entries = [{"kind": model.kind, "name": model.name, "facts": facts(model.entry)} for model in models]
        printing.result(json.dumps({"schema_version": 1, "models": entries}, indent=2) + "\n")
    elif models:
        printing.result(models_text(models, printing.columns()))
        printing.note(f"Next: hpcforge catalog show {models[0].name}\n")
