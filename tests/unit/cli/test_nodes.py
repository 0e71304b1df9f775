"""`hpcforge nodes`: what is written, and what is refused, through the real command line."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from hpcforge.blueprint.hostlist import expand
from hpcforge.blueprint.membership import spelled
from hpcforge.cli import nodes, run
from hpcforge.cluster import load
from hpcforge.cluster.model import Bmc
from hpcforge.metal.netboot import Records, folder
from hpcforge.metal.netboot.decide import Record

REPOSITORY = Path(__file__).parents[3]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 42 + "A"
OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "B" * 42 + "A"

SITE = """\
schema: 1
name: small
domain: small.example.org
inventory: inventory.yaml
access: {user: ops}
nodes:
  head: {functions: [head], hardware: generic-1u}      # the only one
  gpu[01-04]: {functions: [worker], hardware: rehearsal-node, gpus: {model: fake, count: 2}}
networks: {mgmt: {cidr: 10.1.0.0/24}}
services: {dns: {on: head}, time: {on: head}}
software: {os: {name: debian, release: "12"}}
slurm:
  controller: head
  reserve: {cores: 1, memory_gib: 1}
  partitions:
    main: {nodes: "gpu[01-04]", default: true}
    half: {nodes: "gpu[01-02]"}                        # the first rack
    rest: {nodes: all}
overrides:
  gpu02: {memory_gib: 2, reason: "one DIMM out"}
users: {ada: {uid: 2001}}
acceptance: {run_as: ada, tests: {allreduce: {nodes: "gpu[01-04]"}}}
"""
INVENTORY = f"""\
schema: 1
# what the vendor's list said
nodes:
  head: {{address: 10.1.0.1}}
  gpu01: {{address: 10.1.0.11, host_keys: ["{KEY}"]}}
  gpu02:
    address: 10.1.0.12          # moved in May
    host_keys: ["{KEY}"]
  gpu03: {{address: 10.1.0.13}}
  gpu04: {{address: 10.1.0.14}}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "inventory.yaml").write_text(INVENTORY)
    blueprint = tmp_path / "site.yaml"
    blueprint.write_text(SITE)
    return blueprint


@pytest.fixture
def rehearsal(tmp_path: Path) -> Path:
    shutil.copytree(REPOSITORY / "blueprints", tmp_path / "blueprints")
    return tmp_path / "blueprints" / "rehearsal.yaml"


def names(blueprint: Path) -> list[str]:
    return [node.name for node in load(blueprint).cluster.nodes]


def test_a_lab_grows_and_shrinks_back_to_the_very_text(rehearsal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = rehearsal.read_text()
    assert run(["nodes", "add", str(rehearsal), "w[04-05]", "--yes"]) == 0
    said = capsys.readouterr()
    assert '+  w[01-05]: {functions: [worker], hardware: rehearsal-node, addresses: "10.77.0.[11-15]",\n' in said.out
    assert '+    main: {nodes: "w[01-05]", default: true, max_time: "01:00:00"}\n' in said.out
    assert "rehearse up" in said.err
    assert rehearsal.read_text() == before.replace("w[01-03]", "w[01-05]").replace("[11-13]", "[11-15]")
    cluster = load(rehearsal).cluster
    assert [cluster.by_name[name].address for name in ("w03", "w04", "w05")] == [
        "10.77.0.13",
        "10.77.0.14",
        "10.77.0.15",
    ]
    assert run(["nodes", "remove", str(rehearsal), "w[04-05]", "--yes"]) == 0
    assert rehearsal.read_text() == before


def test_a_hole_in_a_group_leaves_every_other_address(rehearsal: Path) -> None:
    assert run(["nodes", "remove", str(rehearsal), "w02", "--yes"]) == 0
    cluster = load(rehearsal).cluster
    assert {node.name: node.address for node in cluster.nodes} == {
        "head": "10.77.0.10",
        "w01": "10.77.0.11",
        "w03": "10.77.0.13",
    }
    assert run(["nodes", "add", str(rehearsal), "w02", "--addresses", "10.77.0.12", "--yes"]) == 0
    assert names(rehearsal) == ["head", "w01", "w03", "w02"]


def test_a_group_of_one_node_keeps_its_word(rehearsal: Path) -> None:
    before = rehearsal.read_text().replace('{nodes: "w[01-03]",', "{nodes: w,")
    rehearsal.write_text(before)
    assert "{nodes: w," in before
    assert run(["nodes", "remove", str(rehearsal), "w[02-03]", "--yes"]) == 0
    assert "  w[01]: {" in rehearsal.read_text()
    assert load(rehearsal).cluster.slurm.partitions[0].nodes == ("w01",)
    assert run(["nodes", "add", str(rehearsal), "w[02-03]", "--yes"]) == 0
    assert rehearsal.read_text() == before


def test_nothing_is_written_without_a_yes(rehearsal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = rehearsal.read_text()
    assert run(["nodes", "add", str(rehearsal), "w04"]) == 3
    said = capsys.readouterr()
    assert "the question needs a terminal; nothing was written" in said.err
    assert "+  w[01-04]" in said.out
    assert rehearsal.read_text() == before


@pytest.mark.parametrize(
    "words",
    [
        ("add", "gpu05", "--addresses", "10.1.0.15"),
        ("remove", "gpu04"),
        ("replace", "gpu01"),
        ("import",),
    ],
)
def test_what_changed_while_the_question_stood_is_not_overwritten(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    inventory, machines = site.with_name("inventory.yaml"), site.with_name("machines.csv")
    machines.write_text("node,serial\ngpu03,S3\n")
    recorded = INVENTORY.replace("10.1.0.13}", f'10.1.0.13, host_keys: ["{OTHER_KEY}"]}}')

    def confirm(*_: object, **__: object) -> bool:
        inventory.write_text(recorded)  # as `apply --install` does
        return True

    monkeypatch.setattr(nodes.typer, "confirm", confirm)
    monkeypatch.setattr(nodes.sys, "stdin", SimpleNamespace(isatty=lambda: True))
    given = [str(machines)] if words[0] == "import" else []
    assert run(["nodes", words[0], str(site), *given, *words[1:]]) == 6
    assert "inventory.yaml has changed since this command read it; nothing was written" in capsys.readouterr().err
    assert (inventory.read_text(), site.read_text()) == (recorded, SITE)


def test_partitions_and_tests_that_name_all_of_a_group_grow_with_it(site: Path) -> None:
    words = ["nodes", "add", str(site), "gpu05", "--addresses", "10.1.0.15", "--host-key", OTHER_KEY, "--yes"]
    assert run(words) == 0
    assert site.read_text() == SITE.replace("gpu[01-04]", "gpu[01-05]")
    inventory = site.with_name("inventory.yaml").read_text()
    assert inventory == INVENTORY + f'  gpu05: {{address: 10.1.0.15, host_keys: ["{OTHER_KEY}"]}}\n'.replace('"', "")
    assert load(site).cluster.by_name["gpu05"].host_keys == (OTHER_KEY,)


def test_what_is_known_of_new_machines_is_written_to_the_inventory(site: Path) -> None:
    """Each option once for each node, in their order; other tools read the file, too."""
    words = ["nodes", "add", str(site), "gpu[05-06]", "--addresses", "10.1.0.[15-16]", "--yes"]
    words += ["--mac", "02:00:00:00:00:05", "--mac", "10:20:30:40:50:06", "--serial", "S5", "--serial", "0006"]
    words += ["--bmc", "10.9.0.5,02:00:00:00:01:05", "--bmc", "02:00:00:00:01:06"]
    assert run(words) == 0
    nodes = load(site).cluster.by_name
    assert (nodes["gpu05"].mac, nodes["gpu05"].serial) == ("02:00:00:00:00:05", "S5")
    assert (nodes["gpu06"].mac, nodes["gpu06"].serial) == ("10:20:30:40:50:06", "0006")
    assert nodes["gpu05"].bmc == Bmc("10.9.0.5", "02:00:00:00:01:05")
    assert nodes["gpu06"].bmc == Bmc(None, "02:00:00:00:01:06")
    written = yaml.safe_load(site.with_name("inventory.yaml").read_text())["nodes"]["gpu06"]
    assert (written["mac"], written["serial"]) == ("10:20:30:40:50:06", "0006")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--mac", "02:00:00:00:00:05"], "2 names but 1 of --mac"),
        (["--serial", "a", "--serial", "b", "--serial", "c"], "2 names but 3 of --serial"),
        (["--bmc", "10.9.0.5", "--bmc", "10.9.0.6,10.9.0.7"], "is more than an address and a MAC address"),
        (["--mac", "02:00:00:00:00:05", "--mac", "nonsense"], "`nonsense` is not a MAC address"),
        (["--serial", "S5", "--serial", "S5"], "S5"),
    ],
)
def test_what_cannot_be_of_new_machines_is_not_written(
    site: Path, words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = site.with_name("inventory.yaml")
    assert run(["nodes", "add", str(site), "gpu[05-06]", "--addresses", "10.1.0.[15-16]", "--yes", *words]) == 3
    assert error in capsys.readouterr().err
    assert (site.read_text(), inventory.read_text()) == (SITE, INVENTORY)


def test_what_is_said_of_a_node_alone_goes_with_it(site: Path) -> None:
    assert run(["nodes", "remove", str(site), "gpu02", "--yes"]) == 0
    text, inventory = site.read_text(), site.with_name("inventory.yaml").read_text()
    assert "overrides" not in text
    assert 'half: {nodes: "gpu01"}                        # the first rack' in text
    assert "gpu[01,03-04]: {functions" in text
    assert "gpu02" not in text + inventory
    assert "# what the vendor's list said" in inventory
    assert inventory.count("\n") == INVENTORY.count("\n") - 3


def test_replacing_forgets_the_old_machines_key(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory = site.with_name("inventory.yaml")
    assert run(["nodes", "replace", str(site), "gpu02", "--yes"]) == 0
    assert inventory.read_text() == INVENTORY.replace(f'# moved in May\n    host_keys: ["{KEY}"]\n', "# moved in May\n")
    assert "overrides.gpu02 stays (one DIMM out)" in capsys.readouterr().err
    assert (
        run(["nodes", "replace", str(site), "gpu01", "--host-key", OTHER_KEY, "--address", "10.1.0.99", "--yes"]) == 0
    )
    node = load(site).cluster.by_name["gpu01"]
    assert (node.address, node.host_keys) == ("10.1.0.99", (OTHER_KEY,))
    assert site.read_text() == SITE


MACHINE = f"""\
  gpu01: {{address: 10.1.0.11, host_keys: ["{KEY}"], mac: 02:00:00:00:00:01, serial: OLD,
    ports: {{}}, bmc: {{address: 10.9.0.1, mac: 02:00:00:00:01:01}}, note: next to the door}}
"""


def inventory_with_machine(site: Path) -> Path:
    """The inventory of a site, in which gpu01 has all that can be known of a machine."""
    path = site.with_name("inventory.yaml")
    lines = path.read_text().splitlines(keepends=True)
    [at] = [number for number, line in enumerate(lines) if line.startswith("  gpu01:")]
    path.write_text("".join([*lines[:at], MACHINE, *lines[at + 1 :]]))
    assert load(site).cluster.by_name["gpu01"].serial == "OLD"
    return path


def test_replacing_drops_what_is_known_of_the_old_machine(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory = inventory_with_machine(site)
    assert run(["nodes", "replace", str(site), "gpu01", "--yes"]) == 0
    said = capsys.readouterr().err
    assert "note: mac, bmc.mac, serial of the old machine go from the inventory: give the new one's with --mac" in said
    assert "note: nodes.gpu01.note stays (next to the door)" in said
    kept = yaml.safe_load(inventory.read_text())["nodes"]["gpu01"]
    assert {key: value for key, value in kept.items() if value} == {
        "address": "10.1.0.11", "bmc": {"address": "10.9.0.1"}, "note": "next to the door"
    }  # fmt: skip


def test_replacing_writes_what_is_known_of_the_new_machine(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory = inventory_with_machine(site)
    words = ["nodes", "replace", str(site), "gpu01", "--yes", "--host-key", OTHER_KEY, "--mac", "02:00:00:00:00:02"]
    assert run([*words, "--bmc", "10.9.0.2,02:00:00:00:01:02", "--serial", "NEW"]) == 0
    assert "of the old machine" not in capsys.readouterr().err
    written = yaml.safe_load(inventory.read_text())["nodes"]["gpu01"]
    assert (written["mac"], written["serial"], written["host_keys"]) == ("02:00:00:00:00:02", "NEW", [OTHER_KEY])
    assert written["bmc"] == {"address": "10.9.0.2", "mac": "02:00:00:00:01:02"}


def test_replacing_where_no_key_is_written_down_writes_nothing(
    rehearsal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = rehearsal.read_text()
    assert run(["nodes", "replace", str(rehearsal), "w01", "--yes"]) == 0
    assert "nothing to write" in capsys.readouterr().err
    assert rehearsal.read_text() == before


REFUSED = {
    "one that is there": (["add", "gpu02"], "gpu02 is in the blueprint already"),
    "a group that cannot be told": (["add", "x1"], "no group has similar names"),
    "a group that is no node's": (["add", "x1", "--like", "gpu09"], "gpu09 is not a node of this blueprint"),
    "no address": (["add", "gpu05"], "the inventory has this group's addresses"),
    "too few addresses": (["add", "gpu[05-06]", "--addresses", "10.1.0.15"], "2 names but 1 address"),
    "one key for two": (["add", "gpu[05-06]", "--host-key", KEY], "a host key belongs to one machine"),
    "an address that is taken": (["add", "gpu05", "--addresses", "10.1.0.11", "--yes"], "belongs to"),
    "an address outside": (["add", "gpu05", "--addresses", "10.9.0.11", "--yes"], "outside network `mgmt`"),
    "a key that is none": (["add", "gpu05", "--addresses", "10.1.0.15", "--host-key", "x", "--yes"], "`x` is not"),
    "the controller": (["remove", "head", "--yes"], "`head` is not a node of this blueprint"),
    "all workers": (["remove", "gpu[01-04]", "--yes"], "no node has the function worker"),
    "a stranger": (["remove", "gpu09"], "gpu09 is not in the blueprint"),
    "no hostlist": (["remove", "gpu[04-01]"], "do not ascend"),
    "a shell": (["remove", "gpu01;reboot"], "neither a name nor a hostlist"),
    "a group by @": (["remove", "@gpu"], "uses `@`"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_be_wrong_is_refused_and_nothing_is_written(
    site: Path, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (verb, *words), said = REFUSED[case]
    assert run(["nodes", verb, str(site), *words]) == 3
    assert said in capsys.readouterr().err
    assert (site.read_text(), site.with_name("inventory.yaml").read_text()) == (SITE, INVENTORY)


def test_a_machine_that_would_move_in_its_rack_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an inventory nothing can say that it stays."""
    blueprint = tmp_path / "valid.yaml"
    blueprint.write_text((REPOSITORY / "tests" / "unit" / "design" / "facility" / "cases" / "valid.yaml").read_text())
    assert run(["nodes", "remove", str(blueprint), "w2", "--yes"]) == 3
    output = capsys.readouterr().err
    assert "w3 would move from 10.1.0.3 in rack r2, unit 3 to 10.1.0.3 in rack r1, unit 11" in output
    assert "name an inventory with `inventory:`: hpcforge pins the nodes there" in output


def test_a_link_stays_a_link_and_the_mode_stays(site: Path) -> None:
    real = site.with_name("real.yaml")
    site.rename(real)
    real.chmod(0o640)
    site.symlink_to(real)
    assert run(["nodes", "remove", str(site), "gpu04", "--yes"]) == 0
    assert site.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert "gpu[01-03]: " in real.read_text()


@pytest.mark.parametrize(
    ("given", "short"),
    [
        (["w01", "w02", "w03"], "w[01-03]"),
        (["w01", "w03", "w02"], "w[01,03],w02"),
        (["w1", "w2", "x1"], "w[1-2],x1"),
        (["10.0.0.9", "10.0.0.10", "10.0.1.1"], "10.0.0.[9-10],10.0.1.1"),
        (["head"], "head"),
        (["w09", "w10", "w11"], "w[09-11]"),
        (["w09", "w100"], "w09,w100"),
        (["n0", "n1", "n10"], "n[0-1,10]"),
        (["r1-n2", "r2-n1"], "r1-n2,r2-n1"),
    ],
)
def test_a_hostlist_keeps_the_order(given: list[str], short: str) -> None:
    assert spelled(given) == short
    assert list(expand(short)) == given


LIST = """\
Hostname;Serial Number;MAC Address;BMC IP;Rack
gpu01;S1;02-00-00-00-00-01;10.2.0.1;A1
gpu02;S2;02-00-00-00-00-02;;A1
"""


def test_a_list_is_imported_and_comments_stay(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory, listed = site.with_name("inventory.yaml"), site.with_name("list.csv")
    listed.write_text(LIST)
    words = ["nodes", "import", str(site), str(listed)]
    assert run([*words, "--dry-run"]) == 0
    said = capsys.readouterr()
    assert '+    mac: "02:00:00:00:00:02"\n' in said.out
    assert "columns that are not read: Rack\n5 values of gpu[01-02] would be added" in said.err
    assert run(words) == 3
    assert "nothing was written" in capsys.readouterr().err
    assert inventory.read_text() == INVENTORY
    assert run([*words, "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] is True
    cluster = load(site).cluster
    assert cluster.by_name["gpu01"].bmc == Bmc("10.2.0.1", None)
    assert (cluster.by_name["gpu02"].mac, cluster.by_name["gpu02"].serial) == ("02:00:00:00:00:02", "S2")
    assert "address: 10.1.0.12          # moved in May" in inventory.read_text()
    after = inventory.read_text()
    assert run(words) == 0
    assert "unchanged" in capsys.readouterr().err
    assert inventory.read_text() == after


def test_lines_of_other_machines_are_named(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = site.with_name("list.csv")
    listed.write_text("node,serial\ngpu01,S1\n" + "".join(f"switch-{number},X{number}\n" for number in range(22)))
    assert run(["nodes", "import", str(site), str(listed), "--dry-run"]) == 0
    said = capsys.readouterr().err
    assert f"{listed}:3: left out: `switch-0` is not a node of the blueprint\n" in said
    assert f"{listed}: left out as well: lines 23, 24\n" in said
    assert run(["nodes", "import", str(site), str(listed), "--dry-run", "--json"]) == 0
    left_out = json.loads(capsys.readouterr().out)["left_out"]
    assert left_out[21] == {"line": 24, "reason": "`switch-21` is not a node of the blueprint"}


def test_a_wrong_list_is_refused_with_its_line(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = site.with_name("list.csv")
    listed.write_text("node,mac\ngpu01,02:00:00:00:00:01\ngpu1,02:00:00:00:00:02\n")
    assert run(["nodes", "import", str(site), str(listed), "--yes"]) == 3
    said = capsys.readouterr().err
    assert f"{listed}:3:1: error: `gpu1` is not a node of the blueprint" in said
    assert "hint: did you mean `gpu01`?" in said
    assert site.with_name("inventory.yaml").read_text() == INVENTORY
    os.mkfifo(site.with_name("pipe"))
    assert run(["nodes", "import", str(site), str(site.with_name("pipe")), "--yes"]) == 3
    assert run(["nodes", "import", str(site), str(site.with_name("none.csv")), "--yes"]) == 3
    assert "none.csv: No such file" in capsys.readouterr().err


def test_what_the_next_installation_needs_goes_and_stays(
    site: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    records = Records(folder("small"))
    records.change("gpu01", lambda _: Record("gpu01", "installed", 0.0, "img", host_keys=(KEY,)))
    inventory = site.with_name("inventory.yaml")
    machine = f"mac: 02:00:00:00:00:01, serial: S1, bmc: {{address: 10.9.0.1, certificate: {'a' * 64}}}"
    inventory.write_text(INVENTORY.replace(f'["{KEY}"]}}', f'["{KEY}"], {machine}}}', 1))
    assert run(["nodes", "replace", str(site), "gpu01", "--same-machine", "--mac", "02:00:00:00:00:09"]) == 3
    assert run(["nodes", "replace", str(site), "gpu01", "--same-machine", "--yes"]) == 0
    [known] = [node for node in load(site).cluster.nodes if node.name == "gpu01"]
    assert (known.host_keys, known.serial, known.mac) == ((), "S1", "02:00:00:00:00:01")
    assert known.bmc is not None and known.bmc.certificate == "a" * 64
    assert "gpu01" not in records.read()
    said = capsys.readouterr().err
    assert f"apply {site} --install gpu01" in said and "discover" not in said
    assert run(["nodes", "replace", str(site), "gpu01", "--serial", "S2", "--yes"]) == 0
    [known] = [node for node in load(site).cluster.nodes if node.name == "gpu01"]
    assert (known.serial, known.mac, known.bmc) == ("S2", None, Bmc("10.9.0.1", None))
    assert f"discover {site} --trust-new; " in capsys.readouterr().err
