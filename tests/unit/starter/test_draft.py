"""Templates and machines become a blueprint that validates and compiles."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.cluster import load
from hpcforge.starter.accounts import SiteAccounts
from hpcforge.starter.draft import OF_MACHINES, Answers, become, draft, templates
from hpcforge.starter.machines import SiteFile, StarterError, of_facts, with_head
from hpcforge.starter.readers import read
from tests.unit.starter.readers.test_ansible import INI, YAML
from tests.unit.starter.readers.test_hosts import HOSTS
from tests.unit.starter.readers.test_readers import SLURM
from tests.unit.starter.test_machines import FACTS, TOPOLOGY

TEMPLATES = templates()
ANSWERS = Answers("first", "first.internal", "ops", "10.20.0.0/22", 4, "")


def written(folder: Path, texts: tuple[str, str]) -> Path:
    (folder / "first.yaml").write_text(texts[0])
    (folder / "first.inventory.yaml").write_text(texts[1])
    return folder / "first.yaml"


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name != OF_MACHINES])
@pytest.mark.parametrize("workers", [1, 120])
def test_each_template_is_a_valid_cluster(name: str, workers: int, tmp_path: Path) -> None:
    template = TEMPLATES[name]
    answers = Answers("first", "first.internal", "ops", "10.20.0.0/22", workers, template.server)
    cluster = load(written(tmp_path, draft(template, answers, "first.inventory.yaml"))).cluster
    gpus = [node for node in cluster.nodes if node.gpus]
    assert len(gpus) == (workers if "{{ workers }}" in template.text else 1)
    assert cluster.acceptance
    assert len({node.address for node in cluster.nodes}) == len(cluster.nodes)


@pytest.mark.parametrize("text", [SLURM, HOSTS, INI, YAML])
def test_machines_of_a_site_are_a_valid_cluster(text: str, tmp_path: Path) -> None:
    site = read(text)
    machines = site.machines
    network = f"10.{machines[0].address.split('.')[1]}.0.0/16" if machines[0].address else "10.5.0.0/16"
    answers = Answers("first", "first.internal", "ops", network, 0, "")
    cluster = load(written(tmp_path, draft(TEMPLATES[OF_MACHINES], answers, "first.inventory.yaml", site))).cluster
    assert {node.name for node in cluster.nodes} == {machine.name for machine in machines}
    known = {machine.name: machine.address for machine in machines if machine.address}
    assert known.items() <= {node.name: node.address for node in cluster.nodes}.items()
    assert sum("head" in node.functions for node in cluster.nodes) == 1


@pytest.mark.parametrize("limit", ["5", "00:10:00", "1:00:00", "7-0"])
@pytest.mark.parametrize("nodes", ["ALL", "c[1-2]", "c1"])
@pytest.mark.parametrize("other", ["", "PartitionName=long Nodes=ALL MaxTime=7-0\n", "PartitionName=x Nodes=c2\n"])
def test_a_short_partition_is_a_valid_cluster(limit: str, nodes: str, other: str, tmp_path: Path) -> None:
    """Tests that no time limit is long enough for are left out."""
    text = f"NodeName=c[1-2] CPUs=4 RealMemory=64000\nPartitionName=debug Nodes={nodes} MaxTime={limit}\n{other}"
    cluster = load(
        written(tmp_path, draft(TEMPLATES[OF_MACHINES], ANSWERS, "first.inventory.yaml", read(text)))
    ).cluster
    assert "debug" in {partition.name for partition in cluster.slurm.partitions}
    assert cluster.acceptance or limit == "5"


def test_names_that_differ_in_width_alone_are_a_valid_cluster(tmp_path: Path) -> None:
    site = read("10.20.0.1 head\n10.20.0.2 c1\n10.20.0.3 c01\n10.20.0.4 c10\n")
    cluster = load(written(tmp_path, draft(TEMPLATES[OF_MACHINES], ANSWERS, "first.inventory.yaml", site))).cluster
    assert {node.name: node.address for node in cluster.nodes}["c01"] == "10.20.0.3"


def test_a_gpu_server_of_the_catalog_is_found() -> None:
    text, _ = draft(TEMPLATES[OF_MACHINES], Answers("a", "a.b", "ops", "10.3.0.0/16", 0, ""), "i.yaml", read(SLURM))
    assert '"gpu[01-02]": {functions: [worker], hardware: dgx-h100, features: [x]}   # guess: GPU model' in text
    assert "fabric_manager: matched" in text


def test_a_network_that_is_too_small_is_refused() -> None:
    with pytest.raises(StarterError, match="no address left for g147"):
        draft(TEMPLATES["mixed"], Answers("a", "a.b", "ops", "10.0.0.0/24", 160, "gpu-4u"), "i.yaml")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "a: {b"}, "is not a cluster name"),
        ({"domain": "x y"}, "is not a lower-case domain name"),
        ({"user": "Root!"}, "is not a user name"),
        ({"network": "10.0.0.1/24"}, "network: "),
        ({"server": "dgx-h10"}, "no server dgx-h10"),
    ],
)
def test_answers_that_make_no_blueprint_are_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(StarterError, match=said):
        draft(TEMPLATES["nvlink"], Answers(**{**vars(ANSWERS), **change}), "i.yaml")  # type: ignore[arg-type]


def test_machines_that_described_themselves_leave_little_to_guess(tmp_path: Path) -> None:
    head = {"hostname": "head", "memory_kib": 33_000_000, "os_id": "debian", "os_release": "13"}
    topology = "".join(f"0,{core},{core}\n" for core in range(8))
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 42 + "A"
    machines = [
        of_facts("10.3.0.6", head, topology, (key,)),
        of_facts("10.3.0.7", FACTS | {"hostname": "gpu07"}, TOPOLOGY, (key,)),
    ]
    texts = draft(
        TEMPLATES[OF_MACHINES],
        Answers("a", "a.b", "ops", "10.3.0.0/24", 0, ""),
        "first.inventory.yaml",
        SiteFile(tuple(machines)),
    )
    cluster = load(written(tmp_path, texts)).cluster
    assert cluster.by_name["gpu07"].hardware == "dgx-h100"
    assert cluster.by_name["gpu07"].host_keys == (key,)
    assert (cluster.os.release, cluster.by_name["head"].cpus) == ("13", 8)
    assert '"gpu07": {functions: [worker], hardware: dgx-h100}   # guess: functions' in texts[0]
    assert "the distribution of the nodes" not in texts[0]
    assert "controller: head   # guess: the head, also above\n" in texts[0]
    known = draft(
        TEMPLATES[OF_MACHINES],
        Answers("a", "a.b", "ops", "10.3.0.0/24", 0, ""),
        "first.inventory.yaml",
        SiteFile(tuple(with_head(machines, "head"))),
    )
    assert "controller: head\n" in known[0]


@pytest.mark.parametrize("release", ["12", "13"])
def test_without_gpus_there_is_a_pytorch_for_each_debian(tmp_path: Path, release: str) -> None:
    plain = {"memory_kib": 33_000_000, "os_id": "debian", "os_release": release}
    topology = "".join(f"0,{core},{core}\n" for core in range(8))
    machines = [of_facts(f"10.3.0.{host}", plain | {"hostname": f"n{host}"}, topology, ()) for host in (6, 7)]
    texts = draft(
        TEMPLATES[OF_MACHINES],
        Answers("a", "a.b", "ops", "10.3.0.0/24", 0, ""),
        "first.inventory.yaml",
        SiteFile(tuple(machines)),
    )
    assert load(written(tmp_path, texts)).cluster.os.release == release
    assert "frameworks: {pytorch:" in texts[0]


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name != OF_MACHINES])
@pytest.mark.parametrize("user", ["ops", "root", "tests"])
def test_any_login_account_makes_a_valid_cluster(name: str, user: str, tmp_path: Path) -> None:
    template = TEMPLATES[name]
    answers = Answers("first", "first.internal", user, "10.20.0.0/22", 2, template.server)
    texts = draft(template, answers, "first.inventory.yaml")
    cluster = load(written(tmp_path, texts)).cluster
    assert cluster.access.become == ("none" if user == "root" else "sudo")
    assert {each.name for each in cluster.users} == {"root": {"tests"}, "tests": {"tests", "acceptance"}}.get(
        user, {"ops", "tests"}
    )
    guess = f"  {user}: {{uid: 1000, admin: true}}   # guess: the number that {user} has on the nodes: id -u {user}\n"
    assert (guess in texts[0]) == (user != "root")


def test_accounts_and_remarks_of_machines_are_written(tmp_path: Path) -> None:
    machines = read(HOSTS).machines
    odd = SiteFile((replace(machines[0], container="lxc", remarks=("also at 10.1.9.9",)), *machines[1:]))
    accounts = SiteAccounts(None, "acceptance", 1905, tests_guess="guess: it exists", missing="n1: another number")
    answers = Answers("first", "first.internal", "ops", f"{machines[0].address}/16", 0, "", network_guessed=True)
    answers = replace(answers, network=str(ipaddress.IPv4Network(answers.network, strict=False)))
    texts = draft(TEMPLATES[OF_MACHINES], answers, "first.inventory.yaml", odd, accounts)
    cluster = load(written(tmp_path, texts)).cluster
    assert [(user.name, user.uid) for user in cluster.users] == [("acceptance", 1905)]
    assert "# guess: ops is left out, and hpcforge logs in with it all the same: n1: another number\n" in texts[0]
    assert "  # guess: it exists; acceptance jobs run as this user\n" in texts[0]
    assert "   # guess: the prefix length\n" in texts[0]
    assert "  enforce: []   # guess: there are containers (lxc)" in texts[0]
    assert "   # also at 10.1.9.9\n" in texts[1]
    assert become("ops") == "sudo"


@pytest.mark.parametrize("name", ["jumphost", "jump-node", "bastion-old"])
def test_a_jump_host_by_its_name_alone_and_a_network_to_boot_from_are_guesses(name: str) -> None:
    answers = Answers("x", "x.internal", "ops", "10.0.0.0/24", 1, "")
    site = read(f"10.0.0.1 head\n10.0.0.2 {name}\n10.0.0.3 w1\n10.9.0.3 w1-ib\n")
    text, _ = draft(templates()["machines"], answers, "x.inventory.yaml", site)
    assert f"via: 10.0.0.2}}   # guess: via, by the name {name}\n" in text
    assert "boot: true}   # guess: boot\n" in text
    sure = read("[compute]\nw1 ansible_ssh_common_args='-J ada@10.0.0.2' ansible_user=rocky\nw2\n[jump]\nw9\n")
    assert sure.access.guesses == ()
    some = read("[compute]\nw1 ansible_user=ops\nw2 ansible_user=ops\nw3\n[jump]\nw9\n")
    text, _ = draft(templates()["machines"], answers, "x.inventory.yaml", some)
    assert "   # guess: user, of which w3 says nothing, via, by the name w9\n" in text
    text, _ = draft(templates()["machines"], replace(answers, user="ada"), "x.inventory.yaml", some)
    assert "   # guess: via, by the name w9\n" in text


def test_a_server_whose_nodes_share_a_domain_in_their_rack_begins_no_template() -> None:
    answers = Answers("first", "first.internal", "ops", "10.20.0.0/22", 2, "gb200-nvl72-tray")
    with pytest.raises(StarterError, match="share an NVLink domain in their rack"):
        draft(templates()["nvlink"], answers, "first.inventory.yaml")
