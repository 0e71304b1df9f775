"""Lists of machines as comma-separated values: what is read, and what is refused, with its place."""

from __future__ import annotations

import time

import pytest

from hpcforge.blueprint.diagnostics import render_all
from hpcforge.blueprint.inventory import Inventory
from hpcforge.metal.machine_list import listed_machines

NODES = ("head", "g01", "g02", "g03")
MACHINES = Inventory.model_validate(
    {
        "schema": "1",
        "nodes": {
            "g01": {"address": "10.0.0.11", "mac": "02:00:00:00:00:01", "bmc": {"address": "10.1.0.1"}},
            "g02": {"address": "10.0.0.12"},
        },
    }
)

NO_PORT = "is zero, broadcast or multicast: no port has such a MAC address"


def wrong(text: str | bytes) -> list[str]:
    content = text.encode() if isinstance(text, str) else text
    found = listed_machines(content, "list.csv", NODES, MACHINES)
    return [f"{entry.line}:{entry.column}: {entry.message}" for entry in found.wrong]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_headings_of_vendors_and_of_spreadsheets_are_read(separator: str) -> None:
    rows = (
        ["Hostname", "Serial Number", "MAC-Address", "BMC IP", "bmc_mac", "PO number"],
        ["G01", "S1", "02-00-00-00-00-01", "10.1.0.1", "0200.0000.0101", "4711"],
        [],
        ["g02", '"S2"', " 02:00:00:00:00:AB ", "", "", '"a ""b"" c"'],
    )
    text = "\ufeff" + "\r\n".join(separator.join(row) for row in rows) + "\r\n# the end\r\n"
    found = listed_machines(text.encode(), "list.csv", NODES, MACHINES)
    assert found.wrong == ()
    assert found.ignored == ("PO number",)
    assert found.listed == ("g01", "g02")
    assert found.added == {
        ("g01", "serial"): "S1",
        ("g01", "bmc"): {"address": "10.1.0.1", "mac": "02:00:00:00:01:01"},
        ("g02", "mac"): "02:00:00:00:00:ab",
        ("g02", "serial"): "S2",
    }


# A form of a list that sites have: what program writes it (values and names are other ones), and the list. Each brings
# what the inventory lacks of g02; then there are the headings that are not read, and the lines that are left out.
FORMS: dict[str, tuple[str | bytes, dict[str, object], tuple[str, ...], tuple[int, ...]]] = {
    # github.com/dell/omnia, docs: pxe_mapping_file.csv; HOSTNAME is the node's, PARENT_SERVICE_TAG its chassis's
    "omnia": (
        "FUNCTIONAL_GROUP_NAME,GROUP_NAME,SERVICE_TAG,PARENT_SERVICE_TAG,HOSTNAME,ADMIN_MAC,ADMIN_IP,BMC_MAC,BMC_IP\n"
        "slurm_node_x86_64,grp1,7ABC123,,g02,02:00:00:00:00:AB,10.0.0.12,02:00:00:00:01:AB,10.1.0.2\n",
        {"serial": "7ABC123", "mac": "02:00:00:00:00:ab", "bmc": {"address": "10.1.0.2", "mac": "02:00:00:00:01:ab"}},
        ("FUNCTIONAL_GROUP_NAME", "GROUP_NAME", "PARENT_SERVICE_TAG", "ADMIN_IP"),
        (),
    ),
    # hammer-cli-foreman, its tests: hammer --output csv host list
    "foreman": (
        "Id,Name,Operating System,Host Group,IP,MAC\n2,g02.example.org,Debian 12,,10.0.0.12,02:00:00:00:00:ab\n",
        {"mac": "02:00:00:00:00:ab"},
        ("Id", "Operating System", "Host Group", "IP"),
        (),
    ),
    # xCAT, documentation of its tables: tabdump mac, tabdump ipmi; the heading is a comment
    "xcat mac": (
        '#node,interface,mac,comments,disable\n"g02","eth0","02:00:00:00:00:AB",,\n',
        {"mac": "02:00:00:00:00:ab"},
        ("interface", "comments", "disable"),
        (),
    ),
    "xcat, several interfaces": (
        '#node,interface,mac,comments,disable\n"g02",,"02:00:00:00:00:aa!*NOIP*|02:00:00:00:00:AB!g02-eth1",,\n',
        {"mac": "02:00:00:00:00:ab"},
        ("interface", "comments", "disable"),
        (),
    ),
    # Dell's service tags, in which an E may be between digits
    "serial like a number": ("node,serial\ng02,5E23456\n", {"serial": "5E23456"}, (), ()),
    "xcat ipmi": (
        '#node,bmc,bmcport,taggedvlan,bmcid,username,password,comments,disable\n"g02","10.1.0.2",,,,"root","x",,\n',
        {"bmc": {"address": "10.1.0.2"}},
        ("bmcport", "taggedvlan", "bmcid", "username", "password", "comments", "disable"),
        (),
    ),
    # warewulf, userdocs, nodes: wwctl node import --csv
    "warewulf": (
        "nodename,net.default.hwaddr,net.default.ipaddr,discoverable,image\ng02,02:00:00:00:00:ab,10.0.0.12,false,x\n",
        {"mac": "02:00:00:00:00:ab"},
        ("net.default.ipaddr", "discoverable", "image"),
        (),
    ),
    # NetBox, import and export of devices; a list has switches, too
    "netbox": (
        "name,role,tenant,manufacturer,device_type,serial,asset_tag,status,oob_ip\n"
        "sw-leaf-1,switch,,Acme,X-48,SW0001,,active,\ng02,server,,Acme,S2,S2,,active,10.1.0.2/24\n",
        {"serial": "S2", "bmc": {"address": "10.1.0.2"}},
        ("role", "tenant", "manufacturer", "device_type", "asset_tag", "status"),
        (2,),
    ),
    # NetBox, a table as it is shown: an em dash is no value
    "netbox table": (
        "Name,Status,Rack,Serial number,OOB IP\ng01,Active,R1,\u2014,\u2014\ng02,Active,R1,S2,\u2014\n",
        {"serial": "S2"},
        ("Status", "Rack"),
        (),
    ),
    # kolla-ansible for bifrost: servers.csv
    "kolla": (
        "hostname,ipmi_address,ipmi_port,ipmi_username,ipmi_password,gateway\ng02,10.1.0.2,623,root,x,10.0.0.1\n",
        {"bmc": {"address": "10.1.0.2"}},
        ("ipmi_port", "ipmi_username", "ipmi_password", "gateway"),
        (),
    ),
    # beaker, its tests: import of power data
    "beaker": (
        "csv_type,fqdn,power_address,power_user,power_password,power_type\npower,G02.EXAMPLE.ORG,10.1.0.2,a,b,ipmilan\n",
        {"bmc": {"address": "10.1.0.2"}},
        ("csv_type", "power_user", "power_password", "power_type"),
        (),
    ),
    # a network scanner's export (raylib network scanner): IP;Hostname;MAC;Status;Ports
    "scanner": (
        "IP;Hostname;MAC;Status;Ports\n10.0.0.12;G02;02-00-00-00-00-AB;up;22,80\n",
        {"mac": "02:00:00:00:00:ab"},
        ("IP", "Status", "Ports"),
        (),
    ),
    # forms for which iDRACs are imported by name (hostname,idrac_ip,idrac_id)
    "idracs": ("hostname,idrac_ip,idrac_id\ng02,10.1.0.2,root\n", {"bmc": {"address": "10.1.0.2"}}, ("idrac_id",), ()),
    # GLPI and LocMat: French headings, accents, each cell in quotes, a separator at the end of each line
    "french": (
        '"Nom";"Statut";"Num\u00e9ro de s\u00e9rie";"Adresse MAC";\n"g02";"En production";"S2";"02:00:00:00:00:ab";\n',
        {"serial": "S2", "mac": "02:00:00:00:00:ab"},
        ("Statut",),
        (),
    ),
    # Excel in German: a title, a number column, semicolons, decimal commas, an empty line of separators, a sum
    "german": (
        "Rack 12;;;;\nNr.;Rechnername;Seriennummer;MAC-Adresse;Leistung [kW]\n1;G02;12345678;0200.0000.00AB;6,5\n"
        ";;;;\n;Summe;;;6,5\n",
        {"serial": "12345678", "mac": "02:00:00:00:00:ab"},
        ("Nr.", "Leistung [kW]"),
        (1, 5),
    ),
    # Excel: the separator in the first line
    "sep": ("sep=;\nHost;S/N\ng02;S2\n", {"serial": "S2"}, (), ()),
    # Excel, Unicode text: UTF-16 with tabs
    "utf-16": (
        "Host\tiLO IP\tBemerkung\r\ng02\t10.1.0.2\tM\u00fcnchen\r\n".encode("utf-16"),
        {"bmc": {"address": "10.1.0.2"}},
        ("Bemerkung",),
        (),
    ),
    # Excel and LibreOffice: lines in a cell and in a heading, digits kept as text, a blank that is not one
    "lines in cells": (
        '\ufeffHost,"Serial\nNumber",Note\r\ng02,="0012345","two lines,\r\nwith ""quotes"""\r\n'
        "\u00a0g03\u00a0,'007,\r\n",
        {"serial": "0012345"},
        ("Note",),
        (),
    ),
    # several pages in one list: the heading again, a count at the end
    "pages": (
        "Host,Serial\ng02,S2\nHost,Serial\ng03,S3\nTotal: 2 machines\n", {"serial": "S2"}, (), (3, 5),
    ),
    # psql and cmsh with -d "|"
    "bars": ("Hostname (key)|MAC\ng02|02:00:00:00:00:AB\n", {"mac": "02:00:00:00:00:ab"}, (), ()),
    # a column with values and without a heading
    "unnamed": ("Host,Serial,\ng02,S2,left\n", {"serial": "S2"}, ("column 3, which has no heading",), ()),
    # MAAS: hostname and fqdn name the same machine
    "two names": ("hostname,fqdn,serial\ng02,g02.maas,S2\n", {"serial": "S2"}, (), ()),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_a_list_is_taken_and_what_is_left_of_it_is_named(form: str) -> None:
    text, added, ignored, left_out = FORMS[form]
    content = text.encode() if isinstance(text, str) else text
    found = listed_machines(content, "list.csv", NODES, MACHINES)
    assert found.wrong == ()
    assert {key: value for (node, key), value in found.added.items() if node == "g02"} == added
    assert found.ignored == ignored
    assert tuple(line for line, _ in found.left_out) == left_out


def test_no_message_shows_a_password() -> None:
    text = 'node,mac,ipmi_password\ng02,zz,swordfish\ng03,"02:00,swordfish\n'
    found = listed_machines(text.encode(), "list.csv", NODES, MACHINES)
    assert len(found.wrong) == 2
    assert "swordfish" not in render_all(found.wrong)
    assert "g02,zz,*********" in render_all(found.wrong)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "None:None: the list is empty"),
        ("serial,mac\nS1,x\n", "1:1: no column has the names of nodes"),
        ("node,colour\ng01,red\n", "1:1: no column has values of an inventory"),
        ("node,mac,MAC address\n", "1:10: a second column for mac: `MAC address`"),
        ("node,mac\ng02,zz\n", "2:5: mac: `zz` is not a MAC address in lower case"),
        ("node,serial\ng02,S 2\n", "2:5: serial: `S 2` is not a serial number: up to 64 letters, digits and ._/-"),
        ("node,bmc\ng02,300.0.0.1\n", "2:5: bmc_address: `300.0.0.1` is not an IPv4 address"),
        ("node,serial\ng04,S1\n", "2:1: `g04` is not a node of the blueprint"),
        ("node,serial\ng02,S1\ng02,S2\n", "3:1: a second line for g02"),
        ("node,serial\n,S1\n", "2:1: a line without the name of a node"),
        ("node,serial\ng02,S1,S2\n", "2:8: 3 cells, but 2 columns"),
        ('node,serial\ng02,"S1\ng03,S2\n', "2:5: the quotes of this cell do not match"),
        ("node,serial\ng02,S1\ng03,S1\n", "3:5: serial: `S1` of g03 already belongs to g02"),
        ("node,mac\ng02,02:00:00:00:00:01\n", "2:5: mac: `02:00:00:00:00:01` of g02 already belongs to g01"),
        ("node,mac\ng01,02:00:00:00:00:02\n", "2:5: mac: the inventory has `02:00:00:00:00:01` of g01"),
        (b"node,serial\ng02,\xff\n", "2:5: the file is not UTF-8"),
        ("node,serial\nsw1,S1\npdu,S2\n", "1:1: no line has a node of the blueprint"),
        ("node,fqdn,serial\ng02,g03.x,S2\n", "2:5: one line names g02 and g03"),
        ("node,serial\ng02,4.11E+12\n", "2:5: serial: `4.11E+12` is a number that a spreadsheet has changed"),
        ("node;mac\ng02;2,0E+11\n", "2:5: mac: `2,0E+11` is a number that a spreadsheet has changed"),
        ("node,serial\ng02,12345678.0\n", "2:5: serial: `12345678.0` is a number that a spreadsheet has changed"),
        ('node,note,serial\ng02,"a,S2\ng03,b,S3\n', "2:5: the quotes of this cell do not match"),
        ("aa:bb:cc:dd:ee:ff,root,x,10.1.0.2,8\n", "1:1: no column has the names of nodes"),  # Helion: no heading
        ("node,mac\ng02,ff:ff:ff:ff:ff:ff\n", f"2:5: mac: `ff:ff:ff:ff:ff:ff` {NO_PORT}"),
        ("node,mac\ng02,01:00:5e:00:00:01\n", f"2:5: mac: `01:00:5e:00:00:01` {NO_PORT}"),
        ("node,mac\ng02,00-00-00-00-00-00\n", f"2:5: mac: `00:00:00:00:00:00` {NO_PORT}"),
        ("node,bmc\ng02,127.0.0.1\n", "2:5: bmc_address: `127.0.0.1` is an address that no machine has in a network"),
        ("node,bmc\ng02,0.0.0.0\n", "2:5: bmc_address: `0.0.0.0` is an address that no machine has in a network"),
        ("node,mac\ng02,x".encode("utf-16-le"), "1:1: the file is not text"),
        ("node,mac\ng02,\x1b[31m\n", "2:5: mac: `\\x1b[31m` is not a MAC address in lower case"),
    ],
)  # fmt: skip
def test_a_wrong_list_is_refused_with_the_place(text: str | bytes, said: str) -> None:
    assert wrong(text) == [said]


def test_an_endless_list_is_refused_and_a_wide_one_read_in_linear_time() -> None:
    assert "more than 100,000 lines" in wrong("node,serial\n" * 100_002)[0]
    begun = time.process_time()
    assert "more than 64 columns" in wrong("node,serial" + "," * 1_000_000 + "\n")[0]
    assert "the quotes of this cell do not match" in wrong('node,serial\ng01,"' + '""' * 1_000_000 + "\n")[0]
    assert len(wrong("node,mac\n" + "g04,y\n" * 50_000)) == 1_000
    assert "1,000 lines are of no node" in wrong("node,mac\n" + "switch,y\n" * 50_000)[0]
    assert time.process_time() - begun < 5
