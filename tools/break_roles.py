"""Breaks the shipped roles in one place after the other, and lists the breaks that no golden file shows.

    python tools/break_roles.py [ROLE ...]

The golden files of tests/unit/roles must show each change of a role. So the tool changes one word in each line of each
template, negates each condition, adds a line to each other file, changes each value in `role.yaml`, and removes each
entry of a list. It works in a copy of the tree, with one break of a role at a time. A break is caught if the role
cannot be read or rendered, or if a golden file of that role changes.

Exit status 1: some were missed. Add a blueprint that shows them to tests/unit/roles/shown.yaml.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
COPIED = ("hpcforge", "roles", "page", "smoke_tests", "blueprints", "inventory", "tools", "tests/unit/roles")
PACKAGES = ("tests/__init__.py", "tests/unit/__init__.py")
# Keys that no node gets. `scope` is checked when a role is read, `description` is for people, and the others are for
# rehearsals, the secret store and `validate`, which have tests of their own.
NOT_ON_NODES = {
    "description",
    "scope",
    "not_rehearsed",
    "not_in_containers",
    "scheduler",
    "secrets",
    "services",
    "container_runtime",
}
EXPRESSIONS = {"on", "when", "sets_clock"}
OTHERS = {
    "none": "restart", "restart": "drain", "drain": "reboot", "reboot": "drain", "destroys-data": "drain",
    "stop": "keep", "purge": "keep", "keep": "stop", "free": "together", "together": "free",
    "tcp": "udp", "udp": "tcp",
}  # fmt: skip
# Keys that other roles see: such a break is tried alone, so that it is not attributed to another role.
HEARD = {"on", "before_site_roles", "vars", "accepts", "contributes", "artifacts"}
_OF_FEW = {"disrupts", "on_remove", "shape"}  # keys of role.yaml whose values are some of OTHERS
_CONDITION = re.compile(r"\{%-?\s*(?:el)?if\s+(.*?)\s*-?%\}")
_EXPRESSION = re.compile(r"\{\{.*?\}\}")
_TAG = re.compile(r"\{[%#].*?[%#]\}")
KeyPath = tuple[Any, ...]  # keys and places down to a value of role.yaml


@dataclass(frozen=True)
class Break:
    """One change of one file: `where` names it for people, `text` is the file with it."""

    file: Path  # from the root of the tree
    where: str
    text: str
    alone: bool = False

    @property
    def role(self) -> str:
        """The folder below roles/."""
        return self.file.parts[1]


def breaks_of(root: Path, role: str) -> Iterator[Break]:
    """Yield all breaks of one role."""
    for path in sorted((root / "roles" / role).rglob("*")):
        file = path.relative_to(root)
        if path.name == "role.yaml":
            yield from _of_yaml(file, path.read_text(encoding="utf-8"))
        elif path.suffix == ".j2":
            yield from _of_template(file, path.read_text(encoding="utf-8"))
        elif "files" in file.parts and path.is_file():
            yield Break(file, "one line more", path.read_text(encoding="utf-8") + "broken\n")


def _of_template(file: Path, text: str) -> Iterator[Break]:
    lines = text.splitlines(keepends=True)
    inside = False  # a comment, a statement or an expression of several lines

    def changed(number: int, line: str, kind: str) -> Break:
        return Break(file, f"line {number}, {kind}", "".join((*lines[: number - 1], line, *lines[number:])))

    for number, line in enumerate(lines, 1):
        for condition in _CONDITION.finditer(line):
            opposite = condition[0].replace(condition[1], f"not ({condition[1]})", 1)
            yield changed(number, line.replace(condition[0], opposite, 1), "the opposite condition")
        rest = _TAG.sub("", line)
        pairs = _EXPRESSION.sub("x", rest)
        opens = any(start in pairs for start in ("{%", "{#", "{{"))
        if not inside and not opens and rest.strip():
            yield changed(number, f"{line.rstrip()} broken\n", "another word")
        inside = opens or (inside and not any(end in pairs for end in ("%}", "#}", "}}")))


def _of_yaml(file: Path, text: str) -> Iterator[Break]:
    tree = yaml.compose(text, yaml.SafeLoader)
    assert isinstance(tree, yaml.MappingNode)
    for key, value in tree.value:
        if key.value not in NOT_ON_NODES:
            for path, node, new in (*_values((key.value,), value), *_shorter((key.value,), value)):
                start, end = node.start_mark.index, node.end_mark.index
                spaces = text[len(text[:end].rstrip()) : end]  # a block of lines ends where the next key begins
                place = ".".join(map(str, path))
                changed = f"{text[:start]}{new}{spaces}{text[end:]}"
                yield Break(file, f"line {node.start_mark.line + 1}, {place}", changed, key.value in HEARD)


def _shorter(path: KeyPath, node: yaml.Node) -> Iterator[tuple[KeyPath, yaml.Node, str]]:
    """Yield a list without each of its entries."""
    if isinstance(node, yaml.SequenceNode):
        entries = [_plain(one) for one in node.value]
        for place in range(len(entries)):
            remaining = entries[:place] + entries[place + 1 :]
            yield (*path, place, "gone"), node, json.dumps(remaining, ensure_ascii=False)


def _values(path: KeyPath, node: yaml.Node) -> Iterator[tuple[KeyPath, yaml.Node, str]]:
    """Yield each value, with another one."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value not in NOT_ON_NODES and not (path[0] == "vars" and len(path) == 2 and key.value != "default"):
                yield from _values((*path, key.value), value)
    elif isinstance(node, yaml.SequenceNode):
        for place, value in enumerate(node.value):
            if path != ("needs",):  # another name would be no role
                yield from _values((*path, place), value)
    elif isinstance(node, yaml.ScalarNode):
        yield path, node, json.dumps(_another(path, _plain(node)), ensure_ascii=False)


def _another(path: KeyPath, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if value is None:
        return "broken"
    if path[-1] in EXPRESSIONS:
        return f"not ({value})"
    if path[-1] == "for_each":
        return "[]"
    if path[0] == "inputs":
        return "'broken'"
    if path[-1] == "mode":
        return "0604" if value != "0604" else "0600"
    if path[0] in _OF_FEW or path[-1] == "protocol":
        return OTHERS[value]
    return f"{value}x"


def _plain(node: yaml.Node) -> Any:
    return yaml.SafeLoader("").construct_object(node, deep=True)  # type: ignore[no-untyped-call]


class Goldens:
    """The golden files of a tree, and the texts of its roles for the same blueprints."""

    def __init__(self, root: Path) -> None:
        # modules of the copy in which this runs
        from hpcforge.cluster import load  # noqa: PLC0415
        from hpcforge.cluster.load import _declared  # noqa: PLC0415
        from hpcforge.plan.roles.role import load_roles  # noqa: PLC0415
        from tests.unit.roles import goldens  # noqa: PLC0415

        self.root, self._goldens, self._load, self._declared = root, goldens, load, _declared
        self._roles = {role.name: role for role in load_roles(root / "roles")}
        self._shown = goldens.shown()
        paths = {path.stem: path for path in goldens.BLUEPRINTS if path.stem in self._shown}
        self._paths = {name: paths[name] for name in self._shown}
        self._clusters = {name: load(path).cluster for name, path in self._paths.items()}
        self._files = {name: self._read(goldens.GOLDEN / name) for name in self._paths}
        self._handed_on = goldens.HANDED_ON.read_text(encoding="utf-8")

    @staticmethod
    def _read(folder: Path) -> dict[str, str]:
        return {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.txt")}

    def differ(self, broken: dict[str, Any], alone: bool = False) -> set[str]:
        """Return the roles with other golden files: among the broken roles, or among all roles if none is broken.

        `alone`: other roles see the break. So blueprints are read again, and if the role's own files are the same,
        those of all roles are compared. Raises the errors of rendering.
        """
        roles = {**self._roles, **broken}
        differing = self._of(roles, frozenset(broken or roles), alone)
        everything = frozenset(roles).union(*self._files.values())  # with a site's roles
        return differing or self._of(roles, everything, alone) if alone else differing

    def _of(self, roles: dict[str, Any], compared: frozenset[str], reread: bool) -> set[str]:
        differing: set[str] = set()
        if self._goldens.handed_on(roles.values()) != self._handed_on:
            differing = {name for name in compared & roles.keys() if self._hands_on_another(name, roles[name])}
        for name in self._paths:
            remaining = compared - differing
            if remaining & self._files[name].keys():
                differing |= self._of_blueprint(name, roles, remaining, reread)
        return differing

    def _hands_on_another(self, name: str, role: Any) -> bool:
        lines = set(self._handed_on.splitlines())
        return not lines.issuperset(self._goldens.handed_on([role]).splitlines()) or role is self._roles[name]

    def _of_blueprint(self, name: str, roles: dict[str, Any], compared: frozenset[str], reread: bool) -> set[str]:
        if reread:
            self._declared.cache_clear()
        cluster = self._load(self._paths[name]).cluster if reread else self._clusters[name]
        desired = self._goldens.compiled(cluster, tuple(roles.values()))
        shown = self._shown[name]
        texts = self._goldens.golden_texts(
            cluster, roles.values(), desired, compared if shown is None else compared & shown
        )
        golden = {role: text for role, text in self._files[name].items() if role in compared}
        return {role for role in {**golden, **texts} if texts.get(role) != golden.get(role)}


def caught(goldens: Goldens, breaks: Sequence[Break]) -> set[Break]:
    """Return the caught ones of these breaks, which are of one role each."""
    before = [(goldens.root / one.file, (goldens.root / one.file).read_bytes()) for one in breaks]
    for one in breaks:
        (goldens.root / one.file).write_text(one.text, encoding="utf-8")
    try:
        return _caught(goldens, breaks)
    except Exception:  # rendering of one of them failed: trying each alone shows which
        if len(breaks) == 1:
            return set(breaks)
    finally:
        for path, content in before:
            path.write_bytes(content)
    return {one for single in breaks for one in caught(goldens, [single])}


def _caught(goldens: Goldens, breaks: Sequence[Break]) -> set[Break]:
    from hpcforge.plan.roles.role import RoleError, load_role  # noqa: PLC0415

    read: dict[str, Any] = {}
    caught_breaks: set[Break] = set()
    for one in breaks:
        try:
            read[one.role] = load_role(goldens.root / "roles" / one.role)
        except RoleError:
            caught_breaks.add(one)
    alone = any(one.alone for one in breaks)
    differ = goldens.differ(read, alone) if read else set()
    return caught_breaks | {one for one in breaks if one.role in differ or (alone and differ)}


def rounds(root: Path, roles: Sequence[str]) -> Iterator[list[Break]]:
    """Yield all breaks: one of each role at a time, and alone those that other roles may see."""
    by_role = [list(breaks_of(root, role)) for role in roles]
    yield from ([one] for breaks in by_role for one in breaks if one.alone)
    for several in zip_longest(*([one for one in breaks if not one.alone] for breaks in by_role)):
        yield [one for one in several if one is not None]


def in_copy(root: Path, roles: Sequence[str]) -> int:
    """Break these roles of a tree that may be changed; print a line for each break."""
    goldens = Goldens(root)
    if stale := goldens.differ({}):
        print(f"the golden files of {', '.join(sorted(stale))} are not what these roles make", file=sys.stderr)
        return 2
    for several in rounds(root, roles):
        caught_breaks = caught(goldens, several)
        for one in several:
            print("caught" if one in caught_breaks else "MISSED", f"{one.file}: {one.where}")
    return 0


def copy_to(copy: Path) -> None:
    """Copy the needed files of this tree."""
    for name in COPIED:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in PACKAGES:
        shutil.copyfile(ROOT / name, copy / name)


def begun(copy: Path, roles: Sequence[str]) -> subprocess.Popen[str]:
    """Start this program in a copy."""
    argv = [sys.executable, str(copy / "tools" / "break_roles.py"), "--in", str(copy), *roles]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    return subprocess.Popen(argv, cwd=copy, env=environment, stdout=subprocess.PIPE, text=True)


def main(words: Sequence[str]) -> int:
    """Break roles in copies of the tree, one for each core; print the missed breaks and their number."""
    if words[:1] == ["--in"]:
        return in_copy(Path(words[1]), words[2:])
    roles = list(words) or sorted(path.parent.name for path in (ROOT / "roles").glob("*/role.yaml"))
    workers = min(os.cpu_count() or 1, len(roles))
    with tempfile.TemporaryDirectory(prefix="hpcforge-break-") as folder:
        copies = [Path(folder) / str(number) for number in range(workers)]
        for copy in copies:
            copy_to(copy)
        processes = [begun(copy, roles[number::workers]) for number, copy in enumerate(copies)]
        lines = [line for process in processes for line in process.communicate()[0].splitlines()]
    if any(process.returncode for process in processes):
        return 2
    missed = sorted(line for line in lines if line.startswith("MISSED"))
    print(*missed, f"{len(lines)} breaks of {len(roles)} roles, {len(missed)} of them missed", sep="\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
