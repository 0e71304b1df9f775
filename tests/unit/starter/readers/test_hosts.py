"""A hosts file: each form that sites have becomes a machine, another address, the way in, or is named as left out."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcforge.starter.machines import SiteFile, SiteMachine, StarterError
from hpcforge.starter.readers import read
from hpcforge.starter.readers.hosts import read_hosts

HOSTS = """\
127.0.0.1 localhost
::1 localhost
10.4.0.10 head1 head1.example.org
10.4.0.21 w1.example.org   # spare
10.4.0.30 login
"""


SECRET = "HUNTER2"  # which no output may have


class Form(NamedTuple):
    """A text, its machines by `described`, the lines that are left out with a word of the reason, and the jump host."""

    text: str
    machines: dict[str, str]
    left_out: dict[int, str] = {}  # noqa: RUF012 - which no test changes
    via: str | None = None


def described(machine: SiteMachine) -> str:
    """A machine's address, functions, addresses on other networks, BMC and note."""
    others = [f"{network}={address}" for network, address in machine.addresses.items()]
    rest = [f"bmc={machine.bmc}" if machine.bmc else "", f"({machine.note})" if machine.note else ""]
    return " ".join(filter(None, [machine.address or "-", *machine.functions, *others, *rest]))


# Texts in our own words after: OpenHPC's install guide and its recipe's input.local (sms_ip, c_ip, c_bmc);
# xcat2/xcat-core docs/source/QA/makehosts.rst and its wiki on InfiniBand (node-ib0); warewulf/warewulf
# overlays/hosts/rootfs/etc/hosts.ww; Rocks' base roll (compute-0-0, network-0-0, c0-0); canonical/cloud-init
# templates/hosts.debian.tmpl; QLogic's FastFabric guide (suffix -ib); the hosts file of Windows; ClusterShell's and
# luna's host names (node1-ib0, node001-bmc); OpenStack's install guide; afseo/cmits hpc_cluster.
FORMS = {
    "openhpc": Form(
        "192.168.1.1 sms sms.cluster\n192.168.1.101 c1\n192.168.2.101 c1-bmc\n192.168.3.101 c1-ib0\n",
        {"sms": "192.168.1.1 head", "c1": "192.168.1.101 worker ib0=192.168.3.101 bmc=192.168.2.101"},
    ),
    "suffixes": Form(
        "10.0.0.5 n5\n10.1.0.5 n5-ilo\n10.2.0.5 n5-eth1\n10.3.0.5 n5-10g\n10.4.0.5 n5-mgmt\n10.5.0.5 n5-storage\n",
        {"n5": "10.0.0.5 worker eth1=10.2.0.5 10g=10.3.0.5 mgmt=10.4.0.5 storage=10.5.0.5 bmc=10.1.0.5"},
    ),
    "controllers of every maker": Form(
        "".join(
            f"10.0.0.{number} n{number}\n10.1.0.{number} n{number}-{word}\n"
            for number, word in enumerate(("ipmi", "bmc", "ilo", "idrac", "drac", "rsa", "imm", "oob", "xcc"), 1)
        ),
        {f"n{number}": f"10.0.0.{number} worker bmc=10.1.0.{number}" for number in range(1, 10)},
    ),
    "prefixes, letters and domains": Form(
        "10.0.0.5 n5\n10.1.0.5 ib-n5\n10.0.0.6 n6.hpc.org\n10.1.0.6 n6i\n10.2.0.6 n6.ipmi.hpc.org\n10.2.0.5 ilo-n5\n",
        {"n5": "10.0.0.5 worker ib=10.1.0.5 bmc=10.2.0.5", "n6": "10.0.0.6 worker ib=10.1.0.6 bmc=10.2.0.6"},
        {3: "domain"},
    ),
    "an owner that is not there": Form(
        "10.0.0.5 n5\n10.1.0.6 n6-ipmi\n10.2.0.6 n6-ib\n10.1.0.7 n7.bmc.hpc.org\n10.1.0.8 bmc008\n",
        {"n5": "10.0.0.5 worker"},
        {2: "n6, which", 3: "n6, which", 4: "n7, which", 5: "does not tell"},
    ),
    "owners after their addresses": Form(
        "10.1.0.5 n5-ipmi\n10.2.0.5 n5-hd\n10.3.0.5 n5.ipmi.hpc.org\n10.0.0.5 n5\n",
        {"n5": "10.0.0.5 worker hd=10.2.0.5 bmc=10.1.0.5"},
        {3: "second address"},
    ),
    "xcat": Form(
        "10.5.0.1 node1 node1.cluster.com\n20.1.1.1 node1-bond0 node1-bond0.cluster.com\n"
        "192.168.0.1 node1-hd node1-hd.cluster.com\n192.168.30.1 node1-pub node1.public.com\n",
        {
            "node1": "10.5.0.1 worker bond0=20.1.1.1 hd=192.168.0.1 pub=192.168.30.1 (pub also node1.public.com)",
        },
        {1: "domain"},
    ),
    "xcat, one name in two domains": Form(
        "10.5.0.1 node1.cluster.com\n192.168.30.1 node1.public.com\n",
        {"node1": "10.5.0.1 worker public=192.168.30.1"},
        {1: "domain", 2: "domain"},
    ),
    "owners by their other names": Form(
        "10.0.0.5 gpu-a n5\n10.1.0.5 n5-ipmi\n10.2.0.5 gpu-a-ib\n",
        {"gpu-a": "10.0.0.5 worker ib=10.2.0.5 bmc=10.1.0.5 (also n5)"},
    ),
    "numbers are no words": Form(
        "10.1.255.254 compute-0-0.local compute-0-0 c0-0\n10.1.255.253 compute-0\n10.1.255.252 rack1\n"
        "10.1.255.251 rack1-gpu\n10.9.0.1 rack1-n3\n10.1.1.1 demo\n10.1.1.2 demo-control\n",
        {
            "compute-0-0": "10.1.255.254 worker (also c0-0)",
            "compute-0": "10.1.255.253 worker",
            "rack1": "10.1.255.252 worker",
            "rack1-gpu": "10.1.255.251 worker",
            "rack1-n3": "10.9.0.1 worker",
            "demo": "10.1.1.1 worker",
            "demo-control": "10.1.1.2 head",
        },
    ),
    "another name of itself": Form(
        "10.0.0.5 lustre-oss1 oss1\n10.0.0.6 ib-n6 n6\n10.0.0.7 n7-ipmi n7\n",
        {"lustre-oss1": "10.0.0.5 storage (also oss1)"},
        {2: "n6, which", 3: "is not a machine"},
    ),
    "IPv6 alone": Form(
        "10.0.0.1 w1\n2001:db8::6 w2\nfe80::8 w4\n2001:db8::1 w1\n",
        {"w1": "10.0.0.1 worker", "w2": "- worker"},
        {2: "w2 has one that is a guess", 3: "no IPv6", 4: "no IPv6"},
    ),
    "comments with secrets": Form(
        f"10.0.0.1 w1 # root pw: {SECRET}\n10.0.0.2 w2   # api_key={SECRET}\n10.0.0.3 w3 # Passwort {SECRET}\n"
        f"# token for w4: {SECRET}\n10.0.0.4 w4 # keyboard, spare\n#10.0.0.5 w5 password {SECRET}\n",
        {
            **{f"w{number}": f"10.0.0.{number} worker" for number in (1, 2, 3)},
            "w4": "10.0.0.4 worker (keyboard, spare)",
        },
        dict.fromkeys((1, 2, 3, 4, 6), "a secret"),
    ),
    "rocks": Form(
        "# Added by rocks report host #\n127.0.0.1\tlocalhost.localdomain\tlocalhost\n"
        "10.1.1.1\thpc.local hpc frontend\n"
        "10.1.255.254\tlogin-0-0.local\n10.1.255.253\tnetwork-0-0.local\n10.1.255.252\tpower-0-0.local power-0-0\n",
        {"hpc": "10.1.1.1 head (also frontend)", "login-0-0": "10.1.255.254 login"},
        {2: "itself", 5: "network", 6: "power"},
    ),
    "warewulf": Form(
        "10.0.0.1 ww.hpc.org warewulf\n# Entry for n01\n10.0.0.2 n01 n01-default n01-eth0\n10.9.0.2  n01-ib n01-ib0\n",
        {
            "ww": "10.0.0.1 head (also warewulf)",
            "n01": "10.0.0.2 worker ib=10.9.0.2 (also n01-default n01-eth0; ib also n01-ib0)",
        },
        {1: "domain"},
    ),
    "cloud-init of ubuntu": Form(
        "# Your system has configured 'manage_etc_hosts' as True.\n127.0.1.1 me.hpc.org me\n127.0.0.1 localhost\n\n"
        "::1 localhost ip6-localhost ip6-loopback\nff02::1 ip6-allnodes\nff02::2 ip6-allrouters\n10.0.0.7 w7\n",
        {"w7": "10.0.0.7 worker"},
        {2: "this machine itself", 3: "itself"},
    ),
    "windows": Form(
        "\ufeff# Copyright (c) Microsoft Corp.\r\n#\t102.54.94.97\trhino.acme.com\t# source server\r\n"
        "10.0.0.7\tGPU07.corp.example\tgpu07\t#PRE #DOM:corp\r\n",
        {"gpu07": "10.0.0.7 worker (PRE #DOM:corp)"},
        {2: "commented out", 3: "domain"},
    ),
    "devices": Form(
        "10.0.0.1 n1\n10.0.1.1 sw1\n10.0.1.2 ibswitch02\n10.0.1.3 rack-pdu-a pdu-a1\n10.0.1.4 ups\n"
        "10.0.1.5 gw router\n"
        "10.0.1.6 fw1\n10.0.1.7 printer-2\n10.0.1.8 leaf01\n10.0.1.9 core tor-a\n10.0.1.10 swan1\n",
        {"n1": "10.0.0.1 worker", "swan1": "10.0.1.10 worker"},
        dict.fromkeys(range(2, 11), "no machine of a cluster"),
    ),
    "devices by their comments": Form(
        "10.0.0.1 n1 # behind the old switch of 2011\n10.0.1.9 core1 # switch\n# PDUs\n10.0.2.1 a1\n10.0.2.2 a2\n\n"
        "10.0.0.2 zeus # head node\n",
        {"n1": "10.0.0.1 worker (behind the old switch of 2011)", "zeus": "10.0.0.2 head (head node)"},
        {2: "switch", 4: "pdu", 5: "pdu"},
    ),
    "heads": Form(
        "10.0.0.1 xcat-mn\n10.0.0.2 admin01\n10.0.0.3 hpc-mgmt\n10.0.0.4 control\n10.0.0.5 zeus master\n10.0.0.6 n6\n",
        {
            "xcat-mn": "10.0.0.1 head",
            "admin01": "10.0.0.2 head",
            "hpc-mgmt": "10.0.0.3 head",
            "control": "10.0.0.4 head",
            "zeus": "10.0.0.5 head (also master)",
            "n6": "10.0.0.6 worker",
        },
    ),
    "jump hosts": Form(
        "10.0.0.1 bastion gate.hpc.org\n192.0.2.1 bastion-pub\n10.0.0.2 jumphost\n10.0.0.3 n3\n",
        {"n3": "10.0.0.3 worker"},
        {1: "other names", 2: "another address of the jump host", 3: "second jump host"},
        "10.0.0.1",
    ),
    "addresses that machines have not": Form(
        "10.0.0.1 n1\n0.0.0.0 ads.example.com\n255.255.255.255 broadcasthost\n169.254.0.7 n7\n"
        "224.0.0.9 all-n\n10.0.0.300 n3\n"
        "10.0.0.4/24 n4\n10.0.0.5\nn6\n",
        {"n1": "10.0.0.1 worker"},
        {
            2: "no machine has",
            3: "itself",
            4: "no machine has",
            5: "no machine has",
            6: "begin",
            7: "begin",
            8: "not an",
            9: "not an",
        },
    ),
    "ipv6": Form(
        "10.0.0.1 n1\nfd00::1 n1\nfd00::2 n2\nfe80::3%eth0 n3\n",
        {"n1": "10.0.0.1 worker", "n2": "- worker"},
        {2: "IPv6", 3: "IPv6", 4: "IPv6"},
    ),
    "one address twice": Form(
        "10.0.0.1 n1\n10.0.0.1 vhost\n10.0.0.1 n1\n",
        {"n1": "10.0.0.1 worker"},
        {2: "belongs to n1, line 1", 3: "belongs to n1, line 1"},
    ),
    "one name on two networks": Form("10.0.0.1 n1\n10.7.0.1 n1\n", {"n1": "10.0.0.1 worker net-10-7-0=10.7.0.1"}),
    "names that blueprints have not": Form(
        "10.0.0.1 node_1\n10.0.0.2 3com\n10.0.0.3 ../etc\n10.0.0.4 all\n10.0.0.5 NODE5\n",
        {"node-1": "10.0.0.1 worker", "node5": "10.0.0.5 worker"},
        {1: "underscore", 2: "not a host name", 3: "not a host name", 4: "not a host name"},
    ),
    "commented out": Form(
        "10.0.0.1 n1\n#10.0.0.2 n2  # broken\n# 10 nodes more\n",
        {"n1": "10.0.0.1 worker"},
        {2: "commented out"},
    ),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_each_form_is_taken_or_named(form: Form) -> None:
    site = read(form.text, "hosts")
    assert {machine.name: described(machine) for machine in site.machines} == form.machines
    assert {left_out.line for left_out in site.left_out} == set(form.left_out)
    for left_out in site.left_out:
        assert form.left_out[left_out.line] in left_out.reason
    assert site.access.via == form.via
    assert all(machine.guesses == ("functions",) for machine in site.machines)


def test_names_say_functions_of_hosts() -> None:
    assert [(machine.name, machine.functions) for machine in read(HOSTS).machines] == [
        ("head1", ("head",)),
        ("w1", ("worker",)),
        ("login", ("login",)),
    ]


@pytest.mark.parametrize("second", ["10.0.0.2 a", "10.0.0.2 A.example.org"])
def test_a_name_with_two_addresses_of_a_network_is_refused_with_both_lines(second: str) -> None:
    with pytest.raises(StarterError, match=r"a is there twice: 10\.0\.0\.1 in line 1, 10\.0\.0\.2 in line 3"):
        read(f"10.0.0.1 a\n10.0.0.9 b\n{second}\n")


def test_thousands_of_lines_are_read_in_seconds() -> None:
    rows = "".join(
        f"10.{n >> 8}.{n & 255}.{net} n{n}{word}\n" for n in range(2500) for net, word in ((1, ""), (2, "-ib"))
    )
    machines = read(rows).machines
    assert len(machines) == 2500
    assert machines[-1].addresses == {"ib": "10.9.195.2"}


STEMS = ("n1", "n2", "gpu03", "head", "login", "stor", "sw1", "pdu", "bastion", "rack1", "Node_4", "x", "all", "9p")
WORDS = ("", "-ib", "-ipmi", "-eth1", "-hd", "-bmc", "i", ".hpc.org", ".ipmi.hpc.org", "-login", "-2")
NAMES = st.builds(lambda prefix, stem, word: prefix + stem + word, st.sampled_from(("", "", "ib-")),
                  st.sampled_from(STEMS), st.sampled_from(WORDS))  # fmt: skip
ADDRESSES = st.one_of(
    st.builds("10.{}.0.{}".format, st.integers(0, 2), st.integers(1, 9)),
    st.sampled_from(("127.0.0.1", "127.0.1.1", "::1", "fd00::5", "fe80::1%eth0", "0.0.0.0", "1.2.3", "host")),
)
LINES = st.builds(
    lambda mark, address, names, end: f"{mark}{address}\t{' '.join(names)}{end}",
    st.sampled_from(("", "", "", "#")), ADDRESSES, st.lists(NAMES, min_size=1, max_size=3),
    st.sampled_from(("", " # spare", "\r")),
)  # fmt: skip


def places(site: SiteFile) -> str:
    """All names and addresses that are somewhere, as one text."""
    taken = [f"{machine.name} {described(machine)}" for machine in site.machines]
    return " ".join([*taken, site.access.via or "", *(left_out.text for left_out in site.left_out)]).lower()


@given(st.lists(LINES, min_size=1, max_size=8))
def test_every_name_and_address_is_somewhere(lines: list[str]) -> None:
    try:
        site = read_hosts("\n".join(lines))
    except StarterError as error:
        assert re.search(r"is there twice: \S+ in line \d+, \S+ in line \d+", str(error))
        return
    text = places(site)
    words = set(text.split()) | set(re.findall(r"[^\s=();]+", text))
    names_of = [f"{machine.name} {machine.note or ''}" for machine in site.machines]  # with other names
    owners = set(re.findall(r"[a-z0-9-]+", " ".join(names_of).lower().replace("_", "-")))
    for line in lines:
        if line.startswith("#") and not line.startswith("#10."):
            continue  # a comment
        address, *names = line.lstrip("#").partition(" #")[0].lower().split()
        assert address in words
        for name in names:
            base = name.partition(".")[0]
            owned = any(re.fullmatch(rf"(ib-)?{re.escape(owner)}(i|-.*)?", base.replace("_", "-")) for owner in owners)
            way_in = name == names[0] and site.access.via in (address, base)
            assert name in words or base in words or owned or way_in
