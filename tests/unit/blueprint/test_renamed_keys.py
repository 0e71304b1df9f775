"""Keys with a new name: an old one is an unknown key at its place, and the hint is the new one.

Both names stand in the texts here by hand, as `<old|new>`: the table has to agree with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.blueprint.role_declarations import DeclarationError
from hpcforge.cluster import load
from hpcforge.cluster.load import _declared, _model
from hpcforge.plan.roles.role import RoleError, load_role
from hpcforge.run.site import compile_site, load_site_roles
from tests.support.shipped import ROOT

TABLE: dict[str, dict[str, str]] = yaml.safe_load((ROOT / "hpcforge/blueprint/renamed_keys.yaml").read_text())
ROLE = """\
description: A role with every key that has a new name.
on: "'worker' in node.functions"
<on_remove|on_removal>: purge
<jobs_feel|affects_jobs>: false
<shape|strategy>: together
<removes|delete_on_removal>: [/opt/tried/tree]
<leaves|keep_on_removal>: [{path: /var/tried, why: its state}]
disrupts: {packages: drain, <opaque|code>: drain}
files:
  - {path: /etc/tried.conf, content: "a", <early|before_packages>: true}
  - {path: /etc/tried.more, content: "b"}
units:
  - name: tried.service
    <watches|restart_on>: [/etc/tried.conf, /etc/tried.more]
    <refresh|reload_commands>: [[systemctl, reload, tried.service]]
    <rereads|reload_on>: [/etc/tried.conf]
restarts:
  - {name: munge.service, <watches|restart_on>: [/etc/tried.more]}
artifacts:
  - name: tools/tool
    source: "https://example.org/tool"
    sha256: "0000000000000000000000000000000000000000000000000000000000000000"
    <to|path>: /opt/tool
checks:
  - {name: it is there, command: [/bin/true], <first|precondition>: true}
services:
  tried: {description: A service., <several|multiple_nodes>: true}
secrets:
  tried_key: {description: A key., provided: true, <rotated|on_rotation>: it restarts, <least|min_bytes>: 40}
"""
GUARDED = """\
description: A role that could lock hpcforge out.
on: "'worker' in node.functions"
<guard|auto_rollback>: true
files: [{path: /etc/tried.conf, content: "a"}]
"""
ANSIBLE = """\
description: A role of the site's own.
<removes|delete_on_removal>: [/opt/theirs]
<leaves|keep_on_removal>: [{path: /var/theirs, why: its state}]
"""
TEST = """\
description: Writes a file.
launcher: plain
measures:
  sync_ms: {unit: ms, better: lower}
  size_bytes: {unit: B, <shown|format>: size}
headline: "{sync_ms} ms"
<expectation|thresholds>:
  sync_ms: {at_most: 50}
"""
BLUEPRINT = """\
schema: 1
name: tried
domain: tried.example.org
inventory: inventory.yaml
access: {user: ops}
nodes:
  head:     {functions: [head], hardware: rehearsal-node, addresses: 10.1.0.1}
  w[01-02]: {functions: [worker], hardware: tried-server, addresses: "10.1.0.[11-12]"}
networks: {mgmt: {cidr: 10.1.0.0/24}}
services: {dns: {on: head}, time: {on: head}, depot: {on: head}, tried: {on: "w[01-02]"}}
software:
  os: {name: debian, release: "12"}
  site_roles: [{path: ansible/theirs, on: w01}]
  <present|preinstalled>: {kernel: 6.1.0}
role_folders: [roles]
roles:
  shared_homes: {<look_s|interval_s>: 90}
  sssd: {<keep_s|cache_s>: 90}
slurm: {controller: head, partitions: {main: {nodes: all, default: true}}}
users:
  ada: {uid: 2001}
storage:
  disks: {kind: xfs, drives: 1 x 3.84TB, mount: /disks, <keep|keep_after_jobs>: true}
rollout: {canary: 1, <at_most|max_parallel>: 3}
fabrics: {data: {kind: ethernet, rate_gbps: 25, topology: single-switch, switch: tried-switch, nodes: all}}
hardware:
  tried-server:
    {sockets: 1, cores_per_socket: 32, threads_per_core: 1, memory_gib: 256, gpus_max: 0, nvme: 1 x 3.84TB,
     ports: [{count: 2, rate_gbps: 25, kind: ethernet}]}
parts:
  cables:
    tried-cable:
      {kind: dac, rate_gbps: 25, reach_m: 5, lengths_m: [5], <speaks|protocols>: [ethernet],
       sources: {<speaks|protocols>: its maker}}
  switches:
    tried-switch:
      <speaks|protocols>: [ethernet]
      ports: [{count: 48, rate_gbps: 25}]
      sources: {<speaks|protocols>: its maker}
  gpus:
    tried-gpu:
      vendor: nvidia
      mig: {1g.10gb: {size: 1, <starts|placements>: [0, 1, 2], <most|max_instances>: 2}}
acceptance:
  run_as: ada
  folders: [tests]
  tests: {disk: {nodes: all}}
"""
INVENTORY = """\
schema: 1
switches:
  data-leaf-001: {<says|system_name>: sw-r1-u40}
"""
PATHS: dict[str, tuple[str, str]] = {
    "site.yaml": ("blueprint", BLUEPRINT),
    "inventory.yaml": ("inventory", INVENTORY),
    "roles/tried/role.yaml": ("role.yaml", ROLE),
    "roles/guarded/role.yaml": ("role.yaml", GUARDED),
    "ansible/theirs/role.yaml": ("role.yaml", ANSIBLE),
    "tests/disk/test.yaml": ("test.yaml", TEST),
}
_MARKED = re.compile(r"<(\w+)\|(\w+)>")


class Case(NamedTuple):
    """One marked key of a file: its number there, and both names."""

    path: str
    number: int
    old: str
    new: str


def cases() -> Iterator[Case]:
    for path, (_, text) in PATHS.items():
        yield from (Case(path, number, *found) for number, found in enumerate(_MARKED.findall(text)))


CASES = [*cases()]


def written(text: str, old: int | None = None) -> str:
    """The text with new names, but for the marked key of this number, which has its old one."""
    numbers = count()
    return _MARKED.sub(lambda found: found[1] if next(numbers) == old else found[2], text)


def lay(folder: Path) -> Path:
    """Write all files, with new names."""
    for path, (_, text) in PATHS.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(written(text))
    (folder / "ansible/theirs/tasks").mkdir()
    (folder / "ansible/theirs/tasks/main.yml").write_text("[]\n")
    (folder / "tests/disk/disk.py").write_text("pass\n")
    return folder


def in_sources(case: Case) -> bool:
    """Whether the key is below `sources`, which has any names."""
    text = PATHS[case.path][1]
    return text[: nth(text, case.number)].endswith("sources: {")


def nth(text: str, number: int) -> int:
    """Where the marked key of this number stands."""
    return [found.start() for found in _MARKED.finditer(text)][number]


def read_all(folder: Path) -> None:
    """Read the blueprint and all beside it."""
    _declared.cache_clear()
    _model.cache_clear()
    loaded = load(folder / "site.yaml")
    compile_site(load_site_roles(loaded), {}, loaded.cluster)
    load_role(folder / "roles/guarded")


def refusal(folder: Path) -> str:
    with pytest.raises((InvalidInput, RoleError, DeclarationError)) as refused:
        read_all(folder)
    return str(refused.value) if isinstance(refused.value, DeclarationError) else refused.value.shown()


def test_the_texts_here_have_every_key_of_the_table() -> None:
    found: dict[str, set[tuple[str, str]]] = {file: set() for file in TABLE}
    for case in CASES:
        found[PATHS[case.path][0]].add((case.old, case.new))
    assert found == {file: {(at.rpartition(".")[2], new) for at, new in rows.items()} for file, rows in TABLE.items()}


@pytest.fixture(scope="module")
def written_new(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = lay(tmp_path_factory.mktemp("keys"))
    read_all(folder)
    return folder


ELSEWHERE = {"opaque": "'opaque' is none of packages,", "several": "did you mean `multiple_nodes`?"}  # checked before


@pytest.mark.parametrize(
    "case", [case for case in CASES if not in_sources(case)], ids=lambda case: f"{case.path}:{case.old}:{case.number}"
)
def test_an_old_name_is_unknown_and_the_hint_has_the_new_one(case: Case, written_new: Path) -> None:
    path, text = written_new / case.path, PATHS[case.path][1]
    path.write_text(written(text, old=case.number))
    try:
        shown = refusal(written_new)
    finally:
        path.write_text(written(text))
    if case.old in ELSEWHERE:
        assert ELSEWHERE[case.old] in shown
        return
    before = written(text[: nth(text, case.number)])
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    assert f"{path}:{line}:{column}: error: unknown key `{case.old}`" in shown
    assert f"hint: did you mean `{case.new}`?" in shown


@pytest.mark.parametrize(
    ("path", "new", "wrong"),
    [
        ("roles/tried/role.yaml", "keep_on_removal", "leavs"),
        ("roles/tried/role.yaml", "keep_on_removal", "keep_on_remove"),
        ("roles/tried/role.yaml", "affects_jobs", "job_feel"),
        ("roles/tried/role.yaml", "reload_commands", "refreshs"),
        ("tests/disk/test.yaml", "thresholds", "expectations"),
        ("site.yaml", "max_parallel", "at_mots"),
        ("inventory.yaml", "system_name", "sais"),
    ],
)
def test_an_unknown_key_is_told_the_new_name(path: str, new: str, wrong: str, tmp_path: Path) -> None:
    file = lay(tmp_path) / path
    file.write_text(file.read_text().replace(new, wrong))
    shown = refusal(tmp_path)
    assert f"unknown key `{wrong}`" in shown
    assert f"hint: did you mean `{new}`?" in shown
