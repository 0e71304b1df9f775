"""What the roles make of a blueprint, as texts to compare: golden/BLUEPRINT/ROLE.txt has a section for each of these.

    resources   packages, directories, accounts, units, checks and inputs, by node set; also each file that is
                handed on as it is, or that is a secret
    PATH        a rendered file's content, by node set

Which roles of which blueprint have golden files is in shown.yaml. golden/handed_on.txt has the digest of each file
that roles hand on as it is.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from hpcforge import bundled
from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.model import Cluster
from hpcforge.kinds import KINDS
from hpcforge.kinds.files import File
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.desired import Desired, DesiredRole, RoleNeed
from hpcforge.plan.roles.render import Template
from hpcforge.plan.roles.role import Role, site_role_code

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
HANDED_ON = GOLDEN / "handed_on.txt"
BLUEPRINTS = tuple(
    path for folder in (bundled.root() / "blueprints", HERE / "blueprints") for path in sorted(folder.glob("*.yaml"))
)
_FIRST = ("needs", "packages", "replaces", "directories", *KINDS)
_USUAL = dataclasses.asdict(DesiredRole(""))
_FLAGS = ("on_remove", "guard", "shape", "sets_clock", "jobs_feel", "disrupts")


def shown() -> dict[str, frozenset[str] | None]:
    """By blueprint, the roles that have golden files; None stands for all of them."""
    told = yaml.safe_load((HERE / "shown.yaml").read_text(encoding="utf-8"))
    some = {blueprint: frozenset(roles) for blueprint, roles in told["roles"].items()}
    return {**dict.fromkeys(told["whole"]), **some}


def compiled(cluster: Cluster, roles: tuple[Role, ...]) -> Desired:
    """What every node should have; the munge key is not there yet."""
    code = {role.name: site_role_code(role.path) for role in cluster.site_roles}
    return compile_desired(cluster, roles, {"munge_key": None}, code)


def golden_texts(
    cluster: Cluster, roles: Iterable[Role], desired: Desired, only: frozenset[str] | None
) -> dict[str, str]:
    """The text of each golden file of a blueprint, by role."""
    whole = {digest: f"<{file}>" for digest, file in _handed_on(roles)}
    whole |= {hashlib.sha256(one.text.encode()).hexdigest(): f"<smoke_tests/{one.name}.py>" for one in cluster.programs}
    sections: dict[str, list[str]] = {}
    for role, name, text in texts(desired, whole, only):
        sections.setdefault(role, []).append(f"{'#' * 20} {name}\n{text}")
    return {role: "\n".join(parts) for role, parts in sections.items()}


def handed_on(roles: Iterable[Role]) -> str:
    """A line for each file that a role hands on as it is: the first 16 digits of its SHA-256, and which it is."""
    lines = {f"{digest[:16]}  {file}\n" for digest, file in _handed_on(roles)}
    return "".join(sorted(lines, key=lambda line: line.split()[1]))


def _handed_on(roles: Iterable[Role]) -> Iterator[tuple[str, str]]:
    for role in roles:
        for name, text in role.texts.items():
            if not isinstance(text, Template):
                file = os.path.normpath(f"roles/{role.name}/{name}")
                yield hashlib.sha256(text.encode()).hexdigest(), file if (bundled.root() / file).exists() else name


def texts(
    desired: Desired, whole: Mapping[str, str] | None = None, only: frozenset[str] | None = None
) -> Iterator[tuple[str, str, str]]:
    """Role, name and text of each section, of all roles or of some.

    `whole` has, by digest, what stands for the text of a file.
    """
    whole = whole or {}
    roles = dict.fromkeys(wanted.role for wanteds in desired.nodes.values() for wanted in wanteds)
    for role in roles:
        if only is not None and role not in only:
            continue
        on = {node: wanted for node, wanteds in desired.nodes.items() for wanted in wanteds if wanted.role == role}
        yield role, "resources", _by_nodes({node: _resources(node, one, whole) for node, one in on.items()})
        rendered = {node: [file for file in one.of(File) if _listed(file, whole) is None] for node, one in on.items()}
        for path in dict.fromkeys(file.path for files in rendered.values() for file in files):
            found = {node: file for node, files in rendered.items() for file in files if file.path == path}
            yield role, path, _by_nodes({node: _file_text(file, desired) for node, file in found.items()})


def _listed(file: File, whole: Mapping[str, str]) -> str | None:
    """What stands for the text of a file that needs no golden file of its own."""
    return f"<secret {file.secret}>" if file.secret else whole.get(str(file.text))


def _file_text(file: File, desired: Desired) -> str:
    early = " early" if file.early else ""
    verify = f"\nverify: {json.dumps(file.verify)}" if file.verify else ""
    content = file.shown(desired.texts[str(file.text)])
    return f"{file.path} {file.mode} {file.owner}:{file.group}{early}{verify}\n{'-' * 40}\n{content}"


def _by_nodes(by_node: dict[str, str]) -> str:
    kinds = dict.fromkeys(by_node.values())
    parts = [f"nodes: {fold(node for node in by_node if by_node[node] == kind)}\n{kind}" for kind in kinds]
    return f"\n{'=' * 40}\n".join(parts)


def _resources(node: str, wanted: DesiredRole, whole: Mapping[str, str]) -> str:
    parts = wanted.plain()
    parts["needs"] = [_need(node, need) for need in wanted.needs]
    opaque = parts.pop("opaque")
    if opaque is not None:  # neither where the checkout lies nor a digest of all code
        parts["opaque"] = [{"engine": opaque["engine"], "inputs": opaque["inputs"]}]
    parts["files"] = [_file_line(file, said) for file in wanted.of(File) if (said := _listed(file, whole)) is not None]
    parts = {name: parts[name] for name in dict.fromkeys((*_FIRST, *parts)) if name in parts}
    del parts["role"]
    for unit in parts["units"]:
        unit["rereads"] = [one["path"] if one["lines"] is None else one for one in unit["rereads"]]
        for name in ("refresh", "rereads"):
            if not unit[name]:
                del unit[name]
    for check in parts["checks"]:
        if not check["first"]:
            del check["first"]
    items = [(name, item) for name, part in parts.items() if isinstance(part, list | tuple) for item in part]
    items += [(name, parts[name]) for name in _FLAGS if parts[name] != _USUAL[name]]
    return "".join(f"{name}: {json.dumps(item, ensure_ascii=False)}\n" for name, item in items)


def _file_line(file: File, text: str) -> dict[str, Any]:
    more = {"early": file.early, "verify": file.verify}
    rights = {"path": file.path, "mode": file.mode, "owner": f"{file.owner}:{file.group}"}
    return {**rights, **{name: value for name, value in more.items() if value}, "text": text}


def _need(node: str, need: RoleNeed) -> str:
    return need.role if need.nodes in ((), (node,)) else f"{need.role}@{fold(need.nodes)}"
