"""Many values put into a file at once: everything else stays as it was written."""

from __future__ import annotations

import pytest
import yaml

from hpcforge.blueprint.edit import EditError, with_values

BEFORE = """\
# a site's own
schema: 1   # version

nodes:
  a: {address: 10.0.0.1}  # the first
  b:   # nothing yet
  c:
    # about c
    address: 10.0.0.3   # here
  d: {host_keys: [], address: 10.0.0.4}

  # behind the last
positions:
  a: {rack: r1, u: 3}
"""
AFTER = """\
# a site's own
schema: 1   # version

nodes:
  a: {address: 10.0.0.1, host_keys: [k1]}  # the first
  b:
    host_keys: [k2]   # nothing yet
  c:
    # about c
    address: 10.0.0.3   # here
    host_keys: [k3]
  d: {host_keys: [k4], address: 10.0.0.4}
  e: {host_keys: [k5]}
  f: {host_keys: [k6]}

  # behind the last
positions:
  a: {rack: r1, u: 3}
"""


def keys(*names: str) -> dict[tuple[str, str], list[str]]:
    return {(name, "host_keys"): [f"k{number}"] for number, name in enumerate(names, start=1)}


def test_every_way_that_an_entry_may_be_written() -> None:
    assert with_values(BEFORE, "nodes", keys("a", "b", "c", "d", "e", "f")) == AFTER


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("schema: 1\n", "schema: 1\n\nnodes:\n  a: {host_keys: [k1]}\n  b: {host_keys: [k2]}\n"),
        ("schema: 1\nnodes:\n", "schema: 1\nnodes: {a: {host_keys: [k1]}, b: {host_keys: [k2]}}\n"),
        (
            "nodes: {b: {}, c: {}}\nschema: 1\n",
            "nodes: {b: {host_keys: [k2]}, c: {}, a: {host_keys: [k1]}}\nschema: 1\n",
        ),
        ("nodes:\n  a: {x: 1}", "nodes:\n  a: {x: 1, host_keys: [k1]}\n  b: {host_keys: [k2]}\n"),
    ],
)
def test_where_there_is_little_yet(before: str, after: str) -> None:
    assert with_values(before, "nodes", keys("a", "b")) == after


def test_what_cannot_be_edited_safely_is_refused() -> None:
    with pytest.raises(EditError):
        with_values("nodes:\n  a: {host_keys: [x,\n    y]}\n", "nodes", keys("a"))


def test_an_entry_gets_several_values() -> None:
    before = "nodes:\n  a: {bmc: {user: x}, serial: S}  # first\n  b:\n    bmc: {user: y}\n    note: n\n"
    values: dict[tuple[str, str], object] = {}
    for name in ("a", "b", "c"):
        values |= {(name, "mac"): "02:00:00:00:00:01", (name, "bmc"): {"user": "z", "address": "10.0.0.1"}}
    after = with_values(before, "nodes", values)
    assert "a: {bmc: {user: z, address: 10.0.0.1}, serial: S, mac:" in after
    assert after.count("02:00:00:00:00:01") == 3 and "# first" in after
    assert with_values("nodes: {}\n", "nodes", values).count("address") == 3


@pytest.mark.parametrize("entry", ["b: {}", "b:"])
def test_an_empty_entry_gets_several_values(entry: str) -> None:
    text = f"nodes:\n  a: {{x: 1}}\n  {entry}\n  c: {{x: 3}}\n"
    values = {("b", "serial"): "S1", ("b", "mac"): "02:00:00:00:00:01", ("c", "serial"): "S3"}
    assert yaml.safe_load(with_values(text, "nodes", values))["nodes"] == {
        "a": {"x": 1},
        "b": {"serial": "S1", "mac": "02:00:00:00:00:01"},
        "c": {"x": 3, "serial": "S3"},
    }
