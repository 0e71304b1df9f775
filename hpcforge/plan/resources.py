"""The types of all kinds of resources: how they are read from role.yaml and from a plan file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, asdict, fields
from functools import cache
from importlib import import_module
from types import GenericAlias, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import Field, PlainSerializer, PlainValidator, TypeAdapter, ValidationError, WithJsonSchema

from hpcforge.kinds import KINDS
from hpcforge.kinds.resource import Resource
from hpcforge.plan.roles.render import Template

# By kind, in the order of the table.
TYPES: dict[str, type[Resource]] = {name: import_module(f"hpcforge.kinds.{name}").RESOURCE for name in KINDS}


@cache
def _adapter(of: Any) -> TypeAdapter[Any]:
    """Return the adapter that makes a value of this type from plain data. It raises ValueError for invalid data."""
    return TypeAdapter(of)


def _load(value: Any) -> Resource:
    if isinstance(value, Resource):
        return value
    data = dict(value)
    of: Any = TYPES[data.pop("kind")]
    resource: Resource = _adapter(of).validate_python(data)
    return resource


def _dump(resource: Resource) -> dict[str, Any]:
    return {"kind": resource.kind, **asdict(resource)}


# A resource of whatever kind, as a plan file has it.
AnyResource = Annotated[
    Resource,
    PlainValidator(_load),
    PlainSerializer(_dump),
    WithJsonSchema({name: TypeAdapter(resource_type).json_schema() for name, resource_type in TYPES.items()}),
]


def as_templates(of: type[Resource]) -> dict[str, Any]:
    """Return the fields of a kind for role.yaml: every scalar as the template that it is rendered from."""
    hints, said = get_type_hints(of), get_type_hints(of, include_extras=True)
    made = {}
    for field in fields(of):
        default = ... if field.default is MISSING else _as_text(field.default)
        made[field.name] = (
            _template_of(hints[field.name]),
            Field(default, description=said[field.name].__metadata__[0]),
        )
    return made


def rendered(of: type[Resource], spec: object, render: Callable[[str], str]) -> Resource:
    """Render the resource of a spec with these fields. Raise ValueError where a field is not of its type."""
    types = _types(of)  # type: ignore[arg-type]
    values = {name: _rendered(getattr(spec, name), render) for name in types}
    return of(**{name: _typed(name, types[name], value) for name, value in values.items()})


@cache
def _types(of: type[Resource]) -> dict[str, Any]:
    """Return the type of each field, in their order."""
    hints = get_type_hints(of)
    return {field.name: hints[field.name] for field in fields(of)}


def _typed(name: str, hint: Any, value: Any) -> Any:
    try:
        return _adapter(hint).validate_python(value)
    except ValidationError as error:
        raise ValueError(f"{name}: {error.errors()[0]['msg']}: {value!r}") from None


def _rendered(value: Any, render: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return render(value)
    if isinstance(value, tuple):
        return tuple(_rendered(part, render) for part in value)
    return value


def _as_text(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_as_text(part) for part in value)
    return value if value is None else str(value)


def _template_of(hint: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        return GenericAlias(tuple, (_template_of(arguments[0]), ...))
    if origin in (Union, UnionType):
        return Union[tuple(argument if argument is type(None) else _template_of(argument) for argument in arguments)]  # noqa: UP007
    assert hint in (str, int, float, bool) or origin is Literal, hint
    return Template
