"""The catalog's models as text: a table of several, and one with its facts and their sources. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

from hpcforge.blueprint.edit import quoted
from hpcforge.blueprint.sections.hardware import GUESS, CatalogEntry
from hpcforge.catalog import Catalog
from hpcforge.report.text import table

ENTRIES = {entry.table: entry for entry in CatalogEntry.__subclasses__()}  # by kind
_ABOUT_THE_ENTRY = {"like", "sources", "description"}  # no facts of a machine


@dataclass(frozen=True)
class CatalogModel:
    """A model of the catalog. `kind`: its table, such as `gpus`."""

    kind: str
    name: str
    entry: CatalogEntry


def models_of(catalog: Catalog) -> list[CatalogModel]:
    """Return every hardware model, kind by kind."""
    tables = {kind: getattr(catalog, kind, {}) for kind in catalog.names()}
    return [
        CatalogModel(kind, name, entry)
        for kind, models in tables.items()
        if isinstance(models, Mapping)
        for name, entry in models.items()
        if isinstance(entry, CatalogEntry)
    ]


def facts(entry: CatalogEntry) -> dict[str, object]:
    """Return what is known of a model, as JSON has it; unknown facts are left out."""
    return dict(entry.model_dump(mode="json", exclude_none=True, exclude={"like"}))


def found(models: Sequence[CatalogModel], words: Sequence[str]) -> list[CatalogModel]:
    """Return the models that have each word in name, description or facts; those first that need no facts for it.

    Case does not matter. Sources are not searched.
    """
    asked = [word.lower() for word in words]

    def has(text: str) -> bool:
        return all(word in text.lower() for word in asked)

    named = [model for model in models if has(f"{model.kind} {model.name} {model.entry.description}")]
    others = [model for model in models if model not in named and has(f"{model.name} {_searched(model)}")]
    exact = [model for model in named if model.name in asked]
    return exact + [model for model in named if model not in exact] + others


def _searched(model: CatalogModel) -> str:
    known = facts(model.entry)
    known.pop("sources", None)
    return str(yaml.safe_dump(known))


def models_text(models: Sequence[CatalogModel], columns: int | None = None) -> str:
    """Return a table: a row for each model."""
    rows = [(model.kind, model.name, model.entry.description or "") for model in models]
    return table(("kind", "model", "description"), rows, columns=columns)


def model_text(model: CatalogModel, columns: int | None = None) -> str:
    """Return one model: a line for each fact, with its source, and the words that name it in a blueprint."""
    known = facts(model.entry)
    sources = model.entry.sources
    rows = [
        (name, _value(value), sources.get(name, sources.get("*", "")))
        for name, value in known.items()
        if name not in _ABOUT_THE_ENTRY
    ]
    use = _USE.get(model.kind)
    return (
        f"{model.name}: {model.entry.description or model.kind}\n\n"
        + table(("fact", "value", "source"), rows, columns=columns)
        + (f"\nIn a blueprint: {use.format(name=model.name)}\n" if use else "")
    )


def new_model_text(kind: str, name: str, like: str | None) -> str:
    """Return a file for a blueprint's `include` that begins a model: each fact that it may have, with its meaning.

    Raises `KeyError` where there is no such kind.
    """
    fields = {field: info.description for field, info in ENTRIES[kind].model_fields.items()}
    places = ["hardware"] if kind == "servers" else ["parts", kind]
    lines = [
        f"# A model of {kind}: `include: [{name}.yaml]` in the blueprint beside this file.",
        "# Write what its data sheet has, without the # before it; what is left out is unknown.",
        *(f"{'  ' * depth}{place}:" for depth, place in enumerate(places)),
    ]
    inside = "  " * (len(places) + 1)
    lines += [f"{inside[2:]}{quoted(name)}:", f"{inside}description: {quoted(name)}"]
    lines += [f"{inside}like: {quoted(like)}"] if like else []
    lines += [f"{inside}# {field}:   # {meaning}" for field, meaning in fields.items() if field not in _ABOUT_THE_ENTRY]
    lines.append(f'{inside}# sources: {{max_w: "its data sheet", weight_kg: "{GUESS}why"}}')
    return "".join(f"{line}\n" for line in lines)


def _value(value: object) -> str:
    if isinstance(value, dict | list):
        return str(yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)).strip()
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


# How a blueprint names a model of a kind, where one line can show it.
_USE = {
    "servers": 'nodes: {{"n[01-04]": {{functions: [worker], hardware: {name}, addresses: ...}}}}',
    "gpus": "gpus: {{model: {name}, count: 8}}",
    "cpus": "cpu: {name}",
    "nics": "nics: 2 x {name}",
    "drives": "nvme: 4 x {name}",
    "switches": "fabrics: {{NAME: {{switch: {name}, ...}}}}",
    "racks": "site: {{racks: {{r1: {{model: {name}, ...}}}}}}",
    "pdus": "site: {{racks: {{r1: {{pdu: {name}, ...}}}}}}",
}
