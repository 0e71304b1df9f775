"""Check a role's folder without a node: its keys, its rendering for a cluster, and its conventions."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from hpcforge.blueprint.diagnostics import Diagnostic, Severity, SourceFile
from hpcforge.blueprint.reader import Loc, mark_of
from hpcforge.blueprint.role_declarations import A_ROLE_NAME, ROLE_NAME, ROLES
from hpcforge.blueprint.untrusted_files import MAX_YAML, OutsideError, files_inside, is_inside, read_inside
from hpcforge.cluster.model import Cluster, Service
from hpcforge.cluster.variables import runs
from hpcforge.kinds.files import File
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.desired import DesiredRole
from hpcforge.plan.roles.role import Role, RoleError, load_role, site_role_code

_MODE = re.compile("0?[0-7]{3}|[0-7]{4}")
_UNIT = re.compile(r"\S+\.(?:service|timer|socket|path|target|mount|automount|slice)")
_SHALLOW = 2  # parts of a shared path: /etc, /var; a deeper path may be a role's own


@dataclass(frozen=True)
class CheckedRole:
    """A role's folder with its diagnostics, and the `nodes` of the cluster where it would run."""

    folder: Path
    diagnostics: tuple[Diagnostic, ...]
    nodes: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Whether the role is usable."""
        return all(diagnostic.severity != "error" for diagnostic in self.diagnostics)


def role_folders(folder: Path) -> list[Path]:
    """Return the folder itself if it is a role, else the roles in it."""
    folder = folder.resolve() if folder.is_symlink() else folder  # the operator named it: follow the link
    return (
        [folder] if _is_role(folder) else sorted(path for path in folder.iterdir() if path.is_dir() and _is_role(path))
    )


def judge(folders: Sequence[Path], others: Sequence[Role], cluster: Cluster) -> list[CheckedRole]:
    """Judge roles for a cluster, together with valid others. Each may need another, or one of these."""
    read: dict[Path, Role | CheckedRole] = {folder: _read(folder) for folder in folders}
    by_name = {role.name: role for role in others}
    by_name |= {role.name: role for role in read.values() if isinstance(role, Role)}
    offers = {name: Service() for role in by_name.values() for name in role.spec.services}
    usual = {role.name: usual_variables(role) | dict(cluster.variables.get(role.name, {})) for role in by_name.values()}
    cluster = replace(cluster, services={**offers, **cluster.services}, variables=usual, site_roles=())
    return [role if isinstance(role, CheckedRole) else _judge(role, by_name, cluster) for role in read.values()]


def usual_variables(role: Role) -> dict[str, Any]:
    """Return its variables with a default, in the form for templates."""
    return {name: variable.given(variable.usual) for name, variable in role.spec.vars.items() if not variable.required}


def _is_role(folder: Path) -> bool:
    return os.path.lexists(folder / ROLES.file) or os.path.lexists(folder / "tasks" / "main.yml")


def _read(folder: Path) -> Role | CheckedRole:
    """Read a role. Judge an invalid one, or a site's own Ansible role: it has no templates."""
    try:
        if _is_for_site_roles(folder):
            code = site_role_code(folder)
            missing = Diagnostic("warning", _NOT_DECLARED, SourceFile(str(folder)), hint=_DECLARE_REMOVAL)
            return CheckedRole(folder, () if code.removes or code.leaves else (missing,))
        return load_role(folder)
    except RoleError as error:
        return CheckedRole(folder, error.diagnostics)
    except (OSError, OutsideError) as error:
        return CheckedRole(folder, RoleError.of_file(folder, f"cannot be read: {error}").diagnostics)


_NOT_DECLARED = "its code creates things that are not removed with the role"
_DECLARE_REMOVAL = (
    "list in role.yaml what is removed, `delete_on_removal: [PATH]`, and what stays, "
    "`keep_on_removal: [{path: PATH, why: ...}]`"
)


def _is_for_site_roles(folder: Path) -> bool:
    """Return True for an Ansible role of the blueprint's `software.site_roles`: it does not state where it runs."""
    if not is_inside(folder, "tasks/main.yml"):
        return False
    text = read_inside(folder, ROLES.file, MAX_YAML).decode(errors="replace") if is_inside(folder, ROLES.file) else ""
    return not re.search("^on[ \t]*:", text, re.MULTILINE)


def _judge(role: Role, by_name: Mapping[str, Role], cluster: Cluster) -> CheckedRole:
    diagnostics = [*role.document.diagnostics, *_manners(role)]
    among = _with_needed(role, by_name)
    if missing := [
        f"{needed.name}.{name}"
        for needed in among
        if needed is role or runs(needed.name, needed.spec.on, cluster)
        for name in needed.spec.vars
        if name not in cluster.variables[needed.name]
    ]:
        message = f"{', '.join(missing)} has no default: nothing was rendered"
        hint = "use a blueprint that sets it: --blueprint FILE"
        return CheckedRole(role.folder, (*diagnostics, _diagnose(role, message, ("vars",), hint, "not-checked")))
    try:
        desired = compile_desired(cluster, among, {})
    except RoleError as error:
        return CheckedRole(role.folder, (*diagnostics, *error.diagnostics))
    by_node = {
        node: desired_role
        for node, roles in desired.nodes.items()
        for desired_role in roles
        if desired_role.role == role.name
    }
    for desired_role in by_node.values():
        diagnostics += _rendered(role, desired_role)
    if not by_node:
        hint = "use a blueprint where it runs: --blueprint FILE"
        message = f"runs on no node of {cluster.name}: its expressions and templates were parsed but not rendered"
        diagnostics.append(_diagnose(role, message, ("on",), hint, "not-checked"))
    return CheckedRole(role.folder, tuple(dict.fromkeys(diagnostics)), tuple(by_node))


def _with_needed(role: Role, by_name: Mapping[str, Role]) -> list[Role]:
    """Return a role and the roles that it needs, so that errors of other roles are not reported."""
    roles: dict[str, Role] = {}
    remaining = [role]
    while remaining:
        needed_role = remaining.pop()
        roles[needed_role.name] = needed_role
        restarted = {restart.name for restart in needed_role.spec.restarts}
        needed = {need.partition("@")[0] for need in needed_role.spec.needs}
        needed |= {
            candidate.name for candidate in by_name.values() if restarted & {unit.name for unit in candidate.spec.units}
        }
        kinds = set(needed_role.spec.contributes)
        needed |= {candidate.name for candidate in by_name.values() if kinds & set(candidate.spec.accepts)}
        depots = (
            candidate
            for candidate in by_name.values()
            if any(o.serves_artifacts for o in candidate.spec.services.values())
        )
        needed |= {depot.name for depot in depots if needed_role.spec.artifacts}
        remaining += [by_name[name] for name in sorted(needed) if name in by_name and name not in roles]
    return list(roles.values())


def _diagnose(role: Role, message: str, loc: Loc, hint: str | None = None, severity: Severity = "error") -> Diagnostic:
    mark = mark_of(role.document.root, loc) if loc else None
    return Diagnostic(severity, message, role.document.source, mark, hint)


def _manners(role: Role) -> Iterator[Diagnostic]:
    """Yield impossible or later surprising settings, for any cluster."""
    spec = role.spec
    if not ROLE_NAME.fullmatch(role.name):
        yield _diagnose(role, f"{role.name!r} is not a valid role name", (), A_ROLE_NAME)
    if role.code is None:
        for key in ("inputs", "rerun_on", "collections", "delete_on_removal"):
            if getattr(spec, key):
                hint = "write deploy.py or tasks/main.yml, or remove this"
                yield _diagnose(role, f"{key} without code that uses it", (key,), hint)
    else:
        if spec.collections and role.code.engine != "ansible":
            hint = "remove this: deploy.py imports pyinfra's operations"
            yield _diagnose(role, "collections without Ansible tasks", ("collections",), hint)
        yield from _code(role)
    for place, file in enumerate(spec.files):
        if not _MODE.fullmatch(file.mode):
            yield _diagnose(role, f"{file.mode!r} is not a file mode", ("files", place), 'octal, for example "0644"')
    for key in ("delete_on_removal", "keep_on_removal"):
        for place, tree in enumerate(getattr(spec, key)):
            if key == "delete_on_removal" and len(Path(tree.path).parts) <= _SHALLOW:
                yield _diagnose(role, f"{tree.path} is not this role's alone", (key, place), "a path deeper down")
    yield from _unused(role)


def _code(role: Role) -> Iterator[Diagnostic]:
    """Check the declarations for opaque code: its syntax, a check of its result, and the paths it creates."""
    assert role.code is not None
    if not role.spec.checks:
        hint = "without a check, hpcforge cannot see that its result is missing"
        yield _diagnose(role, "it has code, but no `checks` that prove its result", (), hint)
    if not role.spec.delete_on_removal and not role.spec.keep_on_removal:
        yield _diagnose(role, _NOT_DECLARED, (), _DECLARE_REMOVAL, "warning")
    name = "deploy.py" if role.code.engine == "pyinfra" else "tasks/main.yml"
    source = SourceFile(str(role.folder / name))
    try:
        content = read_inside(role.folder, name, MAX_YAML)
        source = SourceFile.of(source.name, content.decode(errors="replace"))
        if role.code.engine == "pyinfra":
            ast.parse(content)
        elif not _is_list(content):
            yield Diagnostic("error", "not a list of tasks", source)
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError, yaml.YAMLError) as error:
        yield Diagnostic("error", " ".join(str(error).split()), source)


def _is_list(content: bytes) -> bool:
    """Return whether it is a YAML list. Raises YAMLError. Only parse events: a list may contain another many times."""
    events = list(yaml.parse(content, Loader=yaml.CSafeLoader))
    return len(events) > 2 and isinstance(events[2], yaml.SequenceStartEvent)


def _unused(role: Role) -> Iterator[Diagnostic]:
    if role.code is not None and role.code.engine == "ansible":
        return  # its tasks use the folder files/, too
    try:
        names = files_inside(role.folder)
    except (OSError, OutsideError) as error:
        yield _diagnose(role, f"its folder cannot be read: {error}", (), "copy the target of a link")
        return
    for name in names:
        path = role.folder / name
        if name.startswith("files/") and name not in role.texts:
            hint = f"write `files: [/{name.removeprefix('files/').removesuffix('.j2')}]`, or remove it"
            yield Diagnostic("error", "role.yaml does not use this file", SourceFile(str(path)), hint=hint)


def _rendered(role: Role, desired_role: DesiredRole) -> Iterator[Diagnostic]:
    """Check names and paths after rendering."""
    paths = [
        *(("files", file.path) for file in desired_role.of(File)),
        *(("delete_on_removal", tree.path) for tree in desired_role.trees),
        *(("keep_on_removal", leaves.path) for leaves in desired_role.leaves),
    ]
    for key, path in paths:
        if not path.startswith("/") or ".." in Path(path).parts or "//" in path or path.endswith("/"):
            yield _diagnose(role, f"{path!r} is not an absolute path", (key,), "for example /etc/motd")
    declared: set[str] = set()
    for file in desired_role.of(File):
        if file.path in declared:
            yield _diagnose(role, f"{file.path} is declared twice on one node", ("files",), "use `when` to choose one")
        declared.add(file.path)
    for unit in desired_role.units:
        if not _UNIT.fullmatch(unit.name):
            yield _diagnose(role, f"{unit.name!r} is not a unit name", ("units",), "for example chrony.service")
