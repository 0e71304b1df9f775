"""Networks, jump hosts and BMCs of a site's files: what is written from them is a valid cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.cli import run
from hpcforge.cluster import load
from hpcforge.starter.machines import SiteAccess, SiteMachine, note_of
from hpcforge.starter.site_networks import around, inventory_parts, on_one_network, way_in, with_networks
from tests.unit.starter.readers import test_ansible, test_hosts

HOSTS = """\
192.168.7.210 mgt mgt.hpc.org
192.168.7.6 c1   # "odd": {fan}
192.168.7.4 c2
192.168.70.1 mgt-ib
192.168.70.6 c1-ib
192.168.90.6 c1-mgmt
172.16.0.6 c1-ipmi
203.0.113.9 mgt-pub
192.168.7.66 c1-10g
192.0.2.4 jump
192.168.7.250 sw1
"""


def written(folder: Path, text: str, name: str, *options: str) -> Path:
    (folder / name).write_text(text)
    file = folder / "site.yaml"
    assert run(["init", str(file), "--from", str(folder / name), *options]) == 0
    return file


@pytest.mark.parametrize("text", [form.text for form in test_hosts.FORMS.values()], ids=test_hosts.FORMS)
def test_each_form_of_a_hosts_file_is_a_valid_cluster(text: str, tmp_path: Path) -> None:
    load(written(tmp_path, text, "hosts", "--from-format", "hosts"))


@pytest.mark.parametrize("text", [form.text for form in test_ansible.FORMS.values()], ids=test_ansible.FORMS)
def test_each_form_of_an_inventory_is_a_valid_cluster(text: str, tmp_path: Path) -> None:
    load(written(tmp_path, text, "inventory", "--from-format", "ansible"))


def test_networks_jump_host_and_bmcs_of_a_hosts_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, HOSTS, "hosts")
    shown = capsys.readouterr().err
    assert f"{tmp_path}/hosts:11: left out: 192.168.7.250 sw1: no machine of a cluster (sw)\n" in shown
    text = file.read_text()
    assert "  mgmt: {cidr: 192.168.7.0/24, boot: true}   # guess: boot" in text
    assert '  ib: {cidr: 192.168.70.0/24, nodes: "c1,mgt"}   # guess: the prefix\n' in text
    assert "  mgmt-2: {cidr: 192.168.90.0/24, nodes: c1}   # guess: the prefix\n" in text
    assert "  pub: {cidr: 203.0.113.0/24, nodes: mgt, external: true}   # guess: the prefix\n" in text
    cluster = load(file).cluster
    assert cluster.by_name["c1"].addresses == {"ib": "192.168.70.6", "mgmt-2": "192.168.90.6"}
    assert (cluster.by_name["c1"].bmc and cluster.by_name["c1"].bmc.address) == "172.16.0.6"
    assert cluster.by_name["c1"].note == '10g 192.168.7.66; "odd": {fan}'
    assert cluster.access.via
    assert (cluster.access.via.name, cluster.access.via.address) == ("192.0.2.4", "192.0.2.4")
    assert {node.name for node in cluster.nodes} == {"mgt", "c1", "c2"}


def test_account_jump_host_and_folders_of_an_inventory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text("ansible_user: x\n")
    text = "[compute]\nn[1:2]\n[all:vars]\nansible_user=rocky\nansible_ssh_common_args='-J ada@192.0.2.4'\n"
    file = written(tmp_path, text, "inventory")
    assert f"{tmp_path}/inventory: left out: group_vars/ all.yml: not read" in capsys.readouterr().err
    assert "access: {user: rocky, become: sudo, via: {host: 192.0.2.4, user: ada}}" in file.read_text()
    assert load(file).cluster.access.user == "rocky"
    other = tmp_path / "other"
    other.mkdir()
    assert "access: {user: eve," in written(other, text, "inventory", "--user", "eve").read_text()


@pytest.mark.parametrize("via", ["n1", "10.0.0.1", "ada@10.0.0.1"])
def test_a_jump_host_that_is_a_machine_has_its_name(via: str) -> None:
    assert way_in(SiteAccess(via=via), "ops", [SiteMachine("n1", "10.0.0.1")]) == ", via: n1"


def test_a_jump_host_has_its_account_where_that_is_another() -> None:
    assert way_in(SiteAccess(via="ops@gate.hpc.org"), "ops", []) == ", via: gate.hpc.org"
    assert way_in(SiteAccess(via="ada@gate.hpc.org"), "ops", []) == ", via: {host: gate.hpc.org, user: ada}"
    assert way_in(SiteAccess(), "ops", []) == ""


def test_the_smallest_network_has_no_machine_at_its_ends() -> None:
    assert str(around(["10.0.0.1", "10.0.0.254"])) == "10.0.0.0/24"
    assert str(around(["10.0.0.255", "10.0.0.1"])) == "10.0.0.0/23"
    assert str(around(["10.0.2.0"])) == "10.0.0.0/22"
    assert around(["10.0.0.1", "11.0.0.1"]) is None


def test_machines_outside_the_network_of_most_keep_their_addresses_on_another() -> None:
    machines = [SiteMachine("n1", "172.1.1.1"), SiteMachine("n2", "172.1.1.2"), SiteMachine("l1", "10.0.0.100")]
    alone = on_one_network(machines)
    assert [machine.address for machine in alone] == ["172.1.1.1", "172.1.1.2", None]
    assert alone[2].addresses == {"net-10-0-0": "10.0.0.100"}
    assert on_one_network(machines[:2]) == tuple(machines[:2])


def test_addresses_without_a_network_of_their_own_are_notes() -> None:
    machine = SiteMachine("n1", "10.0.0.1", addresses={"ib": "10.0.0.7", "10G": "10.1.0.7"}, bmc="10.2.0.7", note="old")
    lines, [fitted] = with_networks([machine], "10.0.0.0/24")
    assert lines == ["net-10g: {cidr: 10.1.0.0/24, nodes: n1}   # guess: the prefix"]
    parts = ', addresses: {net-10g: 10.1.0.7}, bmc: {address: 10.2.0.7}, note: "ib 10.0.0.7; old"'
    assert inventory_parts(fitted) == parts


def test_a_public_network_is_the_sites() -> None:
    machine = SiteMachine("n1", "10.0.0.1", addresses={"uni": "130.1.2.3", "ib": "10.1.0.7"})
    lines, _ = with_networks([machine], "10.0.0.0/24")
    assert ["external: true" in line for line in lines] == [True, False]


def test_a_note_is_one_line_of_bounded_length() -> None:
    assert note_of(["", "a\x1b[2J\n", ""]) == "a [2J "
    assert note_of([""]) is None
    assert len(note_of(["x" * 500]) or "") == 200
