"""The rules that a set of software breaks, and the nearest set that breaks none. Pure.

A set is a tuple of `StatedComponent`. It may have several of a component, for example CUDA toolkits or kinds of GPUs: a
rule applies to each combination of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from hpcforge.blueprint.reader import Loc
from hpcforge.catalog.compatibility import Compatibility, CompatibilityRule, Component

# Ranges of versions and words in compatibility.yaml. Pure.


_LEADING_NUMBERS = re.compile(r"[0-9]+(?:[.-][0-9]+)*")


def within(value: str, condition: str) -> bool:
    """Return whether a value is in a range, except for `same as`.

    The leading numbers of a version count (6.1.0 of 6.1.0-40-amd64), one by one: 570.124 is before 570.124.6.
    """
    if condition == "any":
        return True
    if condition[0] not in "<>":
        return value in condition.split(" | ")
    return all(
        numbers(value) >= numbers(bound[2:]) if bound.startswith(">=") else numbers(value) < numbers(bound[1:])
        for bound in condition.split(", ")
    )


@cache
def numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, none if it begins with another character."""
    match = _LEADING_NUMBERS.match(version)
    return tuple(map(int, re.split("[.-]", match[0]))) if match else ()


MATCHED = "matched"  # the driver's version, whichever that is


@dataclass(frozen=True)
class StatedComponent:
    """One component with its value and its place. `fixed`: it is a fact, and no proposal changes it.

    `installed`: hpcforge installs it; else it is preinstalled.
    """

    component: Component
    value: str
    loc: Loc
    fixed: bool = False
    shown: str | None = None  # its shown name, if not component and value
    installed: bool = False


@dataclass(frozen=True)
class Broken:
    """A rule that the components `of` break; `missing`: a needed component that is not set."""

    rule: CompatibilityRule
    of: tuple[StatedComponent, ...]
    missing: Component | None = None


def judge(software: Sequence[StatedComponent], rules: Iterable[CompatibilityRule]) -> Iterator[Broken]:
    """Yield the broken rules, each once; with `missing` those that need a component that is not set."""
    all_of, installed = (
        _by_component(software),
        _by_component(statement for statement in software if statement.installed),
    )
    for rule in rules:
        broken = next(_broken(rule, installed if rule.installed else all_of), None)
        if broken is not None:
            yield broken


def nearest(software: Sequence[StatedComponent], table: Compatibility) -> tuple[StatedComponent, ...] | None:
    """Return the nearest working set to one that breaks rules; None if no set of offered versions works.

    Fewest changes, then fewest offered versions between old and new, then fewest returns to an older one.
    """
    rules = [rule for rule in table.rules if rule.severity == "error"]
    start = tuple(software)
    for most in range(1, len(start) + len(table.offered) + 1):
        solutions = set(_solutions(start, frozenset(), most, rules, table.offered, set()))
        if solutions:
            return min(
                solutions,
                key=lambda solution: (_distance(start, solution, table.offered), [stated.value for stated in solution]),
            )
    return None


def is_error(broken: Broken) -> bool:
    """Return whether it is an error: a broken rule, or a required component that is not set."""
    return broken.rule.severity == "error" and (broken.missing is None or broken.rule.required)


def changes(
    before: Sequence[StatedComponent], after: Sequence[StatedComponent]
) -> Iterator[tuple[StatedComponent | None, StatedComponent]]:
    """Yield the changes of a proposal: the old component (None: not set) and the new one."""
    for place, stated in enumerate(after):
        old = before[place] if place < len(before) else None
        if stated != old:
            yield old, stated


def _by_component(software: Iterable[StatedComponent]) -> dict[Component, list[StatedComponent]]:
    components: dict[Component, list[StatedComponent]] = {}
    for statement in software:
        components.setdefault(statement.component, []).append(statement)
    return components


def _broken(rule: CompatibilityRule, software: Mapping[Component, Sequence[StatedComponent]]) -> Iterator[Broken]:
    [(needed, condition)] = rule.needs.items()
    for when in product(*(software.get(component, ()) for component in rule.when)):
        if not all(within(stated.value, condition) for stated, condition in zip(when, rule.when.values(), strict=True)):
            continue
        # a need of a component that `when` names applies to that same one
        own = tuple(stated for stated in when if stated.component == needed)
        candidates = own or tuple(software.get(needed, ()))
        if not candidates:
            yield Broken(rule, when, needed)
        for stated in candidates:
            yield from _wrong(rule, (*when, *(() if own else (stated,))), stated, condition, software)


def _wrong(
    rule: CompatibilityRule,
    parts: tuple[StatedComponent, ...],
    stated: StatedComponent,
    condition: str,
    software: Mapping[Component, Sequence[StatedComponent]],
) -> Iterator[Broken]:
    if not condition.startswith("same as "):
        if not within(stated.value, condition):
            yield Broken(rule, parts)
        return
    others = [statement for component, all_of in software.items() if component == condition[8:] for statement in all_of]
    if not others and stated.value != MATCHED:
        yield Broken(rule, parts, "driver")
    for driver in others:
        if stated.value not in (driver.value, MATCHED):
            yield Broken(rule, (*parts, driver))


def _solutions(
    software: tuple[StatedComponent, ...],
    changed: frozenset[int],
    remaining: int,
    rules: Sequence[CompatibilityRule],
    offered: Mapping[Component, Mapping[str, str]],
    visited: set[tuple[StatedComponent, ...]],
) -> Iterator[tuple[StatedComponent, ...]]:
    """Yield sets that break no rule, with at most `remaining` more changes.

    A working set changes some component of each broken rule: so only those are tried, for the rule with the fewest
    possible changes, which ends the search at once if it has none.
    """
    if software in visited:
        return
    visited.add(software)
    repairs = [
        list(_repairs(broken_rule, software, changed, offered))
        for broken_rule in judge(software, rules)
        if is_error(broken_rule)
    ]
    if not repairs:
        yield software
    elif remaining:
        for place, stated in min(repairs, key=len):
            candidate = (*software[:place], stated, *software[place + 1 :])
            yield from _solutions(candidate, changed | {place}, remaining - 1, rules, offered, visited)


def _repairs(
    broken: Broken,
    software: Sequence[StatedComponent],
    changed: frozenset[int],
    offered: Mapping[Component, Mapping[str, str]],
) -> Iterator[tuple[int, StatedComponent]]:
    """Yield places and components that might fix a rule; a missing component gets the place after all others."""
    for place, stated in enumerate(software):
        if stated in broken.of and not stated.fixed and place not in changed:
            for value in offered.get(stated.component, {}):
                if value != stated.value:
                    yield place, replace(stated, value=value)
    if broken.missing is not None:
        for value in offered.get(broken.missing, {}):
            yield len(software), StatedComponent(broken.missing, value, ())


def _distance(
    before: Sequence[StatedComponent], after: Sequence[StatedComponent], offered: Mapping[Component, Mapping[str, str]]
) -> tuple[int, int]:
    """Return the number of steps between two sets, and of components with an older version."""
    pairs = list(changes(before, after))
    back = sum(numbers(new.value) < numbers(old.value) for old, new in pairs if old)
    return sum(_steps(old, new, list(offered[new.component])) for old, new in pairs), back


def _steps(old: StatedComponent | None, new: StatedComponent, values: Sequence[str]) -> int:
    """Return one, plus the number of offered versions between the two."""
    if old is None or not numbers(old.value):
        return 1
    low, high = sorted((numbers(old.value), numbers(new.value)))
    return 1 + sum(low < numbers(value) < high for value in values)
