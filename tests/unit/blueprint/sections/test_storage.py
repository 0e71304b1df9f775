"""File systems of a blueprint: who serves and mounts them, and which folders they hide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.sections.storage import storage_findings
from hpcforge.blueprint.validate import Finding
from hpcforge.blueprint.visible_nodes import NamedNodes
from tests.unit.blueprint.drafts import SMALL, draft, errors, places

SERVED = "kind: nfs, server: head"
OUTSIDE = 'kind: nfs, external: "nas:/p"'


def findings(*systems: str, more: str = "") -> list[tuple[str, str]]:
    """What is wrong with file systems s1, s2 and so on."""
    lines = "".join(f"  s{number}: {{{text}}}\n" for number, text in enumerate(systems, 1))
    blueprint = draft(text=f"{SMALL}{more}storage:\n{lines}")
    nodes = NamedNodes(blueprint)

    def reference(loc: Loc, names: Iterable[str]) -> Iterator[Finding]:
        yield from (Finding(loc, "unknown") for _ in nodes.unknown(names))

    return places(storage_findings(blueprint, nodes, reference))


@pytest.mark.parametrize(
    ("system", "wrong"),
    [
        (f"{SERVED}, path: /srv/p, mount: /p", []),
        (f"{OUTSIDE}, mount: /p", []),
        ("kind: nfs, mount: /p", ["s1"]),
        (f'{SERVED}, path: /srv/p, external: "nas:/p", mount: /p', ["s1"]),
        ("kind: nfs, server: nosuch, path: /srv/p, mount: /p", ["s1.server"]),
        (f"{SERVED}, mount: /p", ["s1.server"]),
        (f"{OUTSIDE}, path: /srv/p, mount: /p", ["s1.path"]),
        (f"{OUTSIDE}, raid: 1, quota_gib: 5, mount: /p", ["s1.raid", "s1.quota_gib"]),
        ("kind: xfs, drives: 1 x 3.84TB, raid: 1, mount: /p", ["s1.raid"]),
        ("kind: xfs, drives: 3 x 3.84TB, raid: 6, mount: /p", ["s1.raid"]),
        ("kind: xfs, drives: 4 x 3.84TB, raid: 6, mount: /p", []),
    ],
)
def test_files_are_at_one_place(system: str, wrong: list[str]) -> None:
    assert findings(system) == errors(*(f"storage.{place}" for place in wrong))


@pytest.mark.parametrize(
    ("mount", "hides"),
    [
        ("/projects", False),
        ("/home", True),
        ("/home/ada", True),
        ("/home/ada/data", True),
        ("/home/other", False),
        ("/opt", True),
        ("/opt/site", False),
        ("/opt/hpcforge/x", True),
        ("/usr/local", True),
        ("/usr/local/site", False),
        ("/usr/share", True),
        ("/var/data", True),
    ],
)
def test_a_mount_hides_no_folder_of_the_system_or_of_users(mount: str, hides: bool) -> None:
    assert findings(f"{OUTSIDE}, mount: {mount}") == errors(*["storage.s1.mount"] * hides)


@pytest.mark.parametrize(
    ("first", "second", "wrong"),
    [
        (f"{OUTSIDE}, mount: /p", f"{OUTSIDE}, mount: /p", ["s2.mount"]),
        (f"{OUTSIDE}, mount: /p", f"{OUTSIDE}, mount: /p/q", ["s2.mount"]),
        (f"{OUTSIDE}, mount: /p", f"{OUTSIDE}, mount: /pq", []),
        (f"{OUTSIDE}, mount: /p, on: w01", f"{OUTSIDE}, mount: /p, on: w02", []),
        (f"{SERVED}, path: /srv/p, mount: /p", f"{SERVED}, path: /srv/p/q, mount: /q", ["s2.path"]),
        (f"{OUTSIDE}, homes: true, mount: /homes", f"{OUTSIDE}, homes: true, mount: /people", ["s2.homes"]),
    ],
)
def test_file_systems_are_not_in_each_others_way(first: str, second: str, wrong: list[str]) -> None:
    assert findings(first, second) == errors(*(f"storage.{place}" for place in wrong))


@pytest.mark.parametrize(
    ("system", "wrong"),
    [
        (f"{OUTSIDE}, homes: true, options: [ro], mount: /homes", errors("storage.s1.homes")),
        ("kind: xfs, drives: 2 x 3.84TB, homes: true, mount: /homes", errors("storage.s1.homes")),
        (f"{SERVED}, path: /srv/p, mount: /srv/p/q, on: worker", errors()),
        (f"{SERVED}, path: /srv/p, mount: /srv/p/q, on: head", errors("storage.s1.mount")),
        (f"{OUTSIDE}, on: login, mount: /p", errors("storage.s1.on")),
        (f"{SERVED}, path: /srv/p, network: nosuch, mount: /p", errors("storage.s1.network")),
        (f"{OUTSIDE}, network: other, mount: /p", errors("storage.s1.network")),
    ],
)
def test_homes_servers_and_networks(system: str, wrong: list[tuple[str, str]]) -> None:
    assert findings(system) == wrong


def test_homes_of_administrators_that_nodes_share_are_a_warning() -> None:
    blueprint = SMALL.replace("uid: 2001", "uid: 2001, admin: true")
    blueprint += f"storage: {{s1: {{{OUTSIDE}, homes: true, mount: /homes}}}}\n"
    checked = draft(text=blueprint)
    result = places(storage_findings(checked, NamedNodes(checked), lambda _loc, _names: iter(())))
    assert result == [("users.ada.admin", "warning")]


@pytest.mark.parametrize(
    ("path", "keep", "wrong"),
    [
        ("/flash/p", "true", []),
        ("/flash/p", "false", errors("storage.s1")),  # removed after a user's last job there
        ("/flash/p/q", "true", errors("storage.s2.path")),
        ("/flsh/p", "true", [("storage.s2.path", "warning")]),
    ],
)
def test_a_folder_of_a_volume_is_a_direct_child_of_it(path: str, keep: str, wrong: list[tuple[str, str]]) -> None:
    volume = f"kind: xfs, drives: 2 x 3.84TB, keep_after_jobs: {keep}, mount: /flash"
    assert findings(volume, f"kind: nfs, server: w01, path: {path}, mount: /p") == wrong
