"""Jinja for roles: a few filters more, and an error for every unknown name.

Expressions and templates come from roles, the shipped ones or a site's own; `hpcforge.plan.roles.sandbox` limits them
to plain data and bounds. A blueprint's values are only inputs of the evaluation, so a value that looks like a template
stays text.

A template may name a secret, `{{ secret('NAME') }}`. Rendering returns the text without the secret's value, and the
value's place. During rendering a mark is in that place: a character that the rendered text does not have otherwise, so
no value can imitate a mark. The text is also rendered without marks: if the two differ in more than the marks, a filter
has used them.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, NoReturn

import jinja2
from jinja2 import (
    StrictUndefined,
    TemplateError,
    TemplateRuntimeError,
    TemplateSyntaxError,
    UndefinedError,
    nodes,
)
from jinja2.environment import TemplateExpression
from jinja2.exceptions import SecurityError
from jinja2.parser import Parser
from jinja2.utils import missing
from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

from hpcforge.blueprint.diagnostics import did_you_mean
from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.values import refusal
from hpcforge.cluster.model import Node
from hpcforge.plan.roles import sandbox

# Names and addresses folded side by side, as Slurm's `NodeName=w[01-03] NodeAddr=10.77.0.[11-13]` pairs them.
_LAST_NUMBER = re.compile(r"(.*[^0-9]|)([0-9]+)")


def address_runs(nodes: Iterable[Node]) -> list[tuple[str, str]]:
    """Return pairs of hostlists of names and addresses. Both count up by one, so that Slurm pairs them correctly."""
    runs: list[list[Node]] = []
    for node in nodes:
        if runs and _next(runs[-1][-1].name) == node.name and _next(runs[-1][-1].address) == node.address:
            runs[-1].append(node)
        else:
            runs.append([node])
    return [(fold(node.name for node in run), fold(node.address for node in run)) for run in runs]


def _next(text: str) -> str | None:
    """Return the text with its last number one higher, equally padded: w09 -> w10; None without a number at its end."""
    match = _LAST_NUMBER.fullmatch(text)
    return f"{match[1]}{int(match[2]) + 1:0{len(match[2])}}" if match else None


Context = dict[str, Any]  # the names that a text may use


def _fold_names(names: Iterable[str]) -> str:
    return fold(tuple(names))


_OWN_TYPE = re.compile(r"'hpcforge\.(?:\w+\.)*(\w+) object'")  # Cluster, in any module


class _UnknownNameError(UndefinedError):
    """An unknown name; `hint` lists the known ones."""

    def __init__(self, owner: object, name: object, message: str) -> None:
        super().__init__(_OWN_TYPE.sub(r"\1", message))
        self.hint = _hint_for(owner, name)


def _hint_for(owner: object, name: object) -> str | None:
    if owner is missing:
        return "a role can use `cluster`, `node`, `vars` and, with `for_each`, `item`"
    names = (
        [str(key) for key in owner]
        if isinstance(owner, Mapping)
        else [name for name in dir(owner) if not name.startswith("_")]
    )
    return did_you_mean(str(name), names) or f"there are: {', '.join(names)}"


class _Undefined(StrictUndefined):
    """An undefined name; its error lists the defined names."""

    __slots__ = ()

    def __init__(
        self,
        hint: str | None = None,
        obj: object = missing,
        name: str | None = None,
        exc: type[TemplateRuntimeError] = UndefinedError,
    ) -> None:
        error_type: Any = partial(_UnknownNameError, obj, name) if exc is UndefinedError and not hint else exc
        super().__init__(hint, obj, name, error_type)


def hint_of(error: Exception) -> str | None:
    """Return the remedy for an error of `render` or `evaluate`, if known."""
    return getattr(error, "hint", None)


def forbidden(error: Exception) -> bool:
    """Return whether an error of `render` or `evaluate` is about a forbidden text, invalid for any cluster."""
    return isinstance(error, SecurityError | TemplateSyntaxError | sandbox.TooMuchError)


def line_of(error: Exception) -> int | None:
    """Return the line of a template where an error of `render` occurred."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == "<template>"), None)


_FILTERS = {"fold": _fold_names, "address_runs": address_runs}
_ENVIRONMENT = sandbox.environment(_FILTERS, undefined=_Undefined)
TESTED: dict[str, object] = {"tested": True}  # context of validation for texts that hpcforge's tests have parsed
_MARKS = "\ue000\ue001\ue002\ue003\ue004\ue005\ue006\ue007"  # private use; a mark is one that the text does not have
_AS_IT_IS = "a secret cannot be changed: write {{ secret('NAME') }}, without filters, joins or comparisons"


class Jinja(str):
    """A role's text in Jinja's language. Its syntax is valid if it is a part of role.yaml."""

    __slots__ = ()

    def tree(self) -> nodes.Template:
        """Return its syntax tree. Raises `jinja2.TemplateSyntaxError`."""
        raise NotImplementedError

    def has_syntax(self) -> bool:
        """Return whether it can have a syntax error."""
        return True

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Return the schema: a string with valid syntax."""
        return core_schema.with_info_after_validator_function(cls._parsed, core_schema.str_schema())

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: core_schema.CoreSchema, handler: Any) -> dict[str, Any]:
        """Return the schema, with expression or template as its format."""
        return {**handler(schema), "format": cls.__name__.lower()}

    @classmethod
    def _parsed(cls, text: str, info: core_schema.ValidationInfo) -> Jinja:
        made = cls(text)
        try:
            if info.context is not TESTED and made.has_syntax():
                made.tree()
        except TemplateSyntaxError as error:
            raise refusal(f"{cls.__name__.lower()}: {error.message}") from None
        return made


class Expression(Jinja):
    """A Jinja expression over `cluster`, `node`, the role's `vars` and, under `for_each`, `item`."""

    __slots__ = ()

    def tree(self) -> nodes.Template:
        """Return the tree of a template that contains only this expression."""
        return _tree_of_expression(str(self))


class Template(Jinja):
    """Text with `{{ expression }}` and `{% statement %}`."""

    __slots__ = ()

    def tree(self) -> nodes.Template:
        """Return the tree. A template that includes others is refused: they cannot be loaded."""
        return _tree_of_template(str(self))

    def has_syntax(self) -> bool:
        """Return whether it has any syntax: most paths and names are plain."""
        return "{" in self


@lru_cache(maxsize=4096)
def _tree_of_expression(source: str) -> nodes.Template:
    with _syntax(source):
        parser = Parser(_ENVIRONMENT, source, state="variable")  # as Environment.compile_expression begins
        expression = parser.parse_expression()
        if not parser.stream.eos:
            raise TemplateSyntaxError("chunk after expression", parser.stream.current.lineno)
        tree = sandbox.metered(nodes.Template([nodes.Output([expression])], lineno=1))
        return tree.set_environment(_ENVIRONMENT)  # type: ignore[return-value]


@lru_cache(maxsize=4096)
def _tree_of_template(source: str) -> nodes.Template:
    with _syntax(source):
        return sandbox.metered(_ENVIRONMENT.parse(source))


@contextmanager
def _syntax(source: str) -> Iterator[None]:
    """Raise TemplateSyntaxError for invalid text, and for text too long or too deep for Jinja or Python."""
    if len(source) > sandbox.MAX_SOURCE:
        raise TemplateSyntaxError(f"the template is larger than {sandbox.MAX_SOURCE >> 10} KiB", 1)
    try:
        with sandbox.counted(0):  # Jinja evaluates constants
            yield
    except TemplateError:
        raise
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError, AssertionError) as error:
        raise TemplateSyntaxError(
            f"the template is nested too deep or is too large: {type(error).__name__}", 1
        ) from error


@lru_cache(maxsize=4096)
def _template(source: str) -> jinja2.Template:
    tree = _tree_of_template(str(source))  # the cache's key is plain text
    with _syntax(source):
        return _ENVIRONMENT.from_string(tree)


@lru_cache(maxsize=4096)
def _expression(source: str) -> TemplateExpression:
    """Compile the cached tree as Environment.compile_expression does."""
    output = _tree_of_expression(str(source)).body[0]
    assert isinstance(output, nodes.Output)
    with _syntax(source):
        return _compiled(output.nodes[0])


def _compiled(tree: nodes.Expr) -> TemplateExpression:
    body = [nodes.Assign(nodes.Name("result", "store"), tree, lineno=1)]
    return TemplateExpression(_ENVIRONMENT.from_string(nodes.Template(body, lineno=1)), undefined_to_none=False)


def render(source: str, context: Context) -> str:
    """Render a template. Raises `jinja2.TemplateError` for unknown names and exceeded limits."""
    return _rendered(_template(source), context) if "{" in source else source


def _rendered(template: jinja2.Template, context: Context) -> str:
    try:
        with sandbox.Rendering():
            try:
                return sandbox.joined(template.root_render_func(template.new_context(context)), sandbox.MAX_TEXT)
            except Exception:  # as Template.render ends
                template.environment.handle_exception()
    except _ENDS as error:
        raise _as_role_error(error) from error


def evaluate(source: str, context: Context) -> Any:
    """Evaluate an expression. Raises as `render`."""
    return True if source == "true" else _evaluated(_expression(source), context)


def evaluate_tree(tree: nodes.Expr, context: Context) -> object:
    """Evaluate the syntax tree of a part of a text. Raises as `render`."""
    return _evaluated(_compiled(tree), context)


def attribute(owner: object, name: str) -> object:
    """Return an attribute as a template gets it; a `jinja2.Undefined` if it is missing or forbidden."""
    with sandbox.Rendering():
        return _ENVIRONMENT.getattr(owner, name)


def _evaluated(expression: TemplateExpression, context: Context) -> Any:
    try:
        with sandbox.Rendering():
            value = expression(**context)
            if isinstance(value, StrictUndefined):
                str(value)  # raises its error
            return list(value) if isinstance(value, Iterator) else value
    except _ENDS as error:
        raise _as_role_error(error) from error


_ENDS = (ArithmeticError, AttributeError, LookupError, RecursionError, MemoryError)  # errors of a role's expressions


def _as_role_error(error: Exception) -> TemplateRuntimeError:
    raised = TemplateRuntimeError(f"{type(error).__name__}: {error}")
    return raised.with_traceback(error.__traceback__)


class _Mark:
    """Stands for a secret during rendering. Templates can output it, and do nothing else with it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _refuse(self, *_: object) -> NoReturn:
        raise TemplateRuntimeError(_AS_IT_IS)

    __str__ = __repr__ = __len__ = __bool__ = __iter__ = __eq__ = __hash__ = __getitem__ = __contains__ = _refuse
    __add__ = __radd__ = __mod__ = __rmod__ = __mul__ = __lt__ = __gt__ = __le__ = __ge__ = __format__ = _refuse


def _put(value: Any) -> Any:
    return value._text if isinstance(value, _Mark) else sandbox.shown(value)


_WITH_SECRETS = sandbox.environment(_FILTERS, undefined=_Undefined, finalize=_put)


@lru_cache(maxsize=256)
def _template_with_secrets(source: str) -> jinja2.Template:
    with _syntax(source):
        return _WITH_SECRETS.from_string(sandbox.metered(_WITH_SECRETS.parse(str(source))))


def render_filled(
    source: str, context: Context, check: Callable[[str], None]
) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Render a text without the values of secrets, and return their places: offsets in characters, and names.

    `check` is called with each name, and raises an error for an invalid one. Raise `jinja2.TemplateError`.
    """
    if "secret" not in source:
        return render(source, context), ()

    def with_marks(character: str) -> str:
        def secret(name: str) -> _Mark:
            check(name)
            return _Mark(f"{character}{name}{character}" if character else "")

        return _rendered(_template_with_secrets(source), {**context, "secret": secret})

    without = with_marks("")
    mark = next((mark for mark in _MARKS if mark not in without), None)
    if mark is None:
        raise TemplateRuntimeError("the text uses every character that could mark a secret")
    parts = with_marks(mark).split(mark)
    texts, names = parts[0::2], parts[1::2]
    if len(texts) != len(names) + 1 or "".join(texts) != without:
        raise TemplateRuntimeError(_AS_IT_IS)
    for name in names:
        check(name)  # a filter over a block may have changed the name
    fills, at = [], 0
    for text, name in zip(texts, names, strict=False):
        at += len(text)
        fills.append((at, name))
    return without, tuple(fills)
