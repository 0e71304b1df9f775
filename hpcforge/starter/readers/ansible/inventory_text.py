"""An Ansible inventory's text as groups: INI, YAML, or the JSON of `ansible-inventory --list`. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, islice, product

import yaml

from hpcforge.starter.machines import MOST_MACHINES, LeftOut, StarterError
from hpcforge.starter.readers.words import NO_NAME, SECRET, expanded, is_ipv6, lines

_MOST_GROUPS = 1_000
_MOST_NODES = 500_000  # nodes of the YAML, with those that aliases repeat
_DEEPEST = 20
_LONGEST_LINE = 20_000
_LONGEST_NAME = 500  # length with ranges
_RANGE = re.compile(r"\[([0-9]{1,9}|[a-zA-Z]):([0-9]{1,9}|[a-zA-Z])(?::([0-9]{1,9}))?\]")
_SECTION = re.compile(r"\[([^\]:]+)(?::(vars|children))?\]\s*(?:[#;].*)?")
_HEADINGS = "headings are [NAME], [NAME:children] and [NAME:vars]"
_LISTS = "a hosts file, an Ansible inventory and slurm.conf are read; `hpcforge nodes import` reads lists with commas"
_REFUSED = {  # first characters of files that are not an inventory's text: their kind, and a hint
    "#!": ("a program, which is not run here", "give it the output of `ansible-inventory --list`"),
    "$ANSIBLE_VAULT": ("encrypted", "`ansible-vault view` shows its text"),
    "plugin:": ("the settings of a plugin", "give it the output of `ansible-inventory --list`"),
}


@dataclass(frozen=True)
class HostVariable:
    """A variable: its text, or the texts in a list of mappings (`parts`). `encrypted`: by ansible-vault."""

    line: int
    text: str = ""
    parts: tuple[Mapping[str, str], ...] = ()
    encrypted: bool = False


@dataclass
class HostGroup:
    """A group: hosts in the order of the text, each with its line and variables; groups in it with their lines."""

    line: int
    hosts: dict[str, tuple[int, dict[str, HostVariable]]] = field(default_factory=dict)
    variables: dict[str, HostVariable] = field(default_factory=dict)
    children: dict[str, int] = field(default_factory=dict)


@dataclass
class HostGroups:
    """All groups by name, and what the text has beside them."""

    by_name: dict[str, HostGroup] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    mentions: int = 0

    def group(self, name: str, line: int) -> HostGroup:
        """Return a group, a fresh one at its first mention. Raises `StarterError` for too many."""
        if len(self.by_name) > _MOST_GROUPS:
            raise StarterError(f"more than {_MOST_GROUPS} groups")
        return self.by_name.setdefault(name, HostGroup(line))

    def add(self, group: HostGroup, pattern: str, line: int, variables: Mapping[str, HostVariable]) -> None:
        """Add the hosts of a pattern to a group. Raises `StarterError` for too many."""
        if len(pattern) > _LONGEST_NAME:
            self.left_out.append(LeftOut(line, pattern, NO_NAME))
            return
        for name in _names(pattern):
            self.mentions += 1
            if len(group.hosts) > MOST_MACHINES or self.mentions > 20 * MOST_MACHINES:
                raise StarterError(f"more than {MOST_MACHINES} machines, or {20 * MOST_MACHINES} mentions")
            own = group.hosts.setdefault(name, (line, {}))[1]
            self.left_out += [
                LeftOut(variable.line, f"{name} {key}", f"line {own[key].line} has another value, which is left out")
                for key, variable in variables.items()
                if own.get(key, variable).text != variable.text
            ]
            own.update(variables)


def _names(pattern: str) -> Iterator[str]:
    """Expand a pattern such as w[01:10], w[0:7:2], rack[a:c]-[1:2], or a hostlist."""
    ranges = list(_RANGE.finditer(pattern))
    if not ranges or len(ranges) > 4:
        yield from expanded(pattern)
        return
    ends = [0, *(match.end() for match in ranges)]
    texts = [pattern[end : match.start()] for end, match in zip(ends, ranges, strict=False)] + [pattern[ends[-1] :]]
    steps = [list(islice(_steps(*match.groups()), MOST_MACHINES + 2)) for match in ranges]
    for values in product(*steps):
        yield "".join(f"{text}{value}" for text, value in zip(texts, (*values, ""), strict=True))


def _steps(first: str, last: str, step: str | None) -> Iterator[str]:
    """Yield the values of a range, including both ends, with the zeros of its first."""
    every = max(1, int(step or 1))
    if first.isdigit() and last.isdigit():
        width = len(first) if first.startswith("0") else 0
        yield from (f"{number:0{width}d}" for number in range(int(first), int(last) + 1, every))
    elif first.isalpha() and last.isalpha():
        yield from (chr(number) for number in range(ord(first), ord(last) + 1, every))


def parse(text: str) -> HostGroups:
    """Return the groups of an inventory. Raises `StarterError` for other text, or too large an inventory."""
    first = next((line for _, line in lines(text) if line != "---"), "")
    for beginning, (kind, hint) in _REFUSED.items():
        if first.startswith(beginning) or text.startswith(beginning):
            raise StarterError(f"the file is {kind}", hint)
    if re.search(r"^\s*\[[^\],{}\"']+\]\s*(?:[#;].*)?$", text, re.MULTILINE) and not text.lstrip().startswith("{"):
        return _ini(text)
    root = _composed(text)
    if isinstance(root, yaml.SequenceNode):
        raise StarterError("the file is a list, as playbooks are, and not an inventory")
    return _InventoryTree().groups(root) if isinstance(root, yaml.MappingNode) else _ini(text)


def _ini(text: str) -> HostGroups:
    groups = HostGroups()
    group, kind = groups.group("ungrouped", 1), None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line[0] in "#;":
            entry = line.lstrip("#; ").split()
            if len(entry) > 1 and any(word.startswith(("ansible_host=", "ansible_ssh_host=")) for word in entry):
                groups.left_out.append(LeftOut(number, entry[0], "commented out"))
        elif match := _SECTION.fullmatch(line):
            group, kind = groups.group(match[1].strip(), number), match[2]
        elif line.startswith("[") and _is_broken(line):
            raise StarterError(f"line {number}: {line[:80]!r} is not a heading of a group", _HEADINGS)
        elif kind == "children":
            group.children.setdefault(line.split()[0], number)
        elif kind == "vars":
            name, _, value = line.partition("=") if "=" in line else line.partition(":")
            group.variables[name.split()[0] if name.strip() else "="] = HostVariable(number, _unquoted(value.strip()))
        else:
            _ini_host(groups, group, number, line)
    return groups


def _is_broken(line: str) -> bool:
    """Return whether a line in brackets is a wrong heading: neither a range nor an IPv6 address."""
    inside, end, _ = line[1:].partition("]")
    return not (end and (_RANGE.match(line) or is_ipv6(inside)))


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _ini_host(groups: HostGroups, group: HostGroup, number: int, line: str) -> None:
    if len(line) > _LONGEST_LINE:  # the time is quadratic in the length
        groups.left_out.append(LeftOut(number, line.split(maxsplit=1)[0], f"more than {_LONGEST_LINE} characters"))
        return
    try:
        name, *words = shlex.split(line, comments=True)
    except ValueError as error:
        groups.left_out.append(LeftOut(number, line.split(maxsplit=1)[0], f"its line cannot be read: {error}"))
        return
    values = dict(word.split("=", 1) for word in words if "=" in word)
    stray = [word for word in words if "=" not in word]
    if "," in re.sub(r"\[[^\[\]]{0,99}\]", "", name) or any("," in key for key in values):
        raise StarterError(f"line {number}: a comma, which an Ansible inventory has in no host or variable", _LISTS)
    shown = name if SECRET.search(line) else " ".join([name, *stray])
    if stray and not values:  # text
        groups.left_out.append(LeftOut(number, shown, "no host and its variables"))
        return
    if stray:
        groups.left_out.append(LeftOut(number, shown, "words without =, which are not variables"))
    if match := re.fullmatch(r"([^:]+):(\d+)|\[([0-9a-fA-F:]+)\](?::(\d+))?", name):
        name = match[1] or match[3]
        values |= {"ansible_port": match[2] or match[4]} if match[2] or match[4] else {}
    groups.add(group, name, number, {key: HostVariable(number, value) for key, value in values.items()})


def _composed(text: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.CBaseLoader)  # yields nodes only, whatever the tags are
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or "values are nested too deep"
        raise StarterError(f"{place}it is not YAML: {problem}", "correct the line, or name an inventory") from error


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


class _InventoryTree:
    """The groups of a YAML or JSON tree. An alias stands for its node again: variables may have them, hosts not."""

    def __init__(self) -> None:
        self.result = HostGroups()
        self.budget = count()
        self.walked: set[int] = set()

    def groups(self, root: yaml.MappingNode) -> HostGroups:
        """Return the groups below the root. JSON has the variables of hosts in one place."""
        hostvars: yaml.Node | None = None
        for name, node in self._items(root):
            if name == "_meta":
                hostvars = next((value for key, value in self._items(node) if key == "hostvars"), None)
            elif name != "plugin":
                self._group(name, node, 0)
        for name, node in self._items(hostvars):
            variables = self._variables(node)
            for group in self.result.by_name.values():
                if name in group.hosts:
                    group.hosts[name][1].update(variables)
        return self.result

    def _once(self, node: yaml.Node) -> None:
        """Refuse a node of groups or hosts that an alias repeats: it may stand for endless many."""
        if not isinstance(node, yaml.ScalarNode):
            if id(node) in self.walked:
                raise StarterError(
                    f"line {_line(node)}: its YAML has aliases (*name) for groups or hosts, which are not read here",
                    "write out their values",
                )
            self.walked.add(id(node))

    def _items(self, node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            if next(self.budget) > _MOST_NODES:
                raise StarterError(f"its YAML stands for more than {_MOST_NODES} values", "write fewer aliases (*name)")
            yield (key.value if isinstance(key, yaml.ScalarNode) else ""), value

    def _group(self, name: str, node: yaml.Node, depth: int) -> None:
        group = self.result.group(name, _line(node))
        if depth > _DEEPEST:
            raise StarterError(f"line {_line(node)}: groups are nested more than {_DEEPEST} deep")
        self._once(node)
        if isinstance(node, yaml.SequenceNode):  # form of old programs: a group is a list of hosts
            self._hosts(group, node)
        for key, value in self._items(node):
            if key == "hosts":
                self._once(value)
                self._hosts(group, value)
            elif key == "children":
                self._once(value)
                self._children(group, value, depth)
            elif key == "vars":
                group.variables.update(self._variables(value))
            else:
                self.result.left_out.append(LeftOut(_line(value), key, f"not a part of the group {name}"))

    def _hosts(self, group: HostGroup, node: yaml.Node) -> None:
        if isinstance(node, yaml.SequenceNode):
            for item in node.value:
                if isinstance(item, yaml.ScalarNode):
                    self.result.add(group, item.value, _line(item), {})
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode):
                    self.result.add(group, key.value, _line(key), self._variables(value))
        elif node.value:
            self.result.add(group, str(node.value), _line(node), {})

    def _children(self, group: HostGroup, node: yaml.Node, depth: int) -> None:
        for item in node.value if isinstance(node, yaml.SequenceNode) else ():
            if isinstance(item, yaml.ScalarNode):
                group.children.setdefault(item.value, _line(item))
        for name, child in self._items(node):
            group.children.setdefault(name, _line(child))
            self._group(name, child, depth + 1)

    def _variables(self, node: yaml.Node, depth: int = 0) -> dict[str, HostVariable]:
        merged: dict[str, HostVariable] = {}
        own: dict[str, HostVariable] = {}
        for key, value in self._items(node):
            if key == "<<" and depth < _DEEPEST:
                for part in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    merged = {**self._variables(part, depth + 1), **merged}
            else:
                own[key] = self._variable(value)
        return {**merged, **own}

    def _variable(self, node: yaml.Node) -> HostVariable:
        if isinstance(node, yaml.ScalarNode):
            vault = node.tag == "!vault" or node.value.lstrip().startswith("$ANSIBLE_VAULT")
            return HostVariable(_line(node), "" if vault else node.value, encrypted=vault)
        mappings = node.value if isinstance(node, yaml.SequenceNode) else [node]
        parts = [
            {name: value.value for name, value in self._items(part) if isinstance(value, yaml.ScalarNode)}
            for part in mappings[:64]
        ]
        return HostVariable(_line(node), parts=tuple(parts))
