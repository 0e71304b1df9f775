"""A second package manager is one module and one row: with it the node program does all that it does with packages.

The real program answers in a process of its own, as it travels, with the module and the row added to what is sent. In
its mount namespace /var/lib is the test's, and each program of apt and dpkg leaves a mark where it is called.
"""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from hpcforge import kinds
from hpcforge.kinds import PACKAGE_MANAGERS
from hpcforge.node import bundle, kept_on_removal, package_manager
from hpcforge.node.events import NodeError
from hpcforge.node.package_manager import apt
from tests.unit.node.package_manager import toy

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts file systems")

Events = list[dict[str, Any]]
ROW = json.dumps(dict(PACKAGE_MANAGERS))
WITH_TOY = json.dumps({"toy": str(toy.DATABASE), **PACKAGE_MANAGERS})
OF_APT = "apt-get apt-mark apt-cache apt-config dpkg dpkg-query"
MOUNTED = f"""
mount --bind "$1/lib" /var/lib || exit 98
mount --bind "$1/run" /run || exit 98
for program in {OF_APT}; do mount --bind "$1/called" "/usr/bin/$program" || exit 98; done
exec python3 -IS -c "$2"
"""
RUN = {"who": "ann@operator", "cluster": "lab", "hpcforge": "0.1.0", "commit": None}
EMPTY = {"installed": {}, "sources": {}, "pinned": [], "replaces": {}, "files": {}, "sizes": {}}


class ToyNode:
    """A node with the toy: its requests, its database, and whether apt was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0
        for name in ("lib", "run"):
            (folder / name).mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", folder / "lib"], check=True)
        (folder / "lib/toy").mkdir()
        (folder / "called").write_text(f"#!/bin/sh\necho $0 >>{folder}/calls\nexit 99\n")
        (folder / "called").chmod(0o755)
        self.have()

    def have(self, **more: Any) -> None:
        """Set parts of the database."""
        path = self.folder / "lib/toy/database.json"
        before = json.loads(path.read_text()) if path.exists() else EMPTY
        path.write_text(json.dumps({**before, **more}))

    def installed(self) -> dict[str, str]:
        return json.loads((self.folder / "lib/toy/database.json").read_text())["installed"]

    def send(self, request: dict[str, Any]) -> Events:
        """Return the answers to a request."""
        texts = dict(bundle.needed(request["verb"]))
        assert texts["hpcforge.kinds"].count(ROW) == 1
        texts["hpcforge.kinds"] = texts["hpcforge.kinds"].replace(ROW, WITH_TOY)
        texts["hpcforge.node.package_manager.toy"] = Path(toy.__file__).read_text()
        end = subprocess.run(
            ["unshare", "--mount", "sh", "-c", MOUNTED, "sh", str(self.folder), bundle.LOADER],
            input=json.dumps({"modules": bundle.pack(texts), "request": request}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (end.returncode, end.stderr) == (0, "")
        return [json.loads(line) for line in end.stdout.splitlines()]

    def observe(self, *wanted: dict[str, Any], **more: Any) -> dict[str, Any]:
        [answer] = of(self.send({"verb": "observe", "wanted": wanted, "surplus": True, **more}), "observed")
        return answer

    def converge(self, phase: str, *work: dict[str, Any], **more: Any) -> Events:
        self.number += 1
        run = {"number": self.number, "id": f"run{self.number}", **RUN}
        return self.send({"verb": "converge", "phase": phase, "work": work, "run": run, **more})


@pytest.fixture
def node(tmp_path: Path):
    yield ToyNode(tmp_path)
    subprocess.run(["umount", tmp_path / "lib"], check=True)
    assert not (tmp_path / "calls").exists(), (tmp_path / "calls").read_text()


def of(events: Events, kind: str) -> Events:
    return [event for event in events if event["event"] == kind]


def brief(events: Events, kind: str, *keys: str) -> list[tuple[str, ...]]:
    return [tuple(event[key] for key in keys) for event in of(events, kind)]


ROLE = {"role": "tools", "packages": ["alpha", "beta"], "owns": {"on_remove": "purge"}}
WANTED = {"role": "tools", "packages": ["alpha", "beta"]}


def test_packages_are_installed_seen_upgraded_and_removed(node: ToyNode) -> None:
    node.have(sources={"alpha": "1", "beta": "1"}, installed={"beta": "1", "other": "7"})
    [difference] = node.observe(WANTED)["differs"]
    assert difference["packages"] == ["alpha"]

    events = node.converge("prepare", ROLE)
    assert brief(events, "changed", "kind", "name", "detail") == [("package", "alpha", "installed")]
    assert events[-1]["failed"] == []
    assert node.installed() == {"alpha": "1", "beta": "1", "other": "7"}
    assert node.observe(WANTED)["differs"] == []

    node.have(sources={"alpha": "2", "beta": "1"})
    [difference] = node.observe(WANTED)["differs"]
    assert difference["packages"] == ["alpha"]
    assert brief(node.converge("prepare", ROLE), "changed", "name", "detail") == [("alpha", "installed")]
    assert node.installed()["alpha"] == "2"

    assert node.observe()["receipt"]["surplus"]["tools"]["packages"] == ["alpha"]  # beta was there before
    events = node.converge("remove", {"role": "tools", "packages": ["alpha"], "on_remove": "purge"})
    assert brief(events, "changed", "kind", "name", "detail") == [("package", "alpha", "purged")]
    assert node.installed() == {"beta": "1", "other": "7"}


def test_packages_that_stay_name_the_command_that_removes_them(node: ToyNode) -> None:
    node.have(sources={"alpha": "1", "beta": "1"})
    node.converge("prepare", {**ROLE, "owns": {"on_remove": "stop"}})
    stays = {"kind": "package", "names": ["alpha", "beta"], "why": kept_on_removal.PACKAGES.format("toy-remove")}
    [remains] = of(node.converge("remove", {"role": "tools", "packages": [], "on_remove": "stop"}), "remains")
    assert remains["stays"] == [stays]


def test_what_goes_for_a_package_is_foreseen_and_needs_consent(node: ToyNode) -> None:
    node.have(sources={"alpha": "1", "beta": "1"}, installed={"beta": "1", "old": "1"}, replaces={"alpha": ["old"]})
    [difference] = node.observe(WANTED)["differs"]
    assert difference["removes"] == [{"name": "old", "by": ["alpha"]}]
    assert brief(node.converge("prepare", ROLE), "failed", "name", "error") == [("alpha", "old would go")]
    events = node.converge("prepare", {**ROLE, "removes": ["old"]})
    assert brief(events, "changed", "name", "detail") == [("old", "removed"), ("alpha", "installed")]


def test_an_unknown_package_and_a_bad_name_fail_their_role(node: ToyNode) -> None:
    node.have(sources={"alpha": "1"})
    error = "no package source of this node has a package 'beta'"
    assert brief(node.converge("prepare", ROLE), "failed", "name", "error") == [("beta", error)]
    assert node.installed() == {"alpha": "1"}
    events = node.send({"verb": "observe", "wanted": [{"role": "tools", "packages": ["a-b"]}]})
    assert brief(events, "failed", "kind", "name", "error") == [("package", "toydb", "'a-b' is not a package name")]


def test_an_obstacle_is_named_and_refuses_the_change(node: ToyNode) -> None:
    node.have(sources={"alpha": "2", "beta": "1"}, installed={"alpha": "1", "beta": "1"}, pinned=["alpha"])
    [obstacle] = node.observe(WANTED, inspect=True)["obstacles"]
    assert (obstacle["kind"], obstacle["name"], obstacle["commands"]) == ("package", "alpha", ["toy-unpin alpha"])
    events = node.converge("prepare", ROLE, inspect=True)
    assert brief(events, "failed", "name", "error") == [("alpha", "it is pinned\nrun there: toy-unpin alpha")]
    assert node.installed()["alpha"] == "1"


def test_packages_that_do_not_fit_are_refused(node: ToyNode) -> None:
    node.have(sources={"alpha": "1", "beta": "1"}, sizes={"alpha": 1 << 50})
    [obstacle] = node.observe(WANTED, inspect=True)["obstacles"]
    assert (obstacle["kind"], "is full: 10737418" in obstacle["why"]) == ("disk", True)


def test_what_the_toy_does_not_have_is_refused_role_by_role(node: ToyNode) -> None:
    node.have(sources={"alpha": "1"}, installed={"beta": "1"})
    pin = {"name": "site", "packages": ["alpha"], "pin": "version 1", "priority": 600}
    events = node.converge(
        "prepare",
        {"role": "pinned", "pins": [pin], "owns": {"pins": ["site"]}},
        {"role": "held", "holds": [{"name": "beta"}]},
        {"role": "plain", "packages": ["alpha"]},
    )
    assert brief(events, "failed", "role", "error") == [
        ("pinned", "toy, this node's package manager, has no pins"),
        ("held", "package 'beta' cannot be held: toy has no holds"),
    ]
    assert brief(events, "changed", "role", "name") == [("plain", "alpha")]


def test_the_first_manager_whose_program_is_there_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert package_manager.of_node() is apt.MANAGER
    (tmp_path / "toy").touch()
    monkeypatch.setitem(sys.modules, "hpcforge.node.package_manager.toy", toy)
    table = {"apt": str(tmp_path / "none"), "toy": str(tmp_path / "toy")}
    monkeypatch.setattr(package_manager, "PACKAGE_MANAGERS", table)
    assert package_manager.of_node() is toy.MANAGER
    with pytest.raises(NodeError, match="has no holds"):
        package_manager.of_node().hold("alpha", True)
    (tmp_path / "toy").unlink()
    assert package_manager.of_node() is apt.MANAGER  # whose programs say that they are not there


def test_each_row_names_a_module_that_has_all_of_the_interface() -> None:
    for name in kinds.PACKAGE_MANAGERS:
        manager = import_module(f"hpcforge.node.package_manager.{name}").MANAGER
        assert isinstance(manager, package_manager.PackageManager)
        assert manager.name == name
        words = [key for key in package_manager.PackageManager.__annotations__ if not hasattr(manager, key)]
        assert words == []
