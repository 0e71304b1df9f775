"""An Ansible inventory: each form that sites have becomes machines and the way in, or is named as left out."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcforge.starter.machines import StarterError
from hpcforge.starter.readers import read
from hpcforge.starter.readers.ansible import read_ansible
from tests.unit.starter.readers.test_hosts import SECRET, Form, described

INI = """\
[slurm_controller]
ctl ansible_host=10.5.0.1
[gpu]
g[01:03]
g03 ansible_host=10.5.1.3 ansible_user=root
[gpu:vars]
x=1
"""
YAML = """\
all:
  children:
    workers:
      hosts:
        a1: {ansible_host: 10.6.0.1}
        a2:
    nfs:
      hosts: {store: }
"""

# In our own words, after these public inventories: NVIDIA/deepops config.example/inventory and slurm-perf/inventory;
# kubernetes-sigs/kubespray inventory/sample (INI, YAML) and inventory.example; stackhpc/ansible-slurm-appliance
# environments/.stackhpc/inventory/hosts.yml, .caas/inventory/groups, vtest and nrel-proto; stackhpc/tf-demo and
# ansible-lustre inventory.tpl; oracle-quickstart/oci-hpc inventory.tpl; ilifu/slurm_training_cluster inventory.ini.tpl;
# ceph/ceph-ansible tests/functional/all_daemons/hosts; galaxyproject's slurm role (slurmservers, slurmexechosts);
# BlueBanquise's data model (bmc, network_interfaces); ansible-core's output of `ansible-inventory --list`.
FORMS = {
    "deepops": Form(
        "[all]\nm1 ansible_host=10.0.0.1\nl1 ansible_host=10.0.1.1\ng1 ansible_host=10.0.2.1\n"
        "g2 ansible_host=10.0.2.2\n"
        "[kube-master]\nm1\nl1\n[kube-node]\ng1\n[slurm-master]\nl1\n[slurm-node]\ng1\ng2\n"
        "[slurm-cluster:children]\nslurm-master\nslurm-node\n[nfs-server]\nl1\n[nfs-clients:children]\nslurm-node\n"
        "[all:vars]\nansible_user=ubuntu\n"
        "ansible_ssh_common_args='-o ProxyCommand=\"ssh -W %h:%p -q ubuntu@10.0.0.1\"'\n",
        {"l1": "10.0.1.1 head storage", "g1": "10.0.2.1 worker", "g2": "10.0.2.2 worker"},
        {2: "no group shows its function: kube-master", 9: "no such feature", 21: "no such feature"},
        "ubuntu@10.0.0.1",
    ),
    "kubespray": Form(
        "[all]\nnode1 ansible_host=95.54.0.12 ip=10.3.0.1 etcd_member_name=etcd1\n"
        "node2 ansible_host=95.54.0.13 ip=10.3.0.2 access_ip=10.3.0.2\n"
        "bastion ansible_host=192.0.2.1 ansible_user=some\n"
        "[kube_control_plane]\nnode1\n[etcd:children]\nkube_control_plane\n[kube_node]\nnode1\n"
        "node2\n[bastion]\nbastion\n",
        {"node1": "95.54.0.12 head worker ip=10.3.0.1", "node2": "95.54.0.13 worker ip=10.3.0.2"},
        {2: "no key for", 7: "no such feature"},
        "some@192.0.2.1",
    ),
    "kubespray in YAML": Form(
        "all:\n  vars: &v\n    ansible_user: ubuntu\n  hosts:\n    node1: {ansible_host: 10.9.0.1, ip: 10.9.0.1}\n"
        "    node2: {ip: 10.9.0.2, ansible_ssh_host: 10.8.0.2}\n  children:\n    slurm-master: {hosts: {node1: }}\n"
        "    slurm-node: {hosts: {node2: }}\n"
        "    k8s-cluster: {children: {kube-node: {hosts: {node1: }}}}\n  more: *v\n",
        {"node1": "10.9.0.1 head", "node2": "10.8.0.2 worker ip=10.9.0.2"},
        {2: "not a part of the group all", 10: "no such feature"},
    ),
    "slurm appliance": Form(
        'localhost ansible_connection=local ansible_python_interpreter="/usr/bin/env python"\n'
        "; the cloud's instances\n"
        '[control]\nd-control ansible_host="10.3.0.4" instance_id=0f\n[login]\nd-login-[0:1]\n'
        "[compute]\nd-compute-[0:6:2]\n"
        "rack[a:c]-gpu\ncn[08:10]\n[nfs:children]\ncluster\n[cluster:children]\ncontrol\nlogin\ncompute\n",
        {
            "d-control": "10.3.0.4 head",
            **{f"d-login-{number}": "- login" for number in (0, 1)},
            **{f"d-compute-{number}": "- worker" for number in (0, 2, 4, 6)},
            **dict.fromkeys(("racka-gpu", "rackb-gpu", "rackc-gpu", "cn08", "cn09", "cn10"), "- worker"),
        },
        {1: "runs on|no key", 4: "no key"},
    ),
    "slurm appliance in YAML": Form(
        "all:\n  vars: {openhpc_cluster_name: d}\ncontrol:\n  hosts:\n    d-control: {ansible_host: 192.168.3.37}\n"
        "d_standard:\n  hosts:\n    d-compute-0: {ansible_host: 192.168.3.89}\ncompute:\n"
        "  children:\n    d_standard:\n",
        {"d-control": "192.168.3.37 head", "d-compute-0": "192.168.3.89 worker"},
        {2: "no key", 7: "no such feature"},
    ),
    "clouds": Form(
        "[bastion]\nb ansible_host=192.0.2.7 ansible_user=opc role=bastion\n[slurm_backup]\n[compute_configured]\n"
        "c1 ansible_host=10.1.0.1 ansible_user=ubuntu\nc2 ansible_host=10.1.0.2 ansible_user=ubuntu\n[nfs]\nc1\n"
        f"[compute:children]\ncompute_configured\n[all:vars]\nansible_connection=ssh\nadmin_password = {SECRET}\n",
        {"c1": "10.1.0.1 storage worker", "c2": "10.1.0.2 worker"},
        {2: "no key", 13: "secret"},
        "opc@192.0.2.7",
    ),
    "ceph": Form(
        "[mons]\nmon0 monitor_address=192.168.1.10\n[osds]\n"
        "osd0 osd_crush_location=\"{ 'root': 'HDD', 'host': 'osd0' }\"\n"
        "[mdss]\nmds0\nosd0\n",
        {"mon0": "- worker monitor=192.168.1.10", "osd0": "- storage", "mds0": "- storage"},
        {1: "no such feature", 4: "no key"},
    ),
    "galaxy": Form(
        "[slurmservers]\nhead.hpc.org\n[slurmexechosts]\nc[1:2].hpc.org\n[slurmdbdservers]\ndb.hpc.org\n",
        {"head": "- head", "c1": "- worker", "c2": "- worker"},
        {2: "domain", 6: "no group shows"},
    ),
    "controllers and other networks": Form(
        "[compute]\nn1 ansible_host=10.0.0.1 bmc_address=10.1.0.1 ib_ip=10.2.0.1\n"
        "n2 ansible_host=10.0.0.2 ipmi_host=10.1.0.2\n"
        f"n3 ansible_host=10.0.0.3 ilo=10.1.0.3 ilo_password={SECRET}\nn4 ansible_host=10.0.0.4 idrac_ip=n4-idrac\n",
        {
            "n1": "10.0.0.1 worker ib=10.2.0.1 bmc=10.1.0.1",
            "n2": "10.0.0.2 worker bmc=10.1.0.2",
            "n3": "10.0.0.3 worker bmc=10.1.0.3",
            "n4": "10.0.0.4 worker",
        },
        {4: "secret", 5: "no key"},
    ),
    "interfaces as lists": Form(
        "x-usual: &usual {ansible_user: rocky}\nmg_computes:\n  hosts:\n    node001:\n      <<: *usual\n"
        "      bmc: {name: node001-bmc, ip4: 10.10.103.1}\n      network_interfaces:\n"
        "        - {interface: eth1, ip4: 10.10.3.1, network: net-admin}\n        - {interface: eth0, skip: true}\n"
        "        - {interface: ib0, ip4: 10.20.3.1}\n    node002: *usual\n",
        {"node001": "10.10.3.1 worker ib0=10.20.3.1 bmc=10.10.103.1", "node002": "- worker"},
        {1: "not a part of the group"},
    ),
    "list of ansible-inventory": Form(
        json.dumps(
            {
                "_meta": {"hostvars": {"ctl": {"ansible_host": "10.5.0.1"}, "g1": {"ansible_password": SECRET}}},
                "all": {"children": ["ungrouped", "slurm_controller", "slurm_compute"]},
                "slurm_compute": {"hosts": ["g1", "g2"]},
                "slurm_controller": ["ctl"],
            },
            indent=4,
        ),
        {"ctl": "10.5.0.1 head", "g1": "- worker", "g2": "- worker"},
        {8: "secret"},
    ),
    "a master by name, another by group": Form(
        "[slurm-master]\nlogin01\n[slurm-node]\nmaster07\n[nodes]\nx1\n[masters]\nhead09\n",
        {"login01": "- head", "master07": "- worker"},
        {6: "no group shows its function: nodes", 8: "no group shows its function: masters"},
    ),
    "two controllers": Form(
        "[slurm_control]\nc1\nc2\n[slurm_compute]\nn[1:2]\n",
        {"c1": "- head", "c2": "- head", "n1": "- worker", "n2": "- worker"},
        {3: "second controller"},
    ),
    "a controller and a head of logins": Form(
        "[slurm_controller]\ncontroller\n[slurm_headnode]\nlogin\n[slurm_compute]\nn[1:2]\n[ldap]\nldap\n",
        {"controller": "- head", "login": "- login", "n1": "- worker", "n2": "- worker"},
        {3: "no such feature", 8: "no group shows"},
    ),
    "a jump host by its name": Form(
        "[gateways]\nbastion ansible_host=192.0.2.1 ansible_user=ada\njump2\n[compute]\nn[1:2]\n"
        "[compute:vars]\nansible_ssh_common_args=-J bastion\n",
        {"n1": "- worker", "n2": "- worker"},
        {3: "second jump host"},
        "ada@192.0.2.1",
    ),
    "a login node as the jump host": Form(
        "[login]\nl1 ansible_host=10.0.0.9\n[compute]\nn[1:2]\n[compute:vars]\n"
        "ansible_ssh_common_args='-J ops@10.0.0.9'\n",
        {"l1": "10.0.0.9 login", "n1": "- worker", "n2": "- worker"},
        via="ops@10.0.0.9",
    ),
    "two values": Form(
        "[compute]\nn1 ansible_host=10.0.0.1\n[gpu]\nn1 ansible_host=10.0.0.2\nn1 ansible_host=10.0.0.3\n",
        {"n1": "10.0.0.3 worker"},
        {5: "line [24] has another value, which"},
    ),
    "a range of addresses": Form(
        "[compute]\nn[1:3] ansible_host=10.0.0.[1:3]\n",
        {"n1": "- worker", "n2": "- worker", "n3": "- worker"},
        {2: "not the address of one machine"},
    ),
    "without groups": Form(
        "head ansible_host=10.0.0.1\n10.0.0.2\n10.0.0.3:2222\n",
        {"head": "10.0.0.1 head", "node-10-0-0-2": "10.0.0.2 worker", "node-10-0-0-3": "10.0.0.3 worker"},
        {3: "no key"},
    ),
    "what is no node": Form(
        "[compute]\nn1 ansible_connection=local\n[local]\nme ansible_connection=local\n[switches]\n"
        "leaf-a ansible_connection=network_cli\ncore1\n"
        "[windows]\nw1 ansible_connection=winrm\n[other]\npdu3\nldap1\n",
        {"n1": "- worker"},
        {2: "too", 4: "runs on", 6: "'network_cli'", 7: "switch", 9: "'winrm'", 11: "pdu", 12: "no group shows"},
    ),
    "ports, keys and passwords": Form(
        "[compute]\nn1 ansible_port=2222\nn2 ansible_port=22\n[all:vars]\nansible_become=true\n"
        "ansible_become_method=su\n"
        f"ansible_ssh_private_key_file=~/{SECRET}.pem\nansible_become_password={SECRET}\nvault_db: {SECRET}\n",
        {"n1": "- worker", "n2": "- worker"},
        {2: "no key", 6: "no key", 7: "a key", 8: "secret", 9: "secret"},
    ),
    "encrypted values": Form(
        f"compute:\n  hosts: {{n1: }}\n  vars:\n    colour: !vault |\n"
        f"      $ANSIBLE_VAULT;1.1;AES256\n      {SECRET}\n",
        {"n1": "- worker"},
        {4: "secret"},
    ),
    "addresses that are none": Form(
        "[compute]\nn1 ansible_host=n1.hpc.org\nn2 ansible_host=\"{{ hostvars['x']['ip'] }}\"\n"
        "n3 ansible_host=127.0.0.1\n"
        "n4 ansible_host=10.0.0.4\nn5 ansible_host=10.0.0.4\nn_6 ansible_host=10.0.0.6\n"
        "[2001:db8::1]\n#n7 ansible_host=10.0.0.7\n",
        {
            "n1": "- worker",
            "n2": "- worker",
            "n3": "- worker",
            "n4": "10.0.0.4 worker",
            "n5": "- worker",
            "n-6": "10.0.0.6 worker",
        },
        {
            2: "not the address",
            3: "template",
            4: "not the address",
            6: "belongs to n4, line 5",
            7: "underscore",
            8: "not a host name",
            9: "commented out",
        },
    ),
    "lines that cannot be read": Form(
        "[compute]\nn1\nn2 x='open\nn3 stray y=1\nn4 n5\n",
        {"n1": "- worker", "n3": "- worker"},
        {3: "cannot be read", 4: "not variables|no key", 5: "no host"},
    ),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_each_form_is_taken_or_named(form: Form) -> None:
    site = read(form.text, "ansible")
    assert {machine.name: described(machine) for machine in site.machines} == form.machines
    assert {left_out.line for left_out in site.left_out} == set(form.left_out)
    for left_out in site.left_out:
        assert re.search(form.left_out[left_out.line], left_out.reason)
    assert site.access.via == form.via
    assert SECRET not in repr(site)


def test_jump_hosts_of_a_group_of_a_host_and_of_all() -> None:
    text = "[compute]\nn[1:3]\n[login]\nl1 ansible_ssh_common_args='-J ada@10.9.0.9'\n"
    text += "[compute:vars]\nansible_ssh_extra_args='-J 10.9.0.1'\n"
    site = read(text, "ansible")
    assert site.access.via == "10.9.0.1"
    assert [(each.line, each.text) for each in site.left_out] == [(4, "ada@10.9.0.9")]
    part = read("[a]\nn1\nn2\n[b]\nn1\n[b:vars]\nansible_ssh_proxy_command='ssh -W %h:%p 10.9.0.1'\n", "ansible")
    assert part.access.via == "10.9.0.1"
    assert [(each.line, each.reason.partition(":")[0]) for each in part.left_out] == [
        (4, "its nodes have no such feature or partition"),
        (7, "not for n2 here"),
    ]


def test_groups_of_ansible_say_functions() -> None:
    machines = {machine.name: machine for machine in read(INI).machines}
    assert list(machines) == ["ctl", "g01", "g02", "g03"]
    assert machines["ctl"].functions == ("head",)
    assert machines["g03"].address == "10.5.1.3"
    assert [(machine.name, machine.address, machine.functions) for machine in read(YAML).machines] == [
        ("a1", "10.6.0.1", ("worker",)),
        ("a2", None, ("worker",)),
        ("store", None, ("storage",)),
    ]


def test_a_group_is_a_statement_and_a_name_a_hint() -> None:
    site = read("[slurm_control]\nzeus\n[all]\nlogin01\nw1\n", "ansible")
    assert [(machine.functions, machine.guesses) for machine in site.machines] == [
        (("head",), ()),
        (("login",), ("functions",)),
        (("worker",), ("functions",)),
    ]


def test_the_account_of_most_machines_is_that_of_all_and_others_are_named() -> None:
    text = (
        "[compute]\na1\na2\na3 ansible_user=root\n[compute:vars]\nansible_user=rocky\n[all:vars]\nansible_ssh_user=x\n"
    )
    site = read(text, "ansible")
    assert site.access.user == "rocky"
    assert [(left_out.line, left_out.text) for left_out in site.left_out] == [(4, "a3 ansible_user=root")]
    wrong = read("[compute]\na1 ansible_user='{{ me }}'\na2 ansible_user=Administrator\n", "ansible")
    assert wrong.access.user is None
    assert [left_out.line for left_out in wrong.left_out] == [2, 3]


@pytest.mark.parametrize(
    ("hosts", "user"),
    [
        ("w1 ansible_user=alice\nw2\nw3\nw4\n", None),
        ("w1 ansible_user=root\nw2\n", None),
        ("w1 ansible_user=alice\nw2 ansible_user=bob\n", None),
        ("w1 ansible_user=alice\nw2 ansible_user=alice\nw3\n", "alice"),
        ("w1 ansible_user=root\n", "root"),
    ],
)
def test_an_account_of_some_hosts_alone_is_named_and_not_that_of_all(hosts: str, user: str | None) -> None:
    site = read(f"[compute]\n{hosts}", "ansible")
    assert site.access.user == user
    assert {each.text.partition("=")[0] for each in site.left_out} == (
        set() if user else {f"w{number} ansible_user" for number in range(1, 1 + hosts.count("="))}
    )
    assert site.access.guesses == (("user, of which w3 says nothing",) if "w3\n" in hosts and user else ())


def test_macs_and_serial_numbers_go_to_the_inventory_and_accounts_without_sudo_are_taken() -> None:
    text = "[compute]\nw1 mac_address=02-00-00-00-00-AB serial_number=S1\nw2 mac=02:00:00:00:00:ac serial=S2\n"
    site = read(f"{text}[all:vars]\nansible_become=no\n", "ansible")
    assert [(machine.mac, machine.serial) for machine in site.machines] == [
        ("02:00:00:00:00:ab", "S1"),
        ("02:00:00:00:00:ac", "S2"),
    ]
    assert (site.access.become, [each.text for each in site.left_out]) == (False, ["ansible_become"])
    assert read(f"{text}[control]\nh ansible_become=no\n", "ansible").access.become
    assert [each.text for each in read("[compute]\nw1 mac=x\n", "ansible").left_out] == ["mac"]


def test_groups_that_say_more_than_a_function_are_named_once_with_their_line() -> None:
    text = "[control]\nh\n[compute]\nw1\nw2\n[highmem]\nw2\n[rack_a]\nw1\n[partition_gpu]\nw1\n[etcd]\nh\n"
    text += "[cluster:children]\ncontrol\ncompute\n[racks:children]\nrack_a\nrack_b\n[switches]\nleaf\n"
    left_out = {each.text: each.line for each in read(text, "ansible").left_out}
    assert left_out == {
        **{"the group highmem": 6, "the group rack_a": 8, "the group partition_gpu": 10, "the group etcd": 12},
        **{"the group racks": 17, "rack_b": 19, "leaf": 21},
    }


def test_children_in_a_loop_are_named() -> None:
    text = "[compute]\nw1\n[a:children]\nb\n[b:children]\na\ncompute\n[c:children]\nc\n"
    site = read(text, "ansible")
    assert [machine.name for machine in site.machines] == ["w1"]
    assert [(each.line, each.text) for each in site.left_out if "loop" in each.reason] == [(4, "b"), (6, "a"), (9, "c")]


def test_folders_of_variables_beside_an_inventory_are_named() -> None:
    there = {"group_vars/": "all.yml slurm.yml", "ansible.cfg": "[defaults]\nremote_user=x\n"}
    left_out = read("[compute]\nn1\n", "ansible", there.get).left_out
    assert [(each.line, each.text) for each in left_out] == [(0, "group_vars/ all.yml slurm.yml"), (0, "ansible.cfg")]
    assert "not read" in left_out[0].reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#!/usr/bin/env python3\nimport os\n", "a program, which is not run here"),
        ("$ANSIBLE_VAULT;1.1;AES256\n6162\n", "encrypted"),
        ("# clouds\n---\nplugin: amazon.aws.aws_ec2\nregions: [x]\n", "settings of a plugin"),
        ("all: &a\n  hosts: {a1: }\nb: *a\n", "line 1: its YAML has aliases"),
        ("a:\n  hosts: &h {a1: }\nb:\n  hosts: *h\n", "line 2: its YAML has aliases"),
        ("a: &a\n  children:\n    b: *a\n", "line 1: its YAML has aliases"),
        ("a: " + "{children: {a: " * 25 + "{}" + "}}" * 25, "nested more than 20 deep"),
        ("".join(f"[g{number}]\n" for number in range(1200)), "more than 1000 groups"),
        ("[g]\nw[1:99999999]\n", "more than 10000 machines"),
        ("[g]\n[a:z][a:z][a:z][a:z]\n", "more than 10000 machines"),
        ("[g]\nn1.a.org\nn1.b.org\n", "n1 is there twice: n1.a.org in line 2, n1.b.org in line 3"),
        ("- hosts: all\n  tasks: []\n", "a list, as playbooks are"),
        ("[g]\nn1\n[open\nn2\n", r"line 3: '\[open' is not a heading"),
        ("[g]\n[a:b:c]\n", r"line 2: '\[a:b:c\]' is not a heading"),
        ("[g:hosts]\nn1\n", "line 1: .* is not a heading"),
        ("node,ip\nn1,10.0.0.1\n", "line 1: a comma"),
        ("n[1-3]\nn[4,6],n8\n", "line 2: a comma"),
        ("head admin=1\nnode[001-010] all,compute,cpu=64\n", "line 2: a comma"),
        ("[g]\n\n{{ x }}\n", "line 3: .*no host and its variables"),
    ],
)
def test_a_wrong_inventory_is_refused(text: str, reason: str) -> None:
    with pytest.raises(StarterError, match=reason):
        read(text, "ansible")


def test_aliases_that_stand_for_endless_many_values_end() -> None:
    laughs = ["a0: &a0 [lol]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20))]
    text = "\n".join(["compute:", "  hosts: {n1: {x: *a19}}", *laughs])
    with pytest.raises(StarterError, match="not YAML"):  # an alias before its anchor
        read(text, "ansible")
    site = read("\n".join(["compute:", "  hosts: {n0: }", "  vars:", *(f"    {line}" for line in laughs)]), "ansible")
    assert [machine.name for machine in site.machines] == ["n0"]
    many = ", ".join(f"k{n}: 1" for n in range(1000))
    hosts = "".join(f"    n{n}: *many\n" for n in range(1, 2000))
    with pytest.raises(StarterError, match="stands for more than"):
        read(f"compute:\n  hosts:\n    n0: &many {{{many}}}\n{hosts}", "ansible")


GROUPS = ("all", "compute", "slurm-master", "kube-master", "nfs", "bastion", "switches", "ungrouped", "x")
HOSTS = ("n1", "n2", "gpu[1:2]", "login", "head.hpc.org", "sw1", "bastion", "n_3", "9p", "localhost", "10.0.0.9")
ENDS = ("", " ansible_host=10.0.0.1", " ansible_host=n1 ip=10.0.0.2", " ilo=10.0.0.3", " x", " 'y", " ; z")
HOST_LINES = st.builds("{}{}".format, st.sampled_from(HOSTS), st.sampled_from(ENDS))


@given(st.lists(st.tuples(st.sampled_from(GROUPS), st.lists(HOST_LINES, max_size=3)), min_size=1, max_size=5))
def test_every_host_is_somewhere(groups: list[tuple[str, list[str]]]) -> None:
    text = "".join(f"[{name}]\n" + "".join(f"{line}\n" for line in lines) for name, lines in groups)
    site = read_ansible(text)
    machines = {machine.name for machine in site.machines}
    named = " ".join(left_out.text for left_out in site.left_out)
    for line in (line for _, lines in groups for line in lines):
        name = line.split()[0]
        names = [f"gpu{n}" for n in (1, 2)] if "[" in name else [name]
        for host in names:
            short = "node-10-0-0-9" if host == "10.0.0.9" else host.partition(".")[0].replace("_", "-")
            assert short in machines or host in named or name in named or (site.access.via and "bastion" in text)
