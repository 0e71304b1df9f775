"""The whole design: the contract of `hpcforge design --json`, and the input of its renderers. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from pydantic import TypeAdapter

from hpcforge.cluster.load.loaded import Loaded
from hpcforge.design.fabric.design import FabricDesign
from hpcforge.design.facility.design import FacilityDesign, Remark, about
from hpcforge.design.storage.capacity import FileSystemDesign, file_system_design

SCHEMA_VERSION = 2


@dataclass(frozen=True)
class Design(FacilityDesign):
    """All of it."""

    fabrics: Annotated[tuple[FabricDesign, ...], about("Fabrics: switches, cables and their bandwidth.")]
    storage: Annotated[tuple[FileSystemDesign, ...], about("File systems that nodes serve.")]
    diagnostics: Annotated[tuple[Remark, ...], about("What rules say.")]


def designed(loaded: Loaded, blueprint: str) -> Design:
    """Return racks, power, cooling, fabrics and storage as one design; `blueprint` is the path that it shows."""
    return Design(
        **vars(loaded.placed.facility_design(blueprint)),
        fabrics=loaded.placed.fabric_designs(),
        storage=tuple(map(file_system_design, loaded.served)),
        diagnostics=loaded.remarks,
    )


def to_json(design: Design) -> dict[str, Any]:
    """Return the data of `hpcforge design --json`; quantities are rounded to a thousandth."""
    return {"schema_version": SCHEMA_VERSION, **_plain(design)}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    kind: Any = type(value)
    return {name: _plain(getattr(value, name)) for name in _names(kind)}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of `to_json`'s data; every field has a description."""
    schema = TypeAdapter(Design).json_schema(mode="serialization")
    version = {"const": SCHEMA_VERSION, "description": "Version of this schema."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "hpcforge design --json",
        "properties": {"schema_version": version, **schema["properties"]},
        "required": ["schema_version", *schema["required"]],
    }
