"""The shipped blueprints, resolved: golden files in golden/, compared as a whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster, Jump
from hpcforge.cluster.resolve import usual_cores, usual_memory_mib

ROOT = Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "blueprints").glob("*.yaml"))
GOLDEN = Path(__file__).parent / "golden"  # of those that differ from each other


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_blueprint_has_nothing_to_complain_of(path: Path) -> None:
    assert load(path).diagnostics == ()
    assert path.read_text().splitlines()[0] == "# yaml-language-server: $schema=./blueprint.schema.json"


@pytest.mark.parametrize("path", sorted(GOLDEN.iterdir()), ids=lambda path: path.stem)
def test_shipped_blueprint_resolves_as_recorded(path: Path, golden: Callable[[Path, str], None]) -> None:
    golden(path, text(load(ROOT / "blueprints" / path.name).cluster))


def test_secrets_lie_beside_the_blueprint() -> None:
    loaded = load(ROOT / "blueprints" / "rehearsal.yaml")
    assert loaded.secrets_path == ROOT / "blueprints" / "rehearsal.age"
    assert loaded.blueprint.wants_lab
    assert loaded.inventory_path is None


def test_memory_of_jobs_that_ask_for_none() -> None:
    cluster = load(ROOT / "blueprints" / "dgx-h100-32.yaml").cluster
    train, debug = cluster.slurm.partitions  # gpu017 of train has 1536 GiB, all others 2048
    assert cluster.reserves == ((4, 64 * 1024),)
    assert cluster.memory_mib_per_cpu(train) == (1536 - 64) * 1024 // (224 - 2 * 4)
    assert cluster.memory_mib_per_cpu(debug) == (2048 - 64) * 1024 // (224 - 2 * 4)
    said = dataclasses.replace(cluster.slurm, settings=(("DefMemPerGPU", "65536"),))
    assert dataclasses.replace(cluster, slurm=said).memory_mib_per_cpu(train) is None


def resolved(path: Path, *edits: tuple[str, str]) -> Cluster:
    """A shipped blueprint with some of its text replaced."""
    text = path.read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return load(path, instead={path: text}).cluster


DGX, DGX_RESERVE = ROOT / "blueprints" / "dgx-h100-32.yaml", "  reserve: {cores: 4, memory_gib: 64}  # kept from jobs\n"


def test_a_reserve_follows_from_the_hardware_where_the_blueprint_says_none() -> None:
    cluster = resolved(DGX, (DGX_RESERVE, ""))
    nodes = cluster.by_name  # two sockets of 56 cores; 2048 GiB, of which gpu017 has 1536
    assert (nodes["gpu016"].reserve_cores, nodes["gpu016"].reserve_memory_mib) == (2, 400 + 30 * 2048)
    assert (nodes["gpu017"].reserve_cores, nodes["gpu017"].reserve_memory_mib) == (2, 400 + 30 * 1536)
    assert cluster.job_memory_mib(nodes["gpu017"]) == 1536 * 1024 - 46480
    assert cluster.job_cpus(nodes["gpu017"]) == 224 - 2 * 2
    assert {(node.reserve_cores, node.reserve_memory_mib) for node in cluster.with_function("head")} == {(0, 0)}
    small = resolved(ROOT / "blueprints" / "rehearsal.yaml", ("  reserve: {cores: 0, memory_gib: 1}", "  #"))
    assert small.reserves == ((0, 520),)  # two cores: none of them


def test_people_log_in_to_login_nodes_or_else_to_the_controller() -> None:
    assert resolved(ROOT / "blueprints" / "full-lab.yaml").login_nodes == ("login",)
    assert resolved(ROOT / "blueprints" / "software-lab.yaml").login_nodes == ("head",)


@pytest.mark.parametrize(
    ("said", "expected"),
    [("cores: 0", (0, 61840)), ("memory_gib: 100", (2, 102400)), ("cores: 5, memory_gib: 0", (5, 0))],
)
def test_half_a_reserve_is_completed_and_what_is_said_is_kept(said: str, expected: tuple[int, int]) -> None:
    cluster = resolved(DGX, (DGX_RESERVE, f"  reserve: {{{said}}}\n"))
    node = cluster.by_name["gpu016"]
    assert (node.reserve_cores, node.reserve_memory_mib) == expected


@pytest.mark.parametrize("sockets", [1, 2, 16])
@pytest.mark.parametrize("cores", [1, 2, 15, 16, 512])
@pytest.mark.parametrize("memory_gib", [1, 2, 65_536])
def test_the_usual_reserve_leaves_most_to_jobs(sockets: int, cores: int, memory_gib: int) -> None:
    assert usual_cores(sockets, cores) <= sockets * cores / 16
    assert usual_memory_mib(memory_gib) < memory_gib * 1024 / 2


def test_override_counts_only_for_its_node() -> None:
    nodes = load(ROOT / "blueprints" / "dgx-h100-32.yaml").cluster.by_name
    assert nodes["gpu017"].memory_mib == 1536 * 1024
    assert nodes["gpu016"].memory_mib == 2048 * 1024
    assert nodes["gpu017"].cpus == nodes["gpu016"].cpus == 224
    assert nodes["gpu017"].gpus == nodes["gpu016"].gpus


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ"


@pytest.mark.parametrize(
    ("blueprints", "inventorys", "expected"),
    [
        ("", "", None),
        (", via: head", "", Jump("head", "10.1.0.1", "ops", (KEY,), True)),
        (", via: 10.1.0.1", "", Jump("head", "10.1.0.1", "ops", (KEY,), True)),
        (", via: gate.example.org", "", Jump("gate.example.org", "gate.example.org", "ops", (), False)),
        (
            ", via: head",
            f"access: {{user: root, via: {{host: 192.0.2.7, user: jump, host_keys: [{KEY}]}}}}\n",
            Jump("192.0.2.7", "192.0.2.7", "jump", (KEY,), False),
        ),
        (", via: head", "access: {user: root}\n", Jump("head", "10.1.0.1", "root", (KEY,), True)),
    ],
)
def test_the_jump_host(tmp_path: Path, blueprints: str, inventorys: str, expected: Jump | None) -> None:
    text = (ROOT / "tests" / "unit" / "blueprint" / "cases" / "valid.yaml").read_text()
    assert "access: {user: ops}" in text
    text = text.replace("access: {user: ops}", f"access: {{user: ops{blueprints}}}")
    (tmp_path / "small.yaml").write_text(text)
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(f"schema: 1\n{inventorys}nodes:\n  head: {{host_keys: [{KEY}]}}\n")
    assert load(tmp_path / "small.yaml", inventory).cluster.access.via == expected


def test_inserting_a_node_moves_no_other(tmp_path: Path) -> None:
    before = ROOT / "tests" / "unit" / "blueprint" / "cases" / "valid.yaml"
    after = tmp_path / "more.yaml"
    more = "  a01: {functions: [worker], hardware: rehearsal-node, addresses: 10.1.0.99}\n"
    after.write_text(before.read_text().replace("nodes:\n", f"nodes:\n{more}", 1))
    old, new = load(before).cluster.by_name, load(after).cluster.by_name
    assert {name: new[name] for name in old} == old


def test_inserting_a_node_moves_no_address_that_was_chosen(tmp_path: Path) -> None:
    before = ROOT / "tests" / "unit" / "blueprint" / "cases" / "networks.yaml"
    after = tmp_path / "more.yaml"
    more = "  a[01-09]: {functions: [worker], hardware: rehearsal-node}\n"
    after.write_text(before.read_text().replace("nodes:\n", f"nodes:\n{more}", 1).replace("w[01-04]", "w[01-06]"))
    old, new = load(before).cluster.by_name, load(after).cluster.by_name
    assert {name: (new[name].address, new[name].addresses) for name in old} == {
        name: (node.address, node.addresses) for name, node in old.items()
    }
    assert old["w01"].addresses["ipoib"].rpartition(".")[2] == old["w01"].address.rpartition(".")[2]


def test_networks_are_in_the_cluster() -> None:
    cluster = load(ROOT / "tests" / "unit" / "blueprint" / "cases" / "networks.yaml").cluster
    assert cluster.networks[0] == cluster.network
    assert [network.name for network in cluster.networks] == ["mgmt", "ipoib", "bmc", "campus"]
    assert (cluster.network.vlan, cluster.network.gateway, cluster.network.bond) == (20, "10.1.0.1", "802.3ad")
    assert cluster.by_name["head"].addresses.keys() == {"bmc"}  # not on compute; campus is the site's to give
    assert (cluster.by_name["w01"].fabrics, cluster.by_name["head"].fabrics) == (
        ("compute", "inband", "oob"),
        ("inband", "oob"),
    )


def test_keys_are_read_from_files_beside_the_blueprint(tmp_path: Path) -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ"
    (tmp_path / "ada.pub").write_text(f"# laptop\n{key} ada@laptop\n\n")
    cases = ROOT / "tests" / "unit" / "blueprint" / "cases"
    blueprint = tmp_path / "small.yaml"
    blueprint.write_text((cases / "valid.yaml").read_text().replace("uid: 2001", f"uid: 2001, keys: [ada.pub, {key}]"))
    assert load(blueprint).cluster.users[0].keys == (f"{key} ada@laptop", key)


def text(cluster: Cluster) -> str:
    data = plain(dataclasses.asdict(cluster))
    for test in (data["acceptance"] or {}).get("tests", ()):
        del test["program"]["text"]  # a file, not a value
    data["services"] = {name: one for name, one in data["services"].items() if one["on"] or one["external"]}
    return str(yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=120))


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else value
