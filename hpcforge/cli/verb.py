"""The declaration of a verb: a function of one argument, the dataclass of its options.

    @verb(epilog="Example: hpcforge pin site.yaml")
    def pin(options: PinOptions) -> int:
        '''What `--help` prints below the sentence of the table of verbs.'''

Fields have the form of typer's parameters, in the order of `--help`. A field with a dataclass as its type stands for
the fields of that dataclass: verbs share options this way. typer gets a function with all of them as parameters.

`--help` of a verb and a TAB import its module. So the function imports the modules that do the work.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, Generic, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

from hpcforge.cli import completion

Options = TypeVar("Options")


class DeclaredVerb(Generic[Options]):
    """A function that runs with its options, and the epilog of its `--help`."""

    def __init__(self, work: Callable[[Options], int], epilog: str) -> None:
        self._work, self._epilog = work, epilog

    def __call__(self, options: Options) -> int:
        """Run the verb. Returns the exit status."""
        return self._work(options)

    def add_to(self, app: typer.Typer, name: str = "", panel: str | None = None, summary: str = "") -> None:
        """Add the verb as a command; without `summary` its docstring has the whole help."""
        name = name or self._work.__name__.rstrip("_").replace("_", "-")  # of `list_` and `boot_once`
        text = "\n\n".join(filter(None, (summary, inspect.getdoc(self._work))))
        command = app.command(name, cls=BlueprintFirst, help=text, epilog=self._epilog, rich_help_panel=panel)
        command(self._flat())

    def _flat(self) -> Callable[..., int]:
        """Return the function that typer calls, with a parameter for each option."""
        [kind] = [hint for name, hint in get_type_hints(self._work).items() if name != "return"]
        parameters = list(_parameters(kind))

        def run(**values: object) -> int:
            return self._work(_filled(kind, values))

        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run


class VerbGroup:
    """A verb that has verbs of its own: the rest of its help, and a decorator for each of them."""

    def __init__(self, about: str = "") -> None:
        self._about = about
        self._verbs: list[DeclaredVerb[Any]] = []

    def verb(self, epilog: str) -> Callable[[Callable[[Options], int]], DeclaredVerb[Options]]:
        """Declare one of its verbs. The docstring is its help."""

        def declared(work: Callable[[Options], int]) -> DeclaredVerb[Options]:
            made = DeclaredVerb(work, epilog)
            self._verbs.append(made)
            return made

        return declared

    def add_to(self, app: typer.Typer, name: str, panel: str, summary: str) -> None:
        """Add the group with its verbs."""
        group = typer.Typer(help="\n\n".join(filter(None, (summary, self._about))))
        for declared_verb in self._verbs:
            declared_verb.add_to(group)
        app.add_typer(group, name=name, no_args_is_help=True, rich_help_panel=panel)


def verb(epilog: str) -> Callable[[Callable[[Options], int]], DeclaredVerb[Options]]:
    """Declare the verb of a module. The docstring is its help, after the sentence of the table."""
    return lambda work: DeclaredVerb(work, epilog)


def _parameters(kind: type[Any]) -> Iterator[Parameter]:
    """Yield the parameters that a dataclass stands for."""
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        if is_dataclass(hint := hints[field.name]):
            yield from _parameters(hint)  # type: ignore[arg-type]
        else:
            default = Parameter.empty if field.default is MISSING else field.default
            yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _filled(kind: type[Options], values: Mapping[str, object]) -> Options:
    """Return the dataclass with these values."""
    hints = get_type_hints(kind, include_extras=True)
    return kind(**{name: _filled(hint, values) if is_dataclass(hint) else values[name]  # type: ignore[arg-type]
                   for name, hint in hints.items()})  # fmt: skip


class BlueprintFirst(TyperCommand):
    """A command that takes its blueprint from the environment where its first argument is not one.

    Click gives arguments their words in order, so that `logs w01` would read the blueprint w01.
    """

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Insert the environment's blueprint before the arguments if they do not begin with a blueprint."""
        blueprint = os.environ.get(completion.IN_ENVIRONMENT)
        arguments = [parameter for parameter in self.params if parameter.param_type_name == "argument"]
        if not blueprint or not arguments or arguments[0].envvar != completion.IN_ENVIRONMENT:
            return super().parse_args(ctx, args)
        words, _, _ = self.make_parser(ctx).parse_args(list(args))
        first, *others = [words.get(parameter.name or "") for parameter in arguments]
        lacking = any(parameter.required and not word for parameter, word in zip(arguments[1:], others, strict=True))
        if first is None:
            return super().parse_args(ctx, [blueprint, *args] if others else args)
        if _is_blueprint(str(first), lacking=lacking):
            return super().parse_args(ctx, args)
        if not others:
            nodes = f" Nodes: -n {first}" if any("-n" in parameter.opts for parameter in self.params) else ""
            ctx.fail(f"{first} is not a blueprint, and {completion.IN_ENVIRONMENT} names {blueprint}.{nodes}")
        return super().parse_args(ctx, [blueprint, *args])


def _is_blueprint(word: str, *, lacking: bool) -> bool:
    """Return whether a first argument is a blueprint's path; `lacking`: a later argument needs a word and has none."""
    if word.endswith((".yaml", ".yml")):
        return True
    return not lacking and (os.sep in word or Path(word).is_file())
