"""Forms of LLDP neighbours and of `ibnetdiscover` that people have: each is read, or named as left out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcforge.design.fabric.neighbour_matching import ReportedEnd
from hpcforge.verify.cabling import CablingError, heard, parse_ibnetdiscover, parse_lldp, read_saved
from tests.support.as_plugged import pair, rails

CHASSIS = {"leaf1": {"id": {"type": "mac", "value": "aa:00"}, "descr": "switch"}}
PORT = {"id": {"type": "ifname", "value": "swp7"}, "descr": "to a node", "ttl": "120"}
ENTRY = {"via": "LLDP", "rid": "1", "age": "0 day, 00:00:42", "chassis": CHASSIS, "port": PORT}
LEAF1 = ReportedEnd(("leaf1", "aa:00"), ("swp7", "to a node"), "switch")


def listed(*entries: dict[str, object]) -> str:
    return json.dumps({"lldp": {"interface": list(entries)}})


def port(kind: str, value: str, descr: str | None = None) -> str:
    """One neighbour on eno1, on this port."""
    named = {"id": {"type": kind, "value": value}, **({"descr": descr} if descr else {})}
    return listed({"eno1": {**ENTRY, "port": named}})


@dataclass(frozen=True)
class Lldp:
    """A form of LLDP neighbours: the far end by interface, and what is left out."""

    text: str
    ends: Sequence[tuple[str, ReportedEnd]]
    left_out: Sequence[str] = ()


def one_end(*texts: str) -> Sequence[tuple[str, ReportedEnd]]:
    return [("eno1", ReportedEnd(("leaf1", "aa:00"), texts, "switch"))]


JSON0 = {
    "name": "eno1",
    "via": "LLDP",
    "chassis": [
        {"id": [{"type": "mac", "value": "aa:00"}], "name": [{"value": "leaf1"}], "descr": [{"value": "switch"}]}
    ],
    "port": [
        {"id": [{"type": "ifname", "value": "swp7"}], "descr": [{"value": "to a node"}], "ttl": [{"value": "120"}]}
    ],
}
KEYVALUE = """\
lldp.eno1.via=LLDP
lldp.eno1.rid=1
lldp.eno1.age=17 days, 09:36:51
lldp.eno1.chassis.mac=aa:00
lldp.eno1.chassis.name=leaf1
lldp.eno1.chassis.descr=switch
lldp.eno1.chassis.Bridge.enabled=on
lldp.eno1.port.ifname=swp7
lldp.eno1.port.descr=to a node
lldp.eno1.vlan.vlan-id=75
lldp.eno2.100.via=LLDP
lldp.eno2.100.chassis.local=sw
lldp.eno2.100.port.local=1
"""

# Each form with the public source of its kind.
LLDP = {
    # lldpd, tests/integration/test_lldpcli.py: one interface is a mapping
    "interface as mapping": Lldp(json.dumps({"lldp": {"interface": {"eno1": ENTRY}}}), [("eno1", LEAF1)]),
    # lldpcli(8): several are a list
    "interfaces as list": Lldp(listed({"eno1": ENTRY}, {"eno2": ENTRY}), [("eno1", LEAF1), ("eno2", LEAF1)]),
    # lldpcli(8), format json0; an Asterisk manager's test
    "json0": Lldp(json.dumps({"lldp": [{"interface": [JSON0]}]}), [("eno1", LEAF1)]),
    # a test of KCOS: the list of json0 around the entries of json
    "lists around json": Lldp(json.dumps({"lldp": [{"interface": [{"eno1": ENTRY}]}]}), [("eno1", LEAF1)]),
    # Mozilla's inventory: lldpctl -f keyvalue; a VLAN of an interface, no name of the chassis
    "keyvalue": Lldp(KEYVALUE, [("eno1", LEAF1), ("eno2", ReportedEnd(("sw",), ("local 1",)))]),
    # xapi-project: two neighbours on one interface, without `via`
    "several neighbours": Lldp(
        listed({"eno1": {"chassis": CHASSIS, "port": PORT}}, {"eno1": {"chassis": {"b": {"id": {}}}, "port": PORT}}),
        [("eno1", LEAF1), ("eno1", ReportedEnd(("b", "?"), ("swp7", "to a node")))],
    ),
    "neighbours listed under an interface": Lldp(
        json.dumps({"lldp": {"interface": {"eno1": [ENTRY, ENTRY]}}}), [("eno1", LEAF1)]
    ),
    # lldpd/lldpd issue 502: a chassis without a name
    "chassis without a name": Lldp(
        listed({"eno1": {"chassis": {"id": {"type": "mac", "value": "aa:00"}}, "port": PORT}}),
        [("eno1", ReportedEnd(("aa:00",), ("swp7", "to a node")))],
    ),
    "chassis with its name inside": Lldp(
        listed({"eno1": {"chassis": {"id": {"type": "mac", "value": "aa:00"}, "name": "leaf1"}, "port": PORT}}),
        [("eno1", ReportedEnd(("leaf1", "aa:00"), ("swp7", "to a node")))],
    ),
    # Cumulus Linux: neighbours by CDP are read as well
    "cdp": Lldp(listed({"eno1": {**ENTRY, "via": "CDPv2"}}), [("eno1", LEAF1)]),
    # iDRAC and LOM: dell/iDRAC-Redfish-Scripting issue 301; lldpd/lldpd issue 669
    "a management controller beside": Lldp(
        listed(
            {"eno1": ENTRY},
            {"eno1": {"chassis": {"bmc": {"id": {"value": "b"}}}, "port": {"id": {"value": "DSMPMM3"}}}},
        ),
        [("eno1", LEAF1), ("eno1", ReportedEnd(("bmc", "b"), ("DSMPMM3",)))],
    ),
    "vlan of an interface": Lldp(listed({"eno1": ENTRY}, {"eno1.100": ENTRY}), [("eno1", LEAF1)]),
    # lldpd/lldpd issues 306 and 421: a bond repeats what its interfaces have
    "bond that repeats": Lldp(listed({"bond0": ENTRY}, {"eno1": ENTRY}), [("eno1", LEAF1)]),
    "bond alone": Lldp(listed({"bond0": ENTRY}), [], ["n1: the neighbour on bond0: bond0 is not a port"]),
    "vlan alone": Lldp(listed({"vlan7": ENTRY}), [], ["n1: the neighbour on vlan7: vlan7 is not a port"]),
    "expired": Lldp(
        listed({"eno1": {**ENTRY, "port": {**PORT, "ttl": "0"}}}),
        [],
        ["n1: the neighbour on eno1: it has shut down (ttl 0)"],
    ),
    "no chassis": Lldp(listed({"eno1": {"port": PORT}}), [], ["n1: the neighbour on eno1: it has no chassis"]),
    "no port": Lldp(listed({"eno1": {"chassis": CHASSIS}}), one_end("")),
    "no neighbours": Lldp('{"lldp": {}}', []),
    "no neighbours in json0": Lldp('{"lldp": [{}]}', []),
    # identifiers of ports
    "mac": Lldp(port("mac", "3c:2c:99:00:00:01", "swp1"), one_end("", "swp1")),
    "mac alone": Lldp(port("mac", "3c:2c:99:00:00:01"), one_end("")),
    "ifindex": Lldp(port("local", "508", "ge-0/0/11.0"), one_end("local 508", "ge-0/0/11.0")),
    "number as name": Lldp(port("local", "7", "7"), one_end("7", "7")),  # ProCurve
    "local name": Lldp(port("local", "hundredGigE1/2"), one_end("hundredGigE1/2")),
    "ifalias": Lldp(port("ifalias", "22", "Port 22"), one_end("ifalias 22", "Port 22")),
    "unhandled": Lldp(port("unhandled", "46 45", "{E1FE}"), one_end("", "{E1FE}")),
}


@pytest.mark.parametrize("form", LLDP)
def test_lldp_forms(form: str) -> None:
    reports = parse_lldp(LLDP[form].text, "n1")
    own = ReportedEnd(("n1",), ("", "", "eno1"))
    assert [(near.port_text, far) for near, far in reports.pairs] == list(LLDP[form].ends)
    assert all(near.device == own.device for near, _ in reports.pairs)
    assert list(reports.left_out) == list(LLDP[form].left_out)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",  # a command that failed, with `|| echo {}`
        "[]",
        "null",
        '{"lldp": {"interface": {"eno1": "up"}}}',
        '{"lldp": {"interface": {"eno1": {"chassis": {"a": "b"}, "port": {}}}}}',
        "-----\nLLDP neighbors:\n-----\nInterface:    eno1, via: LLDP, RID: 1",  # lldpctl without -f
        '<?xml version="1.0"?><lldp label="LLDP neighbors"/>',  # lldpctl -f xml
        "[" * 100_000,
    ],
)
def test_what_lldpctl_does_not_write_as_json_is_refused(text: str) -> None:
    with pytest.raises(CablingError, match="n1: this is not output of `lldpctl -f json`"):
        parse_lldp(text, "n1")


LEAF = 'Switch\t65 "S-b83fd20300000001"\t\t# "MF0;compute-leaf-001:MQM9700/U1" enhanced port 0 lid 5 lmc 0'
NODE = '[1]\t"H-b83fd20300000002"[1](b83fd20300000002) \t\t# "gpu001 mlx5_0" lid 7 4xNDR'
SWITCH = '"MF0;compute-leaf-001:MQM9700/U1" lid 5 4xNDR'
CA = (
    'Ca\t1 "H-b83fd20300000002"\t\t# "gpu001 mlx5_0"\n'
    f'[1](b83fd20300000002) \t"S-b83fd20300000001"[1]\t\t# lid 7 lmc 0 {SWITCH}'
)
HEAD = "#\n# Topology file: generated on Fri Nov 20 17:00:00 2026\n#\n# Initiated from node 02 port 02\n"
IDS = "\nvendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x1\nswitchguid=0x1(1)\n"


@dataclass(frozen=True)
class Discovered:
    """A form of `ibnetdiscover`: both ends of its only cable, device and port, and what is left out."""

    text: str
    ends: tuple[str, str] = ("compute-leaf-001 #1 of 65", "gpu001 mlx5_0")
    left_out: Sequence[str] = ()


def leaf(name: str, ports: int = 65, node: str = NODE) -> str:
    return f'Switch\t{ports} "S-b83fd20300000001"\t\t# "{name}" enhanced port 0 lid 5 lmc 0\n{node}\n'


PORTS_REPORT = """\
CA   134  1 0xb83fd20300000002 4x NDR - SW  1719  1 0xb83fd20300000001 ( 'gpu001 mlx5_0' - 'compute-leaf-001' )
SW  1719  1 0xb83fd20300000001 4x NDR - CA   134  1 0xb83fd20300000002 ( 'compute-leaf-001' - 'gpu001 mlx5_0' )
SW  1719 37 0xb83fd20300000001 4x ???                                    'compute-leaf-001'
"""
# Each form with the public source of its kind; linux-rdma/rdma-core, ibnetdiscover.c, writes all that are not old.
DISCOVERED = {
    "rdma-core": Discovered(f"{HEAD}{IDS}{LEAF}\n{NODE}\n{IDS}{CA}\n"),
    "only switches": Discovered(f"{LEAF}\n{NODE}\n"),
    "only adapters": Discovered(f"{CA}\n", ("compute-leaf-001 #1", "gpu001 mlx5_0")),  # a switch without its record
    "no names": Discovered(f"{CA}\n".replace(SWITCH, "lid 5"), ("0xb83fd20300000001 #1", "gpu001 mlx5_0")),
    # ibnetdiscover(8) of OFED 1.2, and a Perl module that reads it: no GUID of the port, no speed, a hop count
    "ofed 1.2": Discovered(
        f"# Max of 2 hops discovered\n{LEAF.replace('enhanced', 'base')}\n"
        '[1]\t"H-b83fd20300000002"[1]\t\t# "gpu001 HCA-1" lid 18\n',
        ("compute-leaf-001 #1 of 65", "gpu001 HCA-1"),
    ),
    # ibnetdiscover -f and -m
    "full": Discovered(f"# Reported max hops discovered: 3\n# Total MADs used: 40\n{LEAF}\n{NODE} s=4 w=2 v=4\n"),
    # ibnetdiscover -g of a director
    "grouping": Discovered(
        "\nChassis 1 (guid 0x2c9)\nHostname: x\n\n# Spine Nodes\nNon-Chassis Nodes\n\nvendid=0x2c9\nsysimgguid=0x1\t\t"
        f"# Chassis 1\n{LEAF}\n{NODE.replace('[1]', '[1][ext 13]', 1)}\n"
    ),
    # treydock/infiniband_exporter: ibnetdiscover --ports, with a node name map
    "ports report": Discovered(PORTS_REPORT, ("compute-leaf-001 #1", "gpu001 mlx5_0")),
    # NVIDIA/topograph and UFM: managed HDR switches; a port may have no speed
    "managed hdr": Discovered(
        leaf("MF0;compute-leaf-001:MQM8700/U1", 41, NODE.removesuffix("4xNDR")),
        ("compute-leaf-001 #1 of 41", "gpu001 mlx5_0"),
    ),
    # a DGX H20 report: 2xNDR, 128 ports behind 32 cages
    "split ndr": Discovered(
        leaf("MF0;compute-leaf-001:MQM9700/U1", 129, NODE.replace("4xNDR", "2xNDR")),
        ("compute-leaf-001 #1 of 129", "gpu001 mlx5_0"),
    ),
    # Oracle's engineered systems: blanks in the name of a switch
    "blanks in a name": Discovered(
        leaf("SUN DCS 36P QDR sw-ib1 10.0.0.66", 36), ("SUN DCS 36P QDR sw-ib1 10.0.0.66 #1 of 36", "gpu001 mlx5_0")
    ),
    "quotes in a name": Discovered(
        leaf('the "top" switch > r1', 36), ('the "top" switch > r1 #1 of 36', "gpu001 mlx5_0")
    ),
    "a chip of a director": Discovered(leaf("MF0;core1:CS7500/L01/U2", 36), ("core1/L01/U2 #1 of 36", "gpu001 mlx5_0")),
    "indented, with 0x": Discovered(
        "    " + LEAF + '\n    [1] "H-0xb83fd20300000002"[1](0xb83fd20300000002)  # "gpu001 mlx5_0" lid 7 4xNDR\n'
    ),
    "second port of an adapter": Discovered(
        leaf("compute-leaf-001", 65, NODE.replace("[1](b83f", "[2](b83f")),
        ("compute-leaf-001 #1 of 65", "gpu001 mlx5_0/2"),
    ),
    "adapter without a node": Discovered(
        leaf("compute-leaf-001", 65, NODE.replace("gpu001 mlx5_0", "MT23108")),
        ("compute-leaf-001 #1 of 65", "MT23108 0xb83fd20300000002"),
    ),
    "router": Discovered(
        f'{LEAF}\n[9]\t"R-b83fd20300000003"[1](3) \t\t# "MF0;ibr01:SB7780/R1" lid 9 4xEDR\n'
        'Rt\t2 "R-b83fd20300000003"\t\t# "MF0;ibr01:SB7780/R1"\n',
        ("ibr01/R1 0xb83fd20300000003", "compute-leaf-001 #9 of 65"),
    ),
    "aggregation node": Discovered(
        f'{LEAF}\n{NODE}\n[65]\t"H-aa3fd20300000001"[1](1) \t\t# "Mellanox Technologies Aggregation Node" lid 9 4xNDR\n'
    ),
    # a report on the web, with lines left away
    "cut short": Discovered(f"{LEAF}\n{NODE}\n...omitted\n", left_out=["line 3: ...omitted"]),
    "a warning of the program": Discovered(
        f"ibwarn: [6931] sim_connect: attached\n{LEAF}\n{NODE}\n",
        left_out=["line 1: ibwarn: [6931] sim_connect: attached"],
    ),
    "a damaged line": Discovered(
        f'{LEAF}\n{NODE}\n[2]\t"H-b83fd20300000004"\n', left_out=['line 3: [2]\t"H-b83fd20300000004"']
    ),
}


@pytest.mark.parametrize("form", DISCOVERED)
def test_ibnetdiscover_forms(form: str) -> None:
    how = DISCOVERED[form]
    reports = parse_ibnetdiscover(how.text)
    found = [" ".join((end.device[0], *end.port)) for pair in reports.pairs for end in pair]
    assert sorted(found) == sorted(how.ends)
    assert list(reports.left_out) == list(how.left_out)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ibwarn: [1] no device\n",
        'Switch\t : 0x0002c9 ports 36 devid 0xb924 vendid 0x2c9 "sw1"\n',  # -l, -S, -H
        f"< {LEAF}\n< {NODE}\n> {NODE}\n",  # --diff
        "DR path: 0\n  portguid=0x1 lid=1\n",  # OpenSM's own dump
    ],
)
def test_what_ibnetdiscover_does_not_write_is_refused(text: str) -> None:
    with pytest.raises(CablingError, match="this is not output of `ibnetdiscover`"):
        parse_ibnetdiscover(text)


KEYS = st.sampled_from(
    ["interface", "name", "via", "chassis", "port", "id", "type", "value", "descr", "ttl", "eno1", ""]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["0", "local", "swp1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(value=VALUES)
def test_any_json_is_read_or_refused(value: object) -> None:
    try:
        reports = parse_lldp(json.dumps({"lldp": value}), "n1")
    except CablingError:
        return
    ends = [end for pair in reports.pairs for end in pair]
    assert all(isinstance(text, str) for end in ends for text in (*end.device, *end.port, end.system))


def test_left_out_lines_have_the_names_of_their_files(tmp_path: Path) -> None:
    (tmp_path / "gpu001.lldp.json").write_text(LLDP["bond alone"].text)
    (tmp_path / "compute.ibnetdiscover").write_text(DISCOVERED["cut short"].text)
    for other in ("gpu002.json", "leaf.lldp.txt", "notes.md"):
        (tmp_path / other).write_text("")
    saved = read_saved(tmp_path, [rails(nodes=2), pair()])
    assert saved.left_out == (
        "gpu001: the neighbour on bond0: bond0 is not a port",
        "compute, line 3: ...omitted",
    )
    assert saved.unread == ("gpu002.json", "leaf.lldp.txt")  # of a device, or by their names of this kind


def test_reports_are_put_together() -> None:
    together = heard({"n1": LLDP["interfaces as list"].text}, {"compute": DISCOVERED["rdma-core"].text}, ["n1"])
    assert len(together.neighbours) == 3
    assert (together.asked, together.fabrics, together.left_out) == (frozenset({"n1"}), frozenset({"compute"}), ())
