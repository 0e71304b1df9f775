"""The Jinja environment of roles: it reaches only plain data, and every rendering has bounds.

A role's folder may be untrusted, and commands that change no node evaluate its content. So templates get no attribute
that begins with `_`, only the methods listed here and the pure ones of `hpcforge.cluster`, and only the listed filters.
Steps replace seconds, so that a role ends the same way on every machine: about one step for each evaluated part of a
template, and one for each list entry or 16 characters that an operation reads. The size of a value is limited, and
checked before the value is made.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType, MethodType, ModuleType
from typing import Any

from jinja2 import TemplateRuntimeError, TemplateSyntaxError, Undefined, nodes, pass_environment
from jinja2.filters import FILTERS
from jinja2.runtime import LoopContext
from jinja2.sandbox import SandboxedEnvironment, is_internal_attribute
from jinja2.tests import TESTS
from markupsafe import Markup

from hpcforge.cluster.model import Node

MAX_TEXT = 16 << 20  # characters of one rendered text: a node reads no larger file
MAX_VALUE = 4 << 20  # characters of a text, or entries of a list
MAX_SOURCE = 256 << 10  # characters of a template
_MAX_BITS = 1024  # of a whole number
_MAX_WIDTH = 10_000  # of padded or indented text
# Steps, about two million a second. Of the shipped roles the largest text takes 300 a node, all together 6,000 a node.
_ONE, _ONE_A_NODE = 3_000_000, 2_000
_ALL, _ALL_A_NODE = 30_000_000, 20_000
_RENDERING = 50  # fixed steps of each rendering
_CHARACTERS_A_STEP = 16
_SCALARS = frozenset({str, int, float, bool, type(None)})
_LISTS: tuple[type[Any], ...] = (list, tuple, dict, set, frozenset, MappingProxyType)
_DEEP = frozenset({str, Markup, *_LISTS})  # types of entries whose size counts
_SIZED: tuple[type[Any], ...] = (range, *(type(getattr({}, name)()) for name in ("keys", "values", "items")))
_PLAIN = _SCALARS | {list, tuple, dict}
_OF_STR = """
capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit islower isnumeric isspace
istitle isupper lower lstrip partition removeprefix removesuffix rfind rindex rpartition rsplit rstrip split splitlines
startswith strip swapcase title upper
"""
_METHODS: tuple[tuple[type, frozenset[str]], ...] = (
    (str, frozenset(_OF_STR.split())),
    (dict, frozenset({"get", "items", "keys", "setdefault", "values"})),
    (Mapping, frozenset({"get", "items", "keys", "values"})),
    (list, frozenset({"append", "count", "index"})),
    (tuple, frozenset({"count", "index"})),
    (LoopContext, frozenset({"changed", "cycle"})),
)
_OF_CLUSTER = "hpcforge.cluster."  # its types are frozen data with pure methods
_FILTERS = """
abs capitalize count d default dictsort filesizeformat first float groupby int items last length list lower map max min
reject rejectattr reverse select selectattr sort title tojson trim truncate unique upper urlencode wordcount
"""


class TooMuchError(TemplateRuntimeError):
    """A text or an expression takes more steps or space than allowed."""

    hint = "loop over less, or make smaller texts: the limit is ample for a cluster of this size"


class Meter:
    """The remaining steps of one rendering, and of the whole compilation for a cluster of `nodes` nodes."""

    def __init__(self, nodes: int = 0) -> None:
        self.singular, self.of_all = _ONE + _ONE_A_NODE * nodes, _ALL + _ALL_A_NODE * nodes
        self.begin()

    def begin(self) -> None:
        """Begin a rendering."""
        self.budget = self.remaining = min(self.singular, self.of_all - _RENDERING)

    def spend(self, steps: int) -> None:
        """Count steps. Raises TooMuchError."""
        self.remaining -= steps
        if self.remaining < 0:
            alone = self.budget == self.singular
            raise TooMuchError(f"it takes more than {self.singular:,} steps" if alone else _TOO_MUCH_IN_ALL)

    def end(self) -> None:
        """Subtract the steps of the rendering from those of all."""
        self.of_all -= _RENDERING + self.budget - self.remaining


_TOO_MUCH_IN_ALL = "with this, all roles together take more steps than a cluster of this size allows"
_METER: ContextVar[Meter] = ContextVar("meter")


@contextmanager
def counted(nodes: int) -> Iterator[Meter]:
    """Count the steps of all rendering in this block together, for a cluster of this size."""
    meter = Meter(nodes)
    token = _METER.set(meter)
    try:
        yield meter
    finally:
        _METER.reset(token)


class Rendering:
    """One rendering. It uses the meter of `counted`, or its own outside of that block."""

    def __enter__(self) -> None:
        meter = _METER.get(None)
        self._token = _METER.set(Meter()) if meter is None else None
        _METER.get().begin()

    def __exit__(self, *_: object) -> None:
        _METER.get().end()
        if self._token is not None:
            _METER.reset(self._token)


def spend(steps: int) -> bool:
    """Count steps of this rendering. Return true, for use in expressions. Raises TooMuchError."""
    _METER.get().spend(steps)
    return True


def size_of(value: Any) -> int:
    """Return the steps to read a value; nested lists count with all their content, each time they occur."""
    if isinstance(value, str):
        return len(value) // _CHARACTERS_A_STEP
    if not isinstance(value, _LISTS):
        return len(value) if isinstance(value, _SIZED) else 1
    size = len(value)
    for part in (*value, *value.values()) if isinstance(value, Mapping) else value:
        if type(part) in _DEEP:
            size += size_of(part)
            if size > _METER.get().remaining:
                break
    return size


def _looked_at(value: Any) -> Any:
    """Return the value, and count the steps of one pass over it."""
    kind = type(value)
    if kind is str:
        spend(len(value) // _CHARACTERS_A_STEP)
    elif kind not in _SCALARS:
        spend(size_of(value))
    return value


def _check_size(size: int) -> None:
    """Refuse a value that would be too large, and count its steps."""
    if size > MAX_VALUE:
        raise TooMuchError(f"a value of more than {MAX_VALUE:,} characters or entries")
    spend(size // _CHARACTERS_A_STEP)


def _text(value: Any) -> str:
    """Return a value as text. Raises TemplateRuntimeError for an object: a template must name an attribute."""
    if isinstance(value, _LISTS):
        _check_size(_CHARACTERS_A_STEP * size_of(value))
        for part in _within(value):
            _no_object(part)
    else:
        _no_object(value)
    return str(value)


def _no_object(value: Any) -> None:
    if dataclasses.is_dataclass(value):
        raise TemplateRuntimeError(f"a {type(value).__name__} is not text: use one of its attributes")


def _within(value: Any) -> Iterator[Any]:
    for part in (*value, *value.values()) if isinstance(value, Mapping) else value:
        if isinstance(part, _LISTS):
            yield from _within(part)
        else:
            yield part


def shown(value: Any) -> Any:
    """Return the output of `{{ }}` in a text."""
    return value if type(value) in _SCALARS else _text(value)


def joined(parts: Iterable[str], most: int = MAX_VALUE) -> str:
    """Join parts to a text. Raises TooMuchError."""
    size, texts = 0, []
    for part in parts:
        size += len(part)
        if size > most:
            raise TooMuchError(f"a text of more than {most:,} characters")
        texts.append(part)
    spend(size // _CHARACTERS_A_STEP)
    return "".join(texts)


@pass_environment
def _join(sandbox: Sandbox, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    parts = value if attribute is None else (_part(sandbox, part, attribute) for part in value)
    texts: list[str] = []
    for place, part in enumerate(parts):
        texts += (_text(d), _text(part)) if place else (_text(part),)
        spend(1)
    return joined(texts)


def _part(sandbox: Sandbox, value: Any, name: str | int) -> Any:
    """Return the value for `attribute=` of Jinja's filters: by a name, several names with points, or an index."""
    for key in name.split(".") if isinstance(name, str) else [name]:
        value = sandbox.getitem(value, int(key) if isinstance(key, str) and key.isdecimal() else key)
    return value


def _replace(text: Any, old: Any, new: Any, count: int | None = None) -> str:
    source, before, after = _text(text), _text(old), _text(new)
    spend(len(source) // _CHARACTERS_A_STEP)
    times = source.count(before) if count is None or count < 0 else min(count, source.count(before))
    _check_size(len(source) + times * max(0, len(after) - len(before)))
    return source.replace(before, after, -1 if count is None else count)


@pass_environment
def _sum(sandbox: Sandbox, value: Iterable[Any], attribute: str | int | None = None, start: Any = 0) -> Any:
    for part in value:
        start = _binary("+", start, part if attribute is None else _part(sandbox, part, attribute))
    return start


def _round(value: Any, precision: int = 0, method: str = "common") -> Any:
    if abs(precision) > _MAX_WIDTH or type(value) not in (int, float):
        raise TooMuchError("round: a number, and a precision of some digits")
    return FILTERS["round"](value, precision, method)


def _indent(text: str, width: Any = 4, first: bool = False, blank: bool = False) -> str:
    by = len(width) if isinstance(width, str) else int(width)
    _check_size(len(text) + (text.count("\n") + 1) * by)
    return str(FILTERS["indent"](text, width, first, blank))


def _center(text: Any, width: int = 80) -> str:
    return _text(text).center(_width(width))


def _width(width: int) -> int:
    if width > _MAX_WIDTH:
        raise TooMuchError(f"a width of more than {_MAX_WIDTH:,}")
    return width


def _format(text: Any, *args: Any, **kwargs: Any) -> Any:
    return _binary("%", _text(text), kwargs or args)


def _binary(sign: str, left: Any, right: Any) -> Any:
    """Return the result of an operation. Refuse one that would be too large, before it is made."""
    if isinstance(left, str | list | tuple) or isinstance(right, str | list | tuple):
        _check_sequences(sign, left, right)
    elif isinstance(left, int) and isinstance(right, int):
        bits = {"*": left.bit_length() + right.bit_length(), "**": left.bit_length() * max(0, right)}
        if bits.get(sign, 0) > _MAX_BITS:
            raise TooMuchError(f"a number of more than {_MAX_BITS} bits")
    spend(1)
    return SandboxedEnvironment.default_binop_table[sign](left, right)


def _check_sequences(sign: str, left: Any, right: Any) -> None:
    if sign == "%" and isinstance(left, str):
        widths = (int(digits[:9]) for digits in re.findall("[0-9]+", left))
        if "*" in left or any(width > _MAX_WIDTH for width in widths):
            raise TooMuchError(f"a format with * or a width of more than {_MAX_WIDTH:,}")
        values = right.values() if isinstance(right, Mapping) else right if isinstance(right, tuple) else (right,)
        largest = max((len(_text(value)) for value in values), default=0)
        _check_size(len(left) + left.count("%") * (_MAX_WIDTH * bool(re.search("[0-9]", left)) + largest))
    elif sign == "+" and hasattr(left, "__len__") and hasattr(right, "__len__"):
        _check_size(len(left) + len(right))
    elif sign == "*":
        times, sequence = (left, right) if isinstance(left, int) else (right, left)
        if isinstance(times, int):
            _check_size(len(sequence) * max(0, times))


def _range(*bounds: int) -> range:
    numbers = range(*bounds)
    if len(numbers) > MAX_VALUE:
        raise TooMuchError(f"a range of more than {MAX_VALUE:,} numbers")
    spend(len(numbers))
    return numbers


def _counted(function: Any) -> Callable[..., Any]:
    """Return a filter or a test that counts its input."""
    skipped = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        spend(1)
        for arg in args[skipped:]:
            if type(arg) not in _SCALARS or type(arg) is str:
                spend(size_of(arg))
        for value in kwargs.values():
            spend(size_of(value))
        return function(*args, **kwargs)

    return counted


class Sandbox(SandboxedEnvironment):
    """Jinja over plain data, with bounds."""

    intercepted_binops = frozenset(SandboxedEnvironment.default_binop_table)
    concat = staticmethod(joined)

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """Return the globals and `d`. Jinja makes a ChainMap, copied at every rendering: half of its time."""
        return {**self.globals, **(d or {})}

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return whether a template may use this: data, or a listed method."""
        if attr.startswith("_") or isinstance(value, ModuleType):
            return False
        if type(obj).__module__.startswith(_OF_CLUSTER):
            return not callable(value) or (isinstance(value, MethodType) and value.__self__ is obj)
        if is_internal_attribute(obj, attr):
            return False
        if not callable(value):
            return True
        return any(attr in names for kind, names in _METHODS if isinstance(obj, kind))

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return an attribute, or an entry of that name."""
        if attribute[:1] != "_":
            try:
                value = getattr(obj, attribute)
            except AttributeError:
                pass
            else:
                if type(value) in _PLAIN:
                    return value
                if isinstance(obj, str) and attribute in _OF_TEXT:
                    return functools.partial(_OF_TEXT[attribute], obj)
                if self.is_safe_attribute(obj, attribute, value):
                    return value
        elif isinstance(obj, Undefined):
            str(obj)  # raises its error
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return an entry, or an attribute of that name."""
        if type(argument) not in _SCALARS:
            spend(size_of(argument))
        return super().getitem(obj, argument)

    def wrap_str_format(self, value: Any) -> None:
        """Return None: `is_safe_attribute` refuses the method `format`."""

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:  # noqa: ARG002
        """Evaluate an operation within the sandbox's limits."""
        return _binary(operator, left, right)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Call a function, counted."""
        owner = getattr(__obj, "__self__", None)
        spend(1 + sum(map(size_of, (*args, *kwargs.values()))))
        if isinstance(owner, str | list | tuple) and __obj.__name__ != "append":
            spend(size_of(owner))
        elif type(owner).__module__.startswith(_OF_CLUSTER) and not any(isinstance(arg, Node) for arg in args):
            spend(len(getattr(owner, "nodes", ())))  # a method with a node as argument reads no other nodes
        return super().call(__context, __obj, *args, **kwargs)


# They replace methods with results of any size.
_OF_TEXT: dict[str, Callable[..., str]] = {"replace": _replace}


def metered(tree: nodes.Template) -> nodes.Template:
    """Return the tree with counters of its steps. Raise TemplateSyntaxError for constructs forbidden in roles."""
    refused = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
    for node in tree.find_all(refused):
        raise TemplateSyntaxError("templates cannot include or import other files", node.lineno)
    for node in tree.find_all((nodes.Block, nodes.For)):
        if isinstance(node, nodes.Block) or (isinstance(node, nodes.For) and node.recursive):
            raise TemplateSyntaxError("blocks and recursive loops are not accepted: write it out", node.lineno)
    _meter(tree)
    return tree


def _meter(node: nodes.Node) -> int:
    """Put counters into loops and macros, and around read operands; return the number of parts without a counter."""
    inside = {id(child): _meter(child) for child in node.iter_child_nodes()}
    size = 1 + sum(inside.values())
    if isinstance(node, nodes.For | nodes.Macro | nodes.CallBlock):
        if isinstance(node, nodes.For) and node.test is not None:
            node.test = nodes.And(_count(size), node.test, lineno=node.lineno)
        node.body.insert(0, nodes.ExprStmt(_count(size), lineno=node.lineno))
        # The counter in its body counts the body, each time.
        return 1 + sum(size for child, size in inside.items() if child not in set(map(id, node.body)))
    if isinstance(node, nodes.Compare):
        node.expr = _counting(node.expr)
        for operand in node.ops:
            operand.expr = _counting(operand.expr)
    elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
        node.node = _counting(node.node)
    elif isinstance(node, nodes.Pair):
        node.key = _counting(node.key)
    elif isinstance(node, nodes.Concat):
        parts = nodes.List(node.nodes, lineno=node.lineno)
        node.nodes = [_filter(parts, "join")]
    return size


def _counting(node: nodes.Expr) -> nodes.Expr:
    return node if isinstance(node, nodes.Const) else _filter(node, _LOOK)


def uncounted(node: nodes.Expr) -> nodes.Expr:
    """Return an operand of a comparison without the counter around it."""
    return node.node if isinstance(node, nodes.Filter) and node.name == _LOOK and node.node else node


def _count(steps: int) -> nodes.Expr:
    return _filter(nodes.Const(steps), _SPEND)


def _filter(node: nodes.Expr, name: str) -> nodes.Expr:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


_LOOK, _SPEND = "_looked_at", "_spend"
_OURS: dict[str, Callable[..., Any]] = {
    **{"center": _center, "format": _format, "indent": _indent, "join": _join, "replace": _replace, "round": _round},
    **{"string": _text, "sum": _sum},
}


def environment(
    filters: Mapping[str, Any], *, undefined: type[Undefined], finalize: Callable[[Any], Any] = shown
) -> Sandbox:
    """Return the Jinja environment for configuration files of roles, with hpcforge's filters."""
    made = Sandbox(
        undefined=undefined,
        finalize=finalize,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        optimized=False,  # the search for constants takes longer than it saves
    )
    functions = {**{name: FILTERS[name] for name in _FILTERS.split()}, **_OURS, **filters}
    made.filters = {
        **{name: _counted(function) for name, function in functions.items()},
        _LOOK: _looked_at,
        _SPEND: spend,
    }
    made.tests = {name: _counted(test) for name, test in TESTS.items()}
    made.globals = {"range": _range, "dict": dict, "namespace": made.globals["namespace"]}
    return made
