"""Choices of a blueprint: `vars:` in a role.yaml, `options:` in a test.yaml, and the sections that follow."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
    model_validator,
)

from hpcforge.blueprint import values as v
from hpcforge.blueprint.section import Section
from hpcforge.blueprint.value_types import MAY_BE_EMPTY, TYPES, TypeName, list_of

VariableName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
_Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
# pydantic takes a millisecond to build each, and most variables share few types
_ADAPTERS: dict[tuple[Hashable, ...], TypeAdapter[object]] = {}
_NUMBERS: Mapping[TypeName | None, tuple[type, Any]] = {"whole": (int, v.whole), "number": (float, v.number)}


class Variable(BaseModel):
    """A value that a role, or a smoke test, lets the blueprint choose. Without `default` it has to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: TypeName | None = Field(None, description="Its type.")
    list_of: TypeName | None = Field(None, description="It is a list; the type of its items.")
    one_of: tuple[_Word, ...] = Field((), description="The accepted words.")
    at_least: v.Number | None = Field(None, description="Lowest value of the number, or of each number in the list.")
    at_most: v.Number | None = Field(None, description="The most.")
    default: Any = Field(
        None, description="Its value if the blueprint sets none. Without a default, the blueprint must set it."
    )
    rehearsed: object = Field(
        None, description="Its value in the rehearsal of a real site. Set it for values that leave the cluster."
    )
    needs: VariableName | None = Field(
        None, description="Another variable of the role; without it, this one has no effect."
    )
    contributed: VariableName | None = Field(
        None,
        description="Each of its values names an item that roles contribute to this kind: its `unique` fields, "
        "joined by `/`.",
    )
    description: v.Sentence = Field(description="Its meaning, with the unit.")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if sum(map(bool, (self.type, self.list_of, self.one_of))) != 1:
            raise ValueError("give exactly one of type, list_of and one_of")
        if (self.at_least, self.at_most) != (None, None) and self._of not in _NUMBERS:
            raise ValueError(f"at_least and at_most are for {' and '.join(map(str, _NUMBERS))}")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError("at_least is more than at_most")
        for name in ("default", "rehearsed"):
            try:
                self._typed_or_empty(getattr(self, name))
            except ValidationError as error:
                raise ValueError(f"{name}: {'; '.join(detail['msg'] for detail in error.errors())}") from error
        return self

    @property
    def _of(self) -> TypeName | None:
        return self.type or self.list_of

    @property
    def required(self) -> bool:
        """Return whether a blueprint must set it where the role runs."""
        return self.default is None

    @property
    def written(self) -> Any:
        """Return the type of the variable in a blueprint, as a pydantic annotation."""
        if self._of is None:
            return Literal[self.one_of]
        value_type = TYPES[self._of].written
        if self._of in _NUMBERS:
            number, check = _NUMBERS[self._of]
            # bounds come first: otherwise they do not reach the JSON Schema of a field that may be null
            bounds = Field(ge=_plain(self.at_least), le=_plain(self.at_most))
            value_type = Annotated[number, bounds, BeforeValidator(check)]
        return list_of(value_type) if self.list_of else value_type

    @cached_property
    def usual(self) -> Any:
        """Return its typed default in the blueprint's form, or None."""
        return self._typed_or_empty(self.default)

    @property
    def in_rehearsal(self) -> object:
        """Return its value in the rehearsal of a real site, as templates and code get it; None: the site's."""
        return None if self.rehearsed is None else self.given(self._typed_or_empty(self.rehearsed))

    def _typed_or_empty(self, value: object) -> object:
        if value == "" and self.type in MAY_BE_EMPTY:
            return ""
        return None if value is None else self._adapter.validate_python(value)

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        shape = (self.type, self.list_of, self.one_of, self.at_least, self.at_most)
        if shape not in _ADAPTERS:
            _ADAPTERS[shape] = TypeAdapter(self.written)
        return _ADAPTERS[shape]

    def typed(self, value: object) -> Any:
        """Return a value of a blueprint, typed. Raise ValueError with the error in it."""
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            hints = (detail.get("ctx", {}).get("hint") for detail in error.errors())
            messages = (detail["msg"] for detail in error.errors())
            raise ValueError("; ".join(filter(None, (*messages, *hints)))) from error

    def given(self, value: Any) -> Any:
        """Return a typed value for templates and code."""
        if self._of is None:
            return value
        convert = TYPES[self._of].given
        return tuple(map(convert, value)) if self.list_of else convert(value)


def _plain(bound: float | None) -> float | None:
    return int(bound) if bound is not None and bound.is_integer() else bound


class Chosen(Section):
    """What a blueprint chooses of the variables of a role, or of the options of a smoke test."""

    declared: ClassVar[Mapping[str, Variable]] = {}  # the variables that this model was made from

    def by_name(self) -> dict[str, Any]:
        """Return all with a value, as templates and code get it."""
        values = {name: getattr(self, _field(name)) for name in self.declared}
        return {name: self.declared[name].given(value) for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Defaults:
    """The variables of a role that the blueprint does not name."""

    declared: Mapping[str, Variable]

    def by_name(self) -> dict[str, Any]:
        """Return all with a default, as templates and code get them."""
        usual = {name: variable.usual for name, variable in self.declared.items()}
        return {name: self.declared[name].given(value) for name, value in usual.items() if value is not None}

    def __deepcopy__(self, _: object) -> Self:
        """Return itself: pydantic copies the default of a field, with every declaration."""
        return self


class Roles(Section):
    """What a blueprint chooses of what roles let it choose."""

    def by_role(self) -> dict[str, dict[str, Any]]:
        """Return every role's variables with a value, as templates and code get them."""
        return {name: getattr(self, field).by_name() for field, name in _roles(type(self))}

    def in_rehearsals(self) -> dict[str, dict[str, object]]:
        """Return the values of rehearsals, of roles that declare any."""
        chosen = {name: getattr(self, field).declared for field, name in _roles(type(self))}
        values = {
            role: {name: variable.in_rehearsal for name, variable in declared.items() if variable.rehearsed is not None}
            for role, declared in chosen.items()
        }
        return {role: by_name for role, by_name in values.items() if by_name}

    def said(self) -> set[str]:
        """Return the roles with any setting in the blueprint."""
        return {name for field, name in _roles(type(self)) if field in self.model_fields_set}

    def unmet(self) -> Iterator[tuple[str, str, str, Variable]]:
        """Yield the role, the name, the other variable that it needs and that has no value, and its declaration."""
        for field, role in _roles(type(self)):
            chosen: Chosen | Defaults = getattr(self, field)
            set_values = chosen.by_name()
            for name, variable in chosen.declared.items():
                if variable.needs and set_values.get(name) and not set_values.get(variable.needs):
                    yield role, name, variable.needs, chosen.declared[variable.needs]

    def missing(self) -> Iterator[tuple[str, str, Variable]]:
        """Yield role, name and declaration of variables without a value."""
        for field, role in _roles(type(self)):
            chosen: Chosen | Defaults = getattr(self, field)
            set_values = chosen.by_name()
            yield from ((role, name, variable) for name, variable in chosen.declared.items() if name not in set_values)


def variables_of(variables: Mapping[str, Mapping[str, Variable]]) -> dict[str, str]:
    """Return what people take for services: roles, and the first word of a variable that one role alone has."""
    words: dict[str, dict[str, str]] = {}
    for role, declared in variables.items():
        for name in declared:
            words.setdefault(name.partition("_")[0], {}).setdefault(role, f"roles.{role}.{name}")
    alone = {word: next(iter(places.values())) for word, places in words.items() if len(places) == 1}
    return alone | {role: f"roles.{role}" for role in variables}


def _roles(model: type[Roles]) -> Iterator[tuple[str, str]]:
    """Fields, with the names of their roles."""
    return ((name, str(field.alias)) for name, field in model.model_fields.items())


def roles_model(
    variables: Mapping[str, Mapping[str, Variable]], others: Iterable[str], named: Collection[str] | None = None
) -> type[Roles]:
    """Return the section of a blueprint for roles' variables; `others` are the roles that have none.

    `named` are the roles that the blueprint names, None: any; the others keep their defaults.
    """
    fields: dict[str, Any] = {}
    for role, declared in variables.items():
        is_named = named is None or role in named
        model = chosen_model(role, declared) if is_named else Chosen
        default = model.model_construct() if is_named else Defaults(declared)
        fields[_field(role)] = model, Field(default, alias=role, description=f"Variables of the role {role}.")
    made: type[Roles] = create_model("Roles", __base__=Roles, __doc__=Roles.__doc__, **fields)
    made.not_keys = {role: f"the role `{role}` has no variables" for role in others}
    return made


def chosen_model(owner: str, declared: Mapping[str, Variable]) -> type[Chosen]:
    """Return the section of a blueprint for the variables that one role, or one smoke test, declares."""
    fields: dict[str, Any] = {}
    for name, variable in declared.items():
        description = (
            f"{variable.description} Required where the role runs." if variable.required else variable.description
        )
        kind = variable.written | None if variable.required else variable.written
        fields[_field(name)] = kind, Field(variable.usual, alias=name, description=description)
    title = "".join(word.capitalize() for word in ("chosen", *owner.split("_")))
    made: type[Chosen] = create_model(title, __base__=Chosen, __doc__=Chosen.__doc__, **fields)
    made.declared = declared
    return made


def _field(name: str) -> str:
    """Return the field of a key: `copy` alone, and others, would hide attributes of every section."""
    return f"of_{name}"
