"""A restart of a real node: asked for once, remembered until it has happened, and refused to runs that are over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hpcforge.node import bundle
from tests.support import node_program as nodes
from tests.support.node_program import Node, converge, of

pytestmark = pytest.mark.lab
WANTED = {"role": "driver", "packages": [], "directories": [], "accounts": [], "units": [], "checks": [], "files": []}


def boot_id(node: Node) -> str:
    return str(node.observed()["facts"]["boot_id"])


def pending(node: Node) -> list[str]:
    [answer] = of(node.send({"verb": "observe", "wanted": [WANTED, {**WANTED, "role": "other"}]}), "observed")
    return [one["role"] for one in answer["differs"] if one["reboot"]]


def reboot(node: Node, boot: str, **more: Any) -> nodes.Events:
    request = {"verb": "reboot", "boot_id": boot, "run": nodes.run(), **more}
    # the connection may go down before the answer
    said = node.shell(bundle.first_command(become=True), stdin=bundle.payload(request), check=False)
    return [json.loads(line) for line in said.splitlines()]


def test_it_is_remembered_until_it_has_happened_and_never_happens_twice(node: Node, wanted: Any) -> None:
    work = [{"role": "driver", "reboot": True, "files": [wanted.root_file("/etc/driver.conf")]}]
    this = nodes.run()
    node.send(converge("prepare", work, run=this))
    before = boot_id(node)
    assert pending(node) == ["driver"]

    [refused] = of(reboot(node, before, run={**this, "number": this["number"] - 1, "id": "late"}), "failed")
    assert "older than the last one" in refused["error"]
    assert boot_id(node) == before

    reboot(node, before)
    node.until(f"test $(cat /proc/sys/kernel/random/boot_id) != {before}", timeout_s=120)
    node.until("systemctl is-system-running", timeout_s=120)
    after = boot_id(node)
    assert after != before
    assert pending(node) == []

    events = reboot(node, before)  # the same request again, as after a lost answer
    assert events[-1]["failed"] == []
    assert boot_id(node) == after
    node.send(converge("remove", [], leave=True))
