"""The base of every mapping of a blueprint, an inventory and the hardware catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, model_validator
from pydantic_core import core_schema

from hpcforge.blueprint import values as v


class Section(BaseModel):
    """A mapping with known keys. A key without a value counts as absent."""

    not_keys: ClassVar[Mapping[str, str]] = {}  # words that look like keys here, with the reason why they are not

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=False, str_strip_whitespace=False, defer_build=True
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, data: Any) -> Any:
        if isinstance(data, dict) and None in data.values():
            keys = {field.alias or name for name, field in cls.model_fields.items()}
            return {key: value for key, value in data.items() if value is not None or key not in keys}
        return data


class LazySection:
    """A part of a file whose validators are built at first use: that takes longer than reading most files."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Know the type, and do nothing with it yet."""
        self._adapter = cache(lambda: TypeAdapter[Any](source))
        return core_schema.no_info_plain_validator_function(lambda value: self._adapter().validate_python(value))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Give editors the type itself."""
        return handler(core_schema.definitions_schema(self._adapter().core_schema, []))  # wrapped, to have a name


def schema_of(section: type[Section], title: str, names: Mapping[str, Iterable[str]] | None = None) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a whole file, as editors know it; `names` as of `json_schema`."""
    schema: dict[str, Any] = v.offered(_bounds(section.model_json_schema(by_alias=True)), names or {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **{key: value for key, value in schema.items() if key != "title"},
    }


_BOUNDS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}


def _bounds(node: Any) -> Any:
    """Spell bounds as JSON Schema does: pydantic leaves `ge` and `le` where text is typed before it is bounded."""
    if isinstance(node, list):
        return [_bounds(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {_BOUNDS.get(key, key): _bounds(value) for key, value in node.items()}
