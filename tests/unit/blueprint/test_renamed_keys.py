"""Keys with a new name: a file with an old one means the same, with a warning at its place.

Both names stand in the texts here by hand, as `<old|new>`: the table has to agree with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from hpcforge import bundled
from hpcforge.blueprint.diagnostics import Diagnostic, InvalidInput, render
from hpcforge.blueprint.reader import plain, read_bytes, read_file
from hpcforge.blueprint.renamed_keys import (
    GONE_IN,
    RENAMED_KEYS,
    File,
    RenamedKey,
    old_key_warnings,
    old_names,
    with_new_keys,
)
from hpcforge.blueprint.role_declarations import DeclarationError
from hpcforge.blueprint.smoke_tests import load_smoke_tests
from hpcforge.blueprint.untrusted_files import having
from hpcforge.cli.validate import validate
from hpcforge.cluster import load
from hpcforge.cluster.load import _declared
from hpcforge.plan.desired import DesiredRole
from hpcforge.plan.role import RoleError, load_role
from hpcforge.plan.role_check import judge
from hpcforge.run.site import compile_site, load_site_roles

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
PATHS: dict[str, tuple[File, str]] = {
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


def result(folder: Path) -> dict[str, object]:
    """What the blueprint and all beside it amount to."""
    _declared.cache_clear()
    loaded = load(folder / "site.yaml")
    desired = compile_site(load_site_roles(loaded), {}, loaded.cluster)
    assert loaded.inventory is not None
    return {
        "blueprint": loaded.blueprint.model_dump(),
        "inventory": loaded.inventory.model_dump(),
        "switches": loaded.switch_said,
        "cluster": loaded.cluster,
        "nodes": {node: [without_digest(one) for one in wanted] for node, wanted in desired.nodes.items()},
        "artifacts": desired.artifacts,
        "roles": [load_role(one).spec for one in having(folder / "roles", "role.yaml")],
        "tests": {name: one.spec for name, one in load_smoke_tests(folder / "tests").items()},
    }


def without_digest(wanted: DesiredRole) -> DesiredRole:
    """A site's Ansible role is known by the bytes of all its files, role.yaml among them."""
    return replace(wanted, opaque=None) if wanted.role == "site_theirs" else wanted


def warnings(folder: Path) -> list[Diagnostic]:
    _declared.cache_clear()
    return [entry for entry in load(folder / "site.yaml").diagnostics if "is now" in entry.message]


def test_the_texts_here_have_every_key_of_the_table() -> None:
    found: dict[str, set[tuple[str, str]]] = {file: set() for file in RENAMED_KEYS}
    for case in CASES:
        found[PATHS[case.path][0]].add((case.old, case.new))
    assert found == {file: {(row.old, row.new) for row in rows} for file, rows in RENAMED_KEYS.items()}
    places = [(file, row.place) for file, rows in RENAMED_KEYS.items() for row in rows]
    assert len(places) == len(set(places))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    folder = lay(tmp_path_factory.mktemp("keys"))
    assert warnings(folder) == []
    return folder, result(folder)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.path}:{case.old}:{case.number}")
def test_an_old_name_means_the_same_and_is_named(case: Case, expected: tuple[Path, dict[str, object]]) -> None:
    folder, new = expected
    path, text = folder / case.path, PATHS[case.path][1]
    path.write_text(written(text, old=case.number))
    try:
        assert result(folder) == new
        [told] = warnings(folder)
    finally:
        path.write_text(written(text))
    before = written(text[: nth(text, case.number)])
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    said = f"`{case.old}` is now `{case.new}`; the old name goes in version {GONE_IN}"
    assert render(told).startswith(f"{path}:{line}:{column}: warning: {said}\n")
    assert told.hint == f"write `{case.new}`"


def nth(text: str, number: int) -> int:
    """Where the marked key of this number stands."""
    return [found.start() for found in _MARKED.finditer(text)][number]


ROWS = [(file, row) for file, rows in RENAMED_KEYS.items() for row in rows]


@pytest.mark.parametrize(("file", "row"), ROWS, ids=[f"{file}:{row.place}" for file, row in ROWS])
def test_both_names_at_once_are_an_error(file: File, row: RenamedKey) -> None:
    for names in ((row.old, row.new), (row.new, row.old)):
        text = "{" + ", ".join(f"{name}: of {name}" for name in names) + "}"
        for step in reversed(row.around):
            text = f"{{{'any' if step == '*' else step}: {text}}}"
        document = with_new_keys(read_bytes(text.encode(), file), file)
        [told] = document.diagnostics
        assert told.severity == "error"
        assert told.message == f"`{row.old}` is the old name of `{row.new}`, which is here, too"
        assert told.hint == f"leave out `{row.old}`"
        assert told.column == text.index(f"{row.old}: of") + 1
        [value] = leaves(plain(document.root))
        assert value == f"of {row.new}"


def leaves(tree: object) -> Iterator[object]:
    for value in tree.values() if isinstance(tree, dict) else ():
        yield from leaves(value) if isinstance(value, dict) else (value,)


BOTH = {
    "site.yaml": ("{canary: 1, max_parallel: 3}", "{canary: 1, max_parallel: 3, at_most: 3}"),
    "inventory.yaml": ("{system_name: sw-r1-u40}", "{system_name: sw-r1-u40, says: sw-r1-u40}"),
    "roles/tried/role.yaml": ("affects_jobs: false", "affects_jobs: false\njobs_feel: false"),
    "ansible/theirs/role.yaml": ("delete_on_removal:", "removes: [/opt/theirs]\ndelete_on_removal:"),
    "tests/disk/test.yaml": ("format: size", "format: size, shown: size"),
}


@pytest.mark.parametrize("path", BOTH)
def test_a_file_with_both_names_is_refused(path: str, tmp_path: Path) -> None:
    file = lay(tmp_path) / path
    text = file.read_text()
    file.write_text(text.replace(*BOTH[path]))
    assert file.read_text() != text
    with pytest.raises((InvalidInput, RoleError, DeclarationError)) as refused:
        result(tmp_path)
    shown = str(refused.value) if isinstance(refused.value, DeclarationError) else refused.value.shown()
    assert "which is here, too" in shown and f"{file}:" in shown


def test_validate_shows_them_and_does_not_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = lay(tmp_path)
    lines = {"site.yaml": ("max_parallel", "at_most"), "roles/tried/role.yaml": ("affects_jobs", "jobs_feel"),
             "tests/disk/test.yaml": ("thresholds", "expectation")}  # fmt: skip
    for path, (new, old) in lines.items():
        (folder / path).write_text((folder / path).read_text().replace(new, old))
    _declared.cache_clear()
    assert validate(folder / "site.yaml", None, False) == 0
    out, err = capsys.readouterr()
    shown = (out + err).split("\n")
    for path, (new, old) in lines.items():
        [line] = [line for line in shown if line.startswith(f"{folder / path}:") and "is now" in line]
        assert line.endswith(f"warning: `{old}` is now `{new}`; the old name goes in version {GONE_IN}")


def test_role_check_shows_them_and_the_role_is_right(tmp_path: Path) -> None:
    folder = lay(tmp_path)
    for path in ("roles/guarded", "ansible/theirs"):
        role = folder / path / "role.yaml"
        role.write_text(role.read_text().replace("auto_rollback", "guard").replace("keep_on_removal", "leaves"))
    cluster = load(folder / "site.yaml").cluster
    checked = judge([folder / "roles/guarded", folder / "ansible/theirs"], [], cluster)
    assert [one.right for one in checked] == [True, True]
    said = [[render(entry).partition("\n")[0] for entry in one.diagnostics] for one in checked]
    assert said == [
        [f"{folder}/roles/guarded/role.yaml:3:1: warning: `guard` is now `auto_rollback`; "
         f"the old name goes in version {GONE_IN}"],
        [f"{folder}/ansible/theirs/role.yaml:3:1: warning: `leaves` is now `keep_on_removal`; "
         f"the old name goes in version {GONE_IN}"],
    ]  # fmt: skip


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
    with pytest.raises((InvalidInput, RoleError)) as refused:
        result(tmp_path)
    assert f"unknown key `{wrong}`" in refused.value.shown()
    assert f"hint: did you mean `{new}`?" in refused.value.shown()


def test_nothing_that_is_shipped_has_an_old_name() -> None:
    root = bundled.root()
    told = old_key_warnings(having(bundled.roles(), "role.yaml"), "role.yaml")
    told += old_key_warnings(having(root / "docs/examples/roles", "role.yaml"), "role.yaml")
    told += old_key_warnings(having(bundled.smoke_tests(), "test.yaml"), "test.yaml")
    blueprints = list((root / "blueprints").glob("*.yaml"))
    assert len(blueprints) > 5
    told += [entry for one in blueprints for entry in with_new_keys(read_file(one), "blueprint").diagnostics]
    told += [
        entry
        for one in (root / "inventory").glob("*.yaml")
        for entry in with_new_keys(read_file(one), "inventory").diagnostics
    ]
    assert [render(entry) for entry in told] == []


def test_the_names_of_the_user_are_left_alone() -> None:
    """An old name elsewhere, as the name of a variable, a service or a node, is no key of ours."""
    text = "vars: {leaves: {type: text, description: Kept.}}\nservices: {guard: {description: A service.}}\n"
    document = with_new_keys(read_bytes(text.encode(), "role.yaml"), "role.yaml")
    assert document.diagnostics == ()
    assert document.root == read_bytes(text.encode(), "role.yaml").root
    assert old_names("role.yaml", ("vars",)) == {} and old_names(None, ()) == {}
    assert old_names("role.yaml", ("units", 3))["watches"] == "restart_on"
