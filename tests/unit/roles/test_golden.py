"""Everything the roles make of the shipped blueprints, compared whole.

golden/BLUEPRINT/ROLE/resources.txt   packages, directories, accounts, units, checks and inputs, by node set
golden/BLUEPRINT/ROLE/PATH.N.txt      a file's content, headed by its node set; slashes are __
golden/BLUEPRINT/ROLE/PATH.each.txt   all contents of a file that has its own on (nearly) every node

Refresh with `pytest tests/unit/roles --refresh-golden`, then read the difference.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpcforge import shipped
from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.model import Cluster
from hpcforge.kinds import KINDS
from hpcforge.kinds.files import File
from hpcforge.node.verbs import checked
from hpcforge.plan.desired import Desired, Need, Wanted
from hpcforge.plan.render import Template
from hpcforge.plan.role import Role
from hpcforge.run.contents import Contents
from hpcforge.run.requests import wanted

GOLDEN = Path(__file__).parent / "golden"
_EACH = 4  # more contents than this go into one file


def test_rendered_as_before(
    blueprint: Path,
    cluster: Cluster,
    roles: tuple[Role, ...],
    compiled: Callable[[Cluster], Desired],
    golden: Callable[[Path, str], None],
    request: pytest.FixtureRequest,
) -> None:
    desired = compiled(cluster)
    folder = GOLDEN / blueprint.stem
    verbatim = dict(_verbatim(roles))
    verbatim |= {
        hashlib.sha256(one.text.encode()).hexdigest(): f"smoke_tests/{one.name}.py" for one in cluster.programs
    }
    shown = {
        digest: f"<{verbatim[digest]}>\n" if digest in verbatim else text for digest, text in desired.texts.items()
    }
    expected = dict(_texts(dataclasses.replace(desired, texts=shown)))
    stale = {path for path in folder.rglob("*.txt") if str(path.relative_to(folder)) not in expected}
    if request.config.getoption("--refresh-golden"):
        for path in stale:
            path.unlink()
        stale = set()
    for name, text in expected.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        golden(folder / name, text)
    assert not stale, "no role renders these any more"


def test_a_node_takes_what_it_is_asked(cluster: Cluster, compiled: Callable[[Cluster], Desired]) -> None:
    desired = compiled(cluster)
    contents = Contents(desired.texts, {})
    for roles in desired.nodes.values():
        request = {"verb": "observe", "wanted": [wanted(one, contents) for one in roles]}
        assert checked(json.loads(json.dumps(request)))["verb"] == "observe"


def _verbatim(roles: tuple[Role, ...]) -> Iterator[tuple[str, str]]:
    """Files that are handed on as they are, by digest: their text is in the repository already."""
    for role in roles:
        for name, text in role.texts.items():
            if not isinstance(text, Template):
                file = os.path.normpath(f"roles/{role.name}/{name}")
                yield hashlib.sha256(text.encode()).hexdigest(), file if (shipped.root() / file).exists() else name


def _texts(desired: Desired) -> Iterator[tuple[str, str]]:
    roles = dict.fromkeys(wanted.role for wanteds in desired.nodes.values() for wanted in wanteds)
    for role in roles:
        on = {node: wanted for node, wanteds in desired.nodes.items() for wanted in wanteds if wanted.role == role}
        yield f"{role}/resources.txt", _by_nodes({node: _resources(node, wanted) for node, wanted in on.items()})
        paths = dict.fromkeys(file.path for wanted in on.values() for file in wanted.of(File))
        for path in paths:
            files = {node: file for node, wanted in on.items() for file in wanted.of(File) if file.path == path}
            yield from _file_texts(f"{role}/{path.lstrip('/').replace('/', '__')}", files, desired)


def _file_texts(stem: str, files: dict[str, File], desired: Desired) -> Iterator[tuple[str, str]]:
    texts = {node: _file_text(file, desired) for node, file in files.items()}
    kinds = list(dict.fromkeys(texts.values()))
    if len(kinds) > _EACH:
        yield f"{stem}.each.txt", _by_nodes(texts)
        return
    for number, text in enumerate(kinds, start=1):
        yield f"{stem}.{number}.txt", _by_nodes({node: text for node, own in texts.items() if own == text})


def _file_text(file: File, desired: Desired) -> str:
    early = " early" if file.early else ""
    content = f"<secret {file.secret}>\n" if file.secret else file.shown(desired.texts[str(file.text)])
    return f"{file.path} {file.mode} {file.owner}:{file.group}{early}\n{'-' * 40}\n{content}"


def _by_nodes(texts: dict[str, str]) -> str:
    kinds = dict.fromkeys(texts.values())
    parts = [f"nodes: {fold(node for node in texts if texts[node] == kind)}\n{kind}" for kind in kinds]
    return f"\n{'=' * 40}\n".join(parts)


def _resources(node: str, wanted: Wanted) -> str:
    parts = wanted.plain()
    parts["needs"] = [_need(node, need) for need in wanted.needs]
    opaque = parts.pop("opaque")
    if opaque is not None:  # neither where the checkout lies nor a digest of all code
        parts["opaque"] = [{"engine": opaque["engine"], "inputs": opaque["inputs"]}]
    parts = {name: parts[name] for name in dict.fromkeys((*_FIRST, *parts)) if name in parts}
    del parts["role"]
    parts.pop("files", None)
    for unit in parts["units"]:
        unit["rereads"] = [one["path"] if one["lines"] is None else one for one in unit["rereads"]]
        for name in ("refresh", "rereads"):
            if not unit[name]:
                del unit[name]
    for check in parts["checks"]:
        if not check["first"]:
            del check["first"]
    items = [(name, item) for name, part in parts.items() if isinstance(part, list | tuple) for item in part]
    manner = {name: parts[name] for name in ("on_remove", "guard", "shape", "disrupts") if parts[name] != _USUAL[name]}
    items += list(manner.items())
    return "".join(f"{name}: {json.dumps(item, ensure_ascii=False)}\n" for name, item in items)


_FIRST = ("needs", "packages", "replaces", "directories", *KINDS)
_USUAL = dataclasses.asdict(Wanted(""))


def _need(node: str, need: Need) -> str:
    return need.role if need.nodes in ((), (node,)) else f"{need.role}@{fold(need.nodes)}"
