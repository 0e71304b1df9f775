"""`hpcforge verify --cabling --from DIR`: files as the programs write them, with faults planted; what is said, whole.

What is said of each fault is cabled/FAULT.txt.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from hpcforge.blueprint.hostlist import expand
from hpcforge.cluster import load
from hpcforge.design.fabric.cable_index import CableEnds, Drawn, PortName
from hpcforge.verify.cabling import CablingError, parse_lldp
from tests.support.as_plugged import exchanged, replug, swapped
from tests.support.as_told import ibnetdiscover, lldp
from tests.support.in_process import hpcforge

HERE = Path(__file__).parent
BLUEPRINT = HERE / "cabling.yaml"
LOADED = load(BLUEPRINT)
DESIGN = Drawn.of(cables.labels for cables in LOADED.cables)
Links = list[CableEnds]


def write(folder: Path, links: Iterable[CableEnds], managed: bool = True, port: str = "swp{}") -> None:
    """Save what the programs would write if these cables were plugged in."""
    links = list(links)
    compute = LOADED.fabrics[0]
    wired = [link for link in links if "inband" in link.a.name]
    beyond = {link for link in links if link.a.device.startswith("inband")}  # peer links: no node sees them
    fabric = [link for link in links if link not in {*wired, *beyond}]
    (folder / "compute.ibnetdiscover").write_text(ibnetdiscover(compute, fabric, managed))
    nodes = {device for device, kind in DESIGN.kinds.items() if kind == "node"}
    silent = json.dumps({"lldp": {}})
    for name, text in (dict.fromkeys(sorted(nodes), silent) | dict(lldp(wired, port))).items():
        (folder / f"{name}.lldp.json").write_text(text)


def verify(folder: Path, *options: str, blueprint: Path = BLUEPRINT) -> subprocess.CompletedProcess[str]:
    return hpcforge("verify", str(blueprint), "--cabling", "--from", str(folder), *options)


def without(links: Iterable[CableEnds], *ports: PortName) -> Links:
    return [link for link in links if link.a not in ports]


def _swap_across_rails() -> Links:
    return swapped(DESIGN.links, PortName("gpu007", "compute rail 2"), PortName("gpu007", "compute rail 3"))


def _dead_cables() -> Links:
    return without(DESIGN.links, PortName("gpu040", "compute rail 4"), PortName("gpu003", "inband link 1"))


def _two_nodes_exchanged() -> Links:
    return exchanged(DESIGN.links, "gpu004", "gpu036")


def _wrong_spine() -> Links:
    leaf = PortName("compute-leaf-002", "17/1")
    assert DESIGN.peer[leaf].device == "compute-spine-001"
    return replug(DESIGN.links, {DESIGN.peer[leaf]: PortName("compute-spine-002", "32/2")})


def _swap_of_two_nodes_on_one_leaf() -> Links:
    return swapped(DESIGN.links, PortName("inband-leaf-002", "3"), PortName("inband-leaf-002", "4"))


def _a_node_that_is_off() -> Links:
    return [link for link in DESIGN.links if link.a.device != "gpu011"]


def _several() -> Links:
    links = swapped(DESIGN.links, PortName("gpu007", "compute rail 2"), PortName("gpu007", "compute rail 3"))
    links = exchanged(links, "gpu020", "gpu021")
    links = replug(links, {DESIGN.peer[PortName("gpu001", "inband link 1")]: PortName("inband-leaf-001", "48")})
    return without(links, PortName("gpu040", "compute rail 4"))


FAULTS: dict[str, Callable[[], Links]] = {
    "swap_across_rails": _swap_across_rails,
    "dead_cables": _dead_cables,
    "two_nodes_exchanged": _two_nodes_exchanged,
    "wrong_spine": _wrong_spine,
    "swap_on_one_leaf": _swap_of_two_nodes_on_one_leaf,
    "node_off": _a_node_that_is_off,
    "several": _several,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault(fault: str, tmp_path: Path, golden: Callable[[Path, str], None]) -> None:
    write(tmp_path, FAULTS[fault]())
    done = verify(tmp_path)
    assert done.stderr == ""
    golden(HERE / "cabled" / f"{fault}.txt", done.stdout)
    assert done.returncode == 7


@pytest.mark.parametrize(
    ("port", "managed"), [("swp{}", True), ("Eth1/{}", False), ("{}", True), ("Ethernet{}/1", False)]
)
def test_clean(port: str, managed: bool, tmp_path: Path) -> None:
    write(tmp_path, DESIGN.links, managed, port)
    done = verify(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    # the two peer links are between switches, which nobody asked
    assert done.stdout == f"{len(DESIGN.links) - 2} cables are as drawn, 2 not checked: neither end was queried\n"


def spell(folder: Path, name: Callable[[int], str]) -> None:
    """Write the names of the Ethernet switches' ports in another way."""
    for path in folder.glob("*.lldp.json"):
        path.write_text(re.sub('"swp([0-9]+)"', lambda found: json.dumps(name(int(found[1]))), path.read_text()))


@pytest.mark.parametrize(
    "name",
    [
        lambda p: f"et-0/0/{p - 1}",
        lambda p: f"ethernet1/1/{p}",
        lambda p: f"Ethernet{p - 1}",
        lambda p: f"TenGigabitEthernet 0/{p - 1}",
    ],
)
def test_right_cables_are_right_and_a_swap_is_named_in_any_numbering(
    name: Callable[[int], str], tmp_path: Path
) -> None:
    write(tmp_path, DESIGN.links)
    spell(tmp_path, name)
    done = verify(tmp_path)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1), done.stdout
    write(tmp_path, _swap_of_two_nodes_on_one_leaf())
    spell(tmp_path, name)
    done = verify(tmp_path)
    assert done.returncode == 7
    assert done.stdout.startswith(
        "swapped: the cables in inband-leaf-002 port 4 and inband-leaf-002 port 3 are swapped"
    )


@pytest.mark.parametrize("links", [DESIGN.links, _swap_of_two_nodes_on_one_leaf()])
def test_ports_in_an_unsettled_numbering_are_unknown(links: Links, tmp_path: Path) -> None:
    """Right or swapped: no plug is to be moved, and it is not exit 0; the inventory settles it."""
    write(tmp_path, links)
    spell(tmp_path, lambda p: f"GigabitEthernet0/{p}")
    done = verify(tmp_path)
    assert done.returncode == 7
    assert "unknown: inband-leaf-001: the ports of 41 cables are unknown: 2 numberings fit: " in done.stdout
    assert "move" not in done.stdout and f"\n{len(DESIGN.links) - 84} cables are as drawn" in done.stdout
    inventory = tmp_path / "inventory.yaml"
    ports = {"ports": {"2": "GigabitEthernet0/2"}}
    inventory.write_text(json.dumps({"schema": 1, "switches": {"inband-leaf-001": ports, "inband-leaf-002": ports}}))
    settled = verify(tmp_path, "--inventory", str(inventory))
    assert settled.returncode == (0 if links is DESIGN.links else 7)
    assert "unknown" not in settled.stdout and ("swapped" in settled.stdout) == (links is not DESIGN.links)


def test_a_port_that_the_switch_does_not_have_in_the_inventory(tmp_path: Path) -> None:
    write(tmp_path, DESIGN.links)
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text('{"schema": 1, "switches": {"inband-leaf-001": {"ports": {"49": "swp49"}}}}')
    done = verify(tmp_path, "--inventory", str(inventory))
    assert done.returncode == 3
    assert "inband-leaf-001 has no port 49" in done.stderr and "its ports are 1 to 48" in done.stderr


def test_neighbours_that_are_not_understood_are_named_and_not_exit_0(tmp_path: Path) -> None:
    write(tmp_path, DESIGN.links)
    node = tmp_path / "gpu003.lldp.json"
    entries = json.loads(node.read_text())
    odd = json.loads(node.read_text())["lldp"]["interface"][0]["eno1"] | {"chassis": {}}
    entries["lldp"]["interface"].append({"eno9": odd})
    node.write_text(json.dumps(entries))
    (tmp_path / "gpu004.lldp").write_text("")
    done = verify(tmp_path)
    assert done.returncode == 7
    assert done.stdout.splitlines()[:2] == [
        "not certain: not read: gpu004.lldp",
        "not understood: gpu003: the neighbour on eno9: it has no chassis",
    ]
    report = json.loads(verify(tmp_path, "--json").stdout)
    assert (report["findings"], report["left_out"]) == ([], ["gpu003: the neighbour on eno9: it has no chassis"])


@pytest.mark.parametrize(
    ("absent", "named", "unchecked"),
    [
        (["gpu003.lldp.json"], "gpu003", 2),
        (["gpu003.lldp.json", "gpu004.lldp.json", "head.lldp.json"], "gpu[003-004],head", 6),
        (["compute.ibnetdiscover"], "compute", 544),
    ],
)
def test_a_report_that_is_not_there_is_named_and_not_exit_0(
    absent: list[str], named: str, unchecked: int, tmp_path: Path
) -> None:
    write(tmp_path, DESIGN.links)
    for name in absent:
        (tmp_path / name).unlink()
    done = verify(tmp_path)
    assert done.returncode == 5
    assert done.stdout.splitlines()[0] == f"not asked: {named}: no report in {tmp_path}"
    assert f"{unchecked + 2} not checked" in done.stdout
    assert sorted(json.loads(verify(tmp_path, "--json").stdout)["silent"]) == sorted(expand(named))


@pytest.mark.parametrize(("copy", "of"), [("gpu006", "gpu005"), ("gpu005", "gpu006")])
def test_a_copy_of_another_node_s_report_is_ambiguous_not_a_missing_cable(copy: str, of: str, tmp_path: Path) -> None:
    write(tmp_path, DESIGN.links)
    (tmp_path / f"{copy}.lldp.json").write_bytes((tmp_path / f"{of}.lldp.json").read_bytes())
    done = verify(tmp_path, "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 7
    [finding] = report["findings"]
    assert (finding["kind"], [move["action"] for move in finding["moves"]]) == ("ambiguous", ["look", "look"])
    assert finding["message"].startswith(f"{copy}: the neighbours of 2 of its ports are also another device's")
    assert report["as_drawn"] == len(DESIGN.links) - 4 and report["doubts"] == []


def test_reports_of_both_leaves_stand_for_a_node_s_own(tmp_path: Path) -> None:
    write(tmp_path, DESIGN.links)
    for leaf in ("inband-leaf-001", "inband-leaf-002"):
        ends = [CableEnds(link.b, link.a) for link in DESIGN.links if link.b.device == leaf and "inband" in link.a.name]
        (tmp_path / f"{leaf}.lldp.json").write_text(switch_lldp(ends))
    (tmp_path / "gpu003.lldp.json").unlink()
    done = verify(tmp_path)
    assert "not asked" not in done.stdout and "gpu003" not in done.stdout, done.stdout


def switch_lldp(links: Iterable[CableEnds]) -> str:
    """What a switch would save of the nodes at its ports."""
    entries = [
        {
            f"swp{link.a.name}": {
                "via": "LLDP",
                "chassis": {link.b.device: {"id": {"type": "local", "value": link.b.device}}},
                "port": {"id": {"type": "ifname", "value": f"eno{link.b.name.rpartition(' ')[2]}"}},
            }
        }
        for link in links
    ]
    return json.dumps({"lldp": {"interface": entries}})


def test_json(tmp_path: Path) -> None:
    write(tmp_path, _swap_across_rails())
    done = verify(tmp_path, "--json")
    said = json.loads(done.stdout)
    [finding] = said["findings"]
    assert (said["moves"], finding["kind"], done.returncode) == (2, "swapped", 7)
    assert finding["moves"][0]["from"]["device"] == finding["moves"][0]["to"]["device"] == "gpu007"
    assert all(len(move["labels"]) == 2 for move in finding["moves"])


def test_switches_with_names_of_their_own(tmp_path: Path) -> None:
    """The inventory says what a switch says of itself: by name, by GUID, by MAC."""
    write(tmp_path, DESIGN.links)
    file = tmp_path / "compute.ibnetdiscover"
    text = file.read_text()
    guid = text.partition('# "MF0;compute-leaf-001:')[0].rpartition("switchguid=")[2].partition("(")[0]
    file.write_text(text.replace("compute-leaf-001", "Quantum Mellanox").replace("compute-spine-001", "sw-r1-u40"))
    for path in tmp_path.glob("*.lldp.json"):
        told = path.read_text().replace("inband-leaf-001", "cumulus").replace("inband-leaf-002", "cumulus")
        first, _, second = told.partition('"eno2"')
        path.write_text(f'{first}"eno2"{second.replace("3a:66:3d:2b:10:fb", "02:00:00:00:00:02")}')
    guessed = verify(tmp_path)
    assert (
        "not certain: sw-r1-u40 has the cables of compute-spine-001 and counts as compute-spine-001" in guessed.stdout
    )
    # two leaves of one pair are alike in everything: which is which, only the inventory can say
    assert guessed.stdout.startswith(
        "unknown: cumulus (02:00:00:00:00:02), cumulus (3a:66:3d:2b:10:fb): which of inband-leaf-[001-002] is it? "
        'Write it in the inventory, like `switches: {inband-leaf-001: {mac: "02:00:00:00:00:02"}}`'
    )
    assert guessed.returncode == 7 and "extra" not in guessed.stdout and "absent" not in guessed.stdout
    inventory = tmp_path / "inventory.yaml"
    switches = {
        "compute-leaf-001": {"guid": guid},
        "compute-spine-001": {"system_name": "sw-r1-u40"},
        "inband-leaf-001": {"mac": "3a:66:3d:2b:10:fb"},
        "inband-leaf-002": {"mac": "02:00:00:00:00:02"},
    }
    inventory.write_text(json.dumps({"schema": 1, "switches": switches}))
    done = verify(tmp_path, "--inventory", str(inventory))
    assert (done.returncode, done.stdout.count("\n")) == (0, 1), done.stdout


def test_a_wrong_name_in_the_inventory(tmp_path: Path) -> None:
    write(tmp_path, DESIGN.links)
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text('{"schema": 1, "switches": {"compute-leaf-01": {"system_name": "sw1"}}}')
    done = verify(tmp_path, "--inventory", str(inventory))
    assert done.returncode == 3
    assert "`compute-leaf-01` is not a switch of the design" in done.stderr and "did you mean" in done.stderr


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no NAME.lldp.json and no FABRIC.ibnetdiscover there"),
        ({"gpu001.lldp.json": "[]"}, "gpu001: this is not output of `lldpctl -f json`"),
        ({"gpu001.lldp.json": "{"}, "gpu001: this is not output of `lldpctl -f json`"),
        ({"compute.ibnetdiscover": "ibwarn: no device\n"}, "compute: this is not output of `ibnetdiscover`"),
        ({"a.ibnetdiscover": "", "compute.ibnetdiscover": ""}, "a.ibnetdiscover is not of a fabric of this blueprint"),
    ],
)
def test_files_that_say_nothing(files: dict[str, str], message: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = verify(tmp_path)
    assert done.returncode == 3
    assert message in done.stderr


def test_a_blueprint_without_fabrics(tmp_path: Path) -> None:
    done = verify(tmp_path, blueprint=HERE.parents[3] / "blueprints" / "two-node-lab.yaml")
    assert done.returncode == 3 and "has no fabrics" in done.stderr


def test_neighbours_without_end_are_refused() -> None:
    with pytest.raises(CablingError, match="w1: more than 4194304 characters"):
        parse_lldp('{"lldp": {"interface": []}}' + " " * (4 << 20), "w1")
