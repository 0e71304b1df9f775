"""The types of all kinds of resources, for role.yaml and plan files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cache
from importlib import import_module
from types import GenericAlias, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import Field, PlainSerializer, PlainValidator, ValidationError

from hpcforge.adapters import adapter
from hpcforge.kinds import KINDS
from hpcforge.kinds.resource import Resource
from hpcforge.plan.roles.render import Template

# By kind, in the order of the table.
TYPES: dict[str, type[Resource]] = {name: import_module(f"hpcforge.kinds.{name}").RESOURCE for name in KINDS}


def _load(value: Any) -> Resource:
    if isinstance(value, Resource):
        return value
    data = dict(value)
    resource_type: Any = TYPES[data.pop("kind")]
    resource: Resource = adapter(resource_type).validate_python(data)
    return resource


def _dump(resource: Resource) -> dict[str, Any]:
    return {"kind": resource.kind, **asdict(resource)}


@dataclass(frozen=True)
class _Schemas:
    """The JSON Schema of a resource: that of each kind."""

    def __get_pydantic_json_schema__(self, *_: object) -> dict[str, object]:
        """Return them for pydantic, which asks only for a schema that is printed or digested."""
        schemas = {name: adapter(resource_type).json_schema() for name, resource_type in TYPES.items()}  # type: ignore[arg-type]
        return dict(schemas)


# A resource of any kind, in the form of a plan file.
AnyResource = Annotated[
    Resource,
    PlainValidator(_load),
    PlainSerializer(_dump),
    _Schemas(),
]


def as_templates(resource_type: type[Resource]) -> dict[str, Any]:
    """Return the fields of a kind for role.yaml: a template for every scalar."""
    hints, annotated = get_type_hints(resource_type), get_type_hints(resource_type, include_extras=True)
    made = {}
    for field in fields(resource_type):
        default = ... if field.default is MISSING else _as_text(field.default)
        made[field.name] = (
            _template_of(hints[field.name]),
            Field(default, description=annotated[field.name].__metadata__[0]),
        )
    return made


def rendered(resource_type: type[Resource], spec: object, render: Callable[[str], str]) -> Resource:
    """Render the resource of a spec with these fields. Raise ValueError where a field is not of its type."""
    types = _types(resource_type)  # type: ignore[arg-type]
    values = {name: _rendered(getattr(spec, name), render) for name in types}
    return resource_type(**{name: _typed(name, types[name], value) for name, value in values.items()})


@cache
def _types(resource_type: type[Resource]) -> dict[str, Any]:
    """Return the type of each field, in their order."""
    hints = get_type_hints(resource_type)
    return {field.name: hints[field.name] for field in fields(resource_type)}


def _typed(name: str, hint: Any, value: Any) -> Any:
    try:
        return adapter(hint).validate_python(value)
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
