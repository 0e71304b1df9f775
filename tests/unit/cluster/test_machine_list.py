"""Lists of machines as comma-separated values: what is read, and what is refused, with its place."""

from __future__ import annotations

import time

import pytest

from hpcforge.blueprint.inventory import Inventory
from hpcforge.cluster.machine_list import listed_machines

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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "None:None: the list is empty"),
        ("serial,mac\nS1,x\n", "1:1: no column has the names of nodes"),
        ("node,colour\ng01,red\n", "1:1: no column has anything of an inventory"),
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
    assert len(wrong("node,mac\n" + "x,y\n" * 50_000)) == 1_000
    assert time.process_time() - begun < 5
