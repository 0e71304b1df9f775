"""How vendors name the ports of switches, and which names settle a numbering."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcforge.design.fabric.as_built import compare
from hpcforge.design.fabric.build import build
from hpcforge.design.fabric.cable_index import CableEnds, Drawn, PortName
from hpcforge.design.fabric.graph import Fabric
from hpcforge.design.fabric.neighbour_matching import Heard, ReportedEnd, recognise
from hpcforge.design.fabric.port_numbering import (
    InterfaceName,
    Numbering,
    PortFacts,
    SwitchNumbering,
    interface_name,
    is_common_name,
    possible_lanes,
)
from hpcforge.design.fabric.spec import Ask, Model, OtherEnd, OwnPorts
from tests.support.as_plugged import drawn, names, swapped

LEAF = "inband-leaf-001"
Spelling = Callable[[int], tuple[str, ...]]


@cache
def single(nodes: int = 7, ports: int = 32, breakout: int = 1) -> Fabric:
    """One Ethernet switch; node n is on its port n."""
    switch = Model("small", ports, ports)
    return build(
        Ask("inband", "ethernet", "single-switch", 40.0, 40.0, names("gpu", nodes), switch, switch, breakout=breakout)
    )


def settle(
    texts: Iterable[tuple[str, ...]], lanes: int = 4, system: str = "", given: dict[str, str] | None = None, **more: int
) -> list[str]:
    """The labels of ports, in the order of the texts; "?" if unknown."""
    fabric = single(**more)
    facts = PortFacts({"small": [(lanes,)] * more.get("ports", 32)}, {LEAF: given or {}})
    texts = list(texts)
    numbered = SwitchNumbering(fabric, fabric.index[LEAF], facts).settle(dict.fromkeys(texts, system))
    assert bool(numbered.unknown) == (len(numbered.labels) < len(set(texts)))
    return [numbered.labels.get(text, "?") for text in texts]


@dataclass(frozen=True)
class Form:
    """A way to name ports: `spell` has the identifier and the description of the port that is printed as its number."""

    spell: Spelling
    lanes: int = 4
    system: str = ""
    settled: bool = True  # with ports 1 to 7 of 32


# Form: the source in which names of its kind stand (public documents, tests and issues).
FORMS = {
    # docs.nvidia.com, Cumulus Linux: show LLDP
    "cumulus": Form(lambda p: (f"swp{p}",)),
    # lldpd's own tests, and hosts with default settings: a MAC address, and the interface as description
    "mac and swp": Form(lambda p: ("", f"swp{p}")),
    # sonic-net/SONiC issue 116, and hwsku Force10-S6000: aliases that count lanes
    "sonic alias by lanes": Form(lambda p: (f"fortyGigE0/{4 * p - 4}",)),
    # SONiC's `show interfaces status` of a 40G switch: Ethernet0 has the alias fortyGigE0/1, Ethernet4 fortyGigE0/5
    "sonic alias by lanes from 1": Form(lambda p: (f"fortyGigE0/{4 * p - 3}",)),
    # sonic-utilities, Command-Reference, `show lldp neighbors`; its description names the far end
    "sonic alias of a unit": Form(lambda p: (f"hundredGigE1/{p}", f"T0-2:hundredGigE1/{p + 20}")),
    "sonic alias without a slot": Form(lambda p: (f"hundredGigE{p}",)),
    # sonic-net/sonic-buildimage issue 1457
    "sonic name": Form(lambda p: (f"Ethernet{4 * p - 4}", f"ARISTA01T1:Ethernet{p}")),
    "sonic name and alias": Form(lambda p: (f"Ethernet{4 * p - 4}", f"etp{p}")),
    # a test of an LLDP reader: Ethernet448 is described as Eth57/1
    "sonic name of eight lanes": Form(lambda p: (f"Ethernet{8 * p - 8}", f"Eth{p}/1"), lanes=8),
    # sonic-net/sonic-buildimage issue 11008: a MAC address, and the name as description
    "mac and sonic name": Form(lambda p: ("", f"Ethernet{4 * p - 4}")),
    "sonic name of one lane": Form(lambda p: (f"Ethernet{p - 1}",), lanes=1, system="SONiC Software Version: 202311"),
    # minigraph.py of sonic-buildimage: Force10-S6100 has names without gaps
    "sonic name without gaps": Form(lambda p: (f"Ethernet{p - 1}",)),
    # napalm-automation/napalm issue 771; NX-OS may send the type `local`, see napalm-eos issue 178
    "nx-os": Form(lambda p: (f"Ethernet1/{p}", "to a node")),
    "aci": Form(lambda p: (f"Eth1/{p}", f"topology/pod-1/paths-101/pathep-[eth1/{p}]")),
    # EOS: ports of QSFP cages have a lane, those of SFP cages do not
    "eos with lanes": Form(lambda p: (f"Ethernet{p}/1",)),
    "eos": Form(lambda p: (f"Ethernet{p}",), lanes=1, system="Arista Networks EOS version 4.27.0F"),
    "os10": Form(lambda p: (f"ethernet1/1/{p}", f"Eth1/1/{p}")),
    # sonic-net/sonic-mgmt: et-0/0/11, with the far end as description
    "junos": Form(lambda p: (f"et-0/0/{p - 1}", f"tor8.example.org:Ethernet{p}")),
    # lldpctl on hosts behind EX switches; Uninett/nav issue 840: `local` with an ifIndex
    "junos by ifindex": Form(lambda p: (f"local {500 + p}", f"ge-0/0/{p - 1}.0")),
    # lldpd/lldpd issue 306: an ifIndex, and free text
    "ifindex and free text": Form(lambda p: (f"local {621 + p}", f"host{p} eth1"), settled=False),
    "onyx": Form(lambda p: (f"Eth1/{p}",)),
    # `display lldp neighbor-information` of Comware 7
    "comware": Form(lambda p: (f"Ten-GigabitEthernet1/0/{p}", f"Ten-GigabitEthernet1/0/{p} Interface")),
    "comware 100G": Form(lambda p: (f"HundredGigE1/0/{p}",)),
    "icx": Form(lambda p: (f"ethernet1/1/{p}", f"100GigabitEthernet1/1/{p}")),
    "icx by mac": Form(lambda p: ("", f"10GigabitEthernet1/1/{p}")),
    "sr linux": Form(lambda p: (f"ethernet-1/{p}",)),
    # support.hpe.com, AOS-CX: show lldp neighbor-info
    "aos-cx": Form(lambda p: (f"1/1/{p}",)),
    # an inventory agent's test: PROCURVE J9450A
    "procurve": Form(lambda p: (f"local {p}", f"Port #{p}")),
    "procurve by number": Form(lambda p: (str(p), str(p))),
    # a Meraki switch and UniFi switches, in tests of a firewall's LLDP page
    "meraki": Form(lambda p: (f"ifalias {p}", f"Port {p}")),
    "unifi": Form(lambda p: (f"Port {p}", "uplink")),
    "edgeswitch": Form(lambda p: (f"0/{p}", f"Slot: 0 Port: {p} 10G - Level")),
    "mikrotik": Form(lambda p: (f"bridge/sfp-sfpplus{p}",)),
    "mikrotik 100G": Form(lambda p: (f"qsfp28-{p}-1",)),
    "huawei": Form(lambda p: (f"100GE1/0/{p}",)),
    "catalyst": Form(lambda p: (f"Te1/0/{p}", "a server")),
    "ios xr": Form(lambda p: (f"HundredGigE0/0/0/{p - 1}",)),
    # a switch whose words this program does not know may count from 0 or from 1
    "unknown words": Form(lambda p: (f"xyz{p}",), settled=False),
    "linux": Form(lambda p: (f"eth{p}",), settled=False),
    "catalyst 2960": Form(lambda p: (f"GigabitEthernet0/{p}",), lanes=1, settled=False),
    "eos, by an unknown system": Form(lambda p: (f"Ethernet{p}",), lanes=1, settled=False),
    "free text": Form(lambda p: ("", f"gpu{p:03}"), settled=False),
    "nothing": Form(lambda p: ("",), settled=False),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    how = FORMS[form]
    ports = settle((how.spell(p) for p in range(1, 8)), how.lanes, how.system)
    assert ports == [str(p) if how.settled else "?" for p in range(1, 8)]


@pytest.mark.parametrize("form", [name for name in FORMS if name not in ("free text", "nothing")])
def test_a_port_that_only_one_numbering_has_settles_the_others(form: str) -> None:
    """The last port, which would not exist if they were counted from 0, and the first."""
    how = FORMS[form]
    if how.spell(1)[0].startswith("local 6"):
        return
    assert settle(map(how.spell, (1, 5, 6, 32)), how.lanes, how.system) == ["1", "5", "6", "32"]


@pytest.mark.parametrize(
    ("spell", "lanes"),
    [
        (lambda p, n: f"swp{p}s{n - 1}", 4),
        (lambda p, n: f"Ethernet{p}/{n}", 4),
        (lambda p, n: f"Eth1/{p}/{n}", 4),
        (lambda p, n: f"ethernet1/1/{p}:{n}", 4),
        (lambda p, n: f"et-0/0/{p - 1}:{n - 1}", 4),
        (lambda p, n: f"etp{p}{'ab'[n - 1]}", 4),
        (lambda p, n: f"Ethernet{8 * p - 8 + 4 * (n - 1)}", 8),
    ],
)
def test_lanes_of_ports_that_are_broken_out(spell: Callable[[int, int], str], lanes: int) -> None:
    places = [(p, n) for p in range(1, 7) for n in (1, 2)]
    ports = settle(((spell(*place),) for place in places), lanes, breakout=2)
    assert ports == [f"{p}/{n}" for p, n in places]


@pytest.mark.parametrize(
    ("texts", "ports"),
    [
        (["fortyGigE0/4", "fortyGigE0/8"], ["?", "?"]),  # ports 2 and 3 by lanes, or 4 and 8
        (["Ethernet5", "swp7"], ["?", "?"]),  # two kinds of names
        (["ether1", "sfp-sfpplus1"], ["?", "?"]),  # each kind begins with the first port
        (["xe-0/0/4", "xe-0/1/0"], ["?", "?"]),  # a second module, whose place is not known
        (["Ethernet2/4", "Ethernet2/5"], ["?", "?"]),
        (["TwentyFiveGigE1/1/1", "TwentyFiveGigE1/1/2"], ["?", "?"]),
        (["0/3", "0/4"], ["?", "?"]),
        (["1/1/c3/1", "port1.0.4", "A3"], ["?", "?", "?"]),
        (["swp3", "swp40"], ["?", "?"]),  # the model has 32
        (["swp3", "mgmt0"], ["3", "management mgmt0"]),
        (["swp3", "Port-Channel4", "bond1", "vlan.7", "eth0"], ["3", "?", "?", "?", "?"]),
        (["Ethernet1/1", "Ethernet1/01"], ["1", "1"]),
    ],
)
def test_names_together(texts: list[str], ports: list[str]) -> None:
    assert settle((text,) for text in texts) == ports


@pytest.mark.parametrize(
    ("texts", "ports"),
    [
        (["eth0", "swp3"], ["management eth0", "3"]),
        (["eth0", "eth3"], ["?", "?"]),  # a system that names its front ports so
        (["eth0"], ["?"]),
    ],
)
def test_a_switch_reports_its_own_management_port(texts: list[str], ports: list[str]) -> None:
    assert settle(("", "", text) for text in texts) == ports


def test_sources_that_agree_settle_what_each_alone_does_not() -> None:
    assert settle([("Ethernet8", "Ethernet3/1"), ("Ethernet16", "Ethernet5/1")]) == ["3", "5"]
    assert settle([("Ethernet8", "Ethernet9/1"), ("Ethernet16", "Ethernet2/1")]) == ["?", "?"]
    assert settle([("swp3", "Ethernet9/1"), ("swp5", "Ethernet2/1")]) == ["3", "5"]  # descriptions of the far end


def test_a_report_that_all_numberings_read_alike_is_known() -> None:
    """SONiC sends an alias, or a MAC address and the name until a port is up."""
    assert settle([("Ethernet3/1", "a node"), ("", "Ethernet16")]) == ["3", "?"]


@pytest.mark.parametrize(("given", "ports"), [({"3": "fortyGigE0/8"}, ["2", "3"]), ({"8": "fortyGigE0/8"}, ["4", "8"])])
def test_the_inventory_settles_it(given: dict[str, str], ports: list[str]) -> None:
    assert settle([("fortyGigE0/4",), ("fortyGigE0/8",)], given=given) == ports


def test_the_inventory_may_name_any_port() -> None:
    assert settle([("", "First Comp"), ("swp9",)], given={"7": "First Comp"}) == ["7", "9"]


def test_wide_gaps_are_lanes_if_there_are_enough_of_them() -> None:
    few, many = [4, 8, 12, 16], [4, 8, 12, 16, 20]
    assert settle((f"Ethernet{n}",) for n in few) == ["?"] * 4
    assert settle((f"Ethernet{n}",) for n in many) == ["2", "3", "4", "5", "6"]


def test_reasons_say_what_to_do() -> None:
    fabric = single()
    numbering = SwitchNumbering(fabric, fabric.index[LEAF], PortFacts({"small": [(4,)] * 32}))
    unknown = numbering.settle({("fortyGigE0/4",): "", ("fortyGigE0/8",): ""}).unknown
    assert unknown == (
        "3 numberings fit: fortyGigE0/4 may be port 5 or 4 or 2; settle it in the inventory for one or two ports as "
        "printed on the switch, switches: {inband-leaf-001: {ports: {PORT: NAME}}}"
    )
    assert numbering.settle({("swp40",): ""}).unknown.startswith("no numbering of the 32 ports of small fits swp40; ")
    assert numbering.settle({("", "gpu003"): ""}).unknown == "not names of its ports: gpu003"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("swp7s1", InterfaceName("swp", (7,), 2)),
        ("ethernet1/1/3:2", InterfaceName("ethernet", (1, 1, 3), 2)),
        ("ge-0/0/11.0", InterfaceName("ge-", (0, 0, 11))),
        ("25GE1/0/7", InterfaceName("25ge", (1, 0, 7))),
        ("1:7", InterfaceName("", (1, 7))),
        ("mgmt0", None),
        ("", None),
        ("9" * 5000, None),
        ("²", None),
        ("to-server-41-p0", None),
    ],
)
def test_interface_names(text: str, name: InterfaceName | None) -> None:
    assert interface_name(text) == name


def test_free_text_is_never_the_name_of_a_port() -> None:
    assert settle([("", "gpu032"), ("", "rack31")]) == ["?", "?"]


def test_free_text_is_no_common_name() -> None:
    assert [is_common_name(text) for text in ("Eth1/7", "Port #1", "gpu003", "rack7", "22", "T0:swp1")] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


def test_a_numbering_is_a_value() -> None:
    assert Numbering((), "lanes from 0", (4, 4)).place(InterfaceName("ethernet", (4,)), {}) == (2,)
    assert Numbering((), "lanes from 0", (4, 4)).place(InterfaceName("ethernet", (5,)), {}) is None
    assert Numbering((0, 0), "from 0").place(InterfaceName("et-", (0, 0, 3), 1), {4: 2}) == (4, 1)
    assert Numbering((1,), "from 1").place(InterfaceName("eth", (2, 3)), {}) is None


@pytest.mark.parametrize(
    ("rate", "connector", "lanes"),
    [
        (1, "rj45", (1,)),
        (100, "qsfp28", (4,)),
        (800, "osfp", (8,)),
        (40, None, (4,)),
        (25, None, (1,)),
        (400, None, (4, 8)),
    ],
)
def test_lanes_of_a_port(rate: float, connector: str | None, lanes: tuple[int, ...]) -> None:
    assert possible_lanes(rate, connector) == lanes


def verdict(links: Iterable[CableEnds], how: Form, nodes: int) -> tuple[int, set[str]]:
    """How many cables are as drawn, and the kinds of what is not; each node reports its neighbour."""
    fabric = single(nodes)
    pairs = tuple(
        (ReportedEnd((link.a.device,), ("", "", "eno1")), ReportedEnd((LEAF,), how.spell(int(link.b.name)), how.system))
        for link in links
    )
    heard = Heard(pairs, frozenset(pair[0].device[0] for pair in pairs))
    found = recognise([fabric], heard, {}, {}, {}, ["inband"], PortFacts({"small": [(how.lanes,)] * 32}))
    report = compare(drawn(fabric), found.seen)
    return report.as_drawn, {finding.kind for finding in report.findings}


@settings(max_examples=120, deadline=None, derandomize=True)
@given(form=st.sampled_from(sorted(FORMS)), nodes=st.integers(1, 31), data=st.data())
def test_right_cables_are_never_accused_and_a_swap_is_never_as_drawn(
    form: str, nodes: int, data: st.DataObject
) -> None:
    """Whatever the spelling, and whichever nodes answer."""
    how, links = FORMS[form], drawn(single(nodes)).links
    chosen = data.draw(st.lists(st.sampled_from(links), min_size=1, unique=True))
    as_drawn, kinds = verdict(chosen, how, nodes)
    assert kinds <= {"unknown"} and (kinds or as_drawn == len(chosen))
    if len(chosen) > 1:
        plugged = swapped(chosen, chosen[0].b, chosen[1].b)
        assert verdict(plugged, how, nodes)[1] & {"swapped", "unknown"}
        assert "swapped" in verdict(plugged, how, nodes)[1] or "unknown" in kinds


@settings(max_examples=80, deadline=None, derandomize=True)
@given(form=st.sampled_from(sorted(FORMS)), nodes=st.integers(2, 31), data=st.data())
def test_cables_in_any_other_ports_are_never_as_drawn(form: str, nodes: int, data: st.DataObject) -> None:
    links = drawn(single(nodes)).links
    places = data.draw(st.lists(st.integers(1, 32), min_size=nodes, max_size=nodes, unique=True))
    plugged = [CableEnds(link.a, PortName(LEAF, str(place))) for link, place in zip(links, places, strict=True)]
    as_drawn, kinds = verdict(plugged, FORMS[form], nodes)
    right = len(set(plugged) & set(links))
    assert "unknown" in kinds or as_drawn == right
    assert kinds or right == nodes


def test_drawn_ports_are_those_of_the_nodes() -> None:
    assert [link.b.name for link in Drawn.of([]).links] == []
    assert [(link.a.device, link.b.name) for link in drawn(single(3)).links] == [
        ("gpu001", "1"),
        ("gpu002", "2"),
        ("gpu003", "3"),
    ]


@cache
def mixed() -> Fabric:
    """32 ports of 400 Gb/s: nodes share 1 to 30 in fours, other ends share 31 in twos and have 32 alone."""
    model = Model("small", 32, 32)
    ends = [OtherEnd(f"files-{n}", 1, OwnPorts(200.0, 2, 1, 32)) for n in (1, 2)]
    whole = OtherEnd("store-1", 1, OwnPorts(400.0, 1, 1, 32))
    ask = Ask("inband", "ethernet", "single-switch", 100.0, 400.0, names("gpu", 8), model, model, breakout=4)
    return build(replace(ask, endpoints=(whole, *ends)))


# The names of lane 2 of port 3 split in four, of lane 2 of port 31 split in two, and of port 32, as switches have them:
# NVIDIA Cumulus Linux (swp31s1), SONiC (the number of the first of eight lanes; its alias etp31b), Arista EOS, Dell
# OS10, Junos (lanes from 0), Cisco NX-OS and Nokia SR Linux.
MIXED = {
    "cumulus": ("swp3s1", "swp31s1", "swp32"),
    "sonic": ("Ethernet18", "Ethernet244", "Ethernet248"),
    "sonic alias": ("etp3b", "etp31b", "etp32"),
    "eos": ("Ethernet3/2", "Ethernet31/2", "Ethernet32"),
    "eos, lane of a whole port": ("Ethernet3/2", "Ethernet31/2", "Ethernet32/1"),
    "os10": ("ethernet1/1/3:2", "ethernet1/1/31:2", "ethernet1/1/32"),
    "junos": ("et-0/0/2:1", "et-0/0/30:1", "et-0/0/31"),
    "nx-os": ("Ethernet1/3/2", "Ethernet1/31/2", "Ethernet1/32"),
    "sr linux": ("ethernet-1/3/2", "ethernet-1/31/2", "ethernet-1/32"),
}


@pytest.mark.parametrize("form", MIXED)
def test_ports_that_are_split_differently_on_one_switch(form: str) -> None:
    fabric = mixed()
    facts = PortFacts({"small": [(8,)] * 32})
    texts = [(text,) for text in MIXED[form]]
    numbered = SwitchNumbering(fabric, fabric.index[LEAF], facts).settle(dict.fromkeys(texts, ""))
    assert [numbered.labels.get(text) for text in texts] == ["3/2", "31/2", "32"], numbered.unknown


def test_a_lane_that_a_port_does_not_have_is_not_a_port() -> None:
    fabric = mixed()
    settle = SwitchNumbering(fabric, fabric.index[LEAF], PortFacts({"small": [(8,)] * 32})).settle
    assert settle({("swp31s2",): ""}).labels == {}
    assert settle({("swp32s1",): ""}).labels == {}
