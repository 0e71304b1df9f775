"""A role's own artifact: fetched by the operator host, served by the depot, on its node; and what can go wrong."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator

import pytest

from hpcforge import bundled
from tests.stories.faults.conftest import Site

pytestmark = pytest.mark.lab

TOOL = """
description: A tool that no distribution has.
on: "'worker' in node.functions"
artifacts:
  - {name: tools/tool, source: "file://SOURCE", sha256: DIGEST, path: /opt/tools/tool, mode: "0755"}
checks:
  - {name: the tool runs, command: [/opt/tools/tool], stdout: "^it runs$"}
"""
CONTENT = b"#!/bin/sh\necho it runs\n"


@pytest.fixture
def tool(site: Site) -> Iterator[Site]:
    """The site with the shipped depot on its head, and a role that has an artifact on its worker."""
    for role in ("base", "depot", "service_protection"):
        shutil.copytree(bundled.root() / "roles" / role, site.roles / role)
    site.blueprint.write_text(site.blueprint.read_text().replace("services:\n", "services:\n  depot: {on: n01}\n"))
    (site.roles / "tool").mkdir()
    pin(site, CONTENT)
    yield site
    site.restore()


def pin(site: Site, content: bytes) -> None:
    """The role with this content pinned, whatever the source has."""
    (site.folder / "tool").write_bytes(CONTENT)
    text = TOOL.replace("DIGEST", hashlib.sha256(content).hexdigest())
    (site.roles / "tool/role.yaml").write_text(text.replace("SOURCE", str(site.folder / "tool")))


def test_an_artifact_reaches_its_node_is_watched_and_goes(tool: Site) -> None:
    tool.apply()
    assert tool.inside("n02", "stat -c '%a %U' /opt/tools/tool; /opt/tools/tool") == "755 root\nit runs\n"
    assert "nothing to do" in tool.run("plan").stdout.lower()
    tool.inside("n02", "echo 'echo hers' >> /opt/tools/tool")
    plan = tool.run("plan")
    assert plan.returncode == 2
    assert "tool  n02  (drifted)" in plan.stdout
    assert "~ download /opt/tools/tool  0755" in plan.stdout
    (tool.folder / "tool").unlink()  # the source is asked no more: the depot has it
    tool.apply()
    assert tool.inside("n02", "/opt/tools/tool") == "it runs\n"

    # pinned as something else than the source has: nothing is changed anywhere, and both numbers are said
    other, there = (hashlib.sha256(text).hexdigest() for text in (b"other", CONTENT))
    pin(tool, b"other")
    before = tool.state()
    done = tool.apply(code=1)
    assert f"its SHA-256 is {there}, but {other} is pinned" in done.stderr
    assert tool.state() == before
    assert tool.inside("n02", "/opt/tools/tool") == "it runs\n"

    # the depot's file is damaged, and the node's gone: the node refuses it with both numbers, and has none
    pin(tool, CONTENT)
    tool.inside("n01", "echo damaged > /srv/hpcforge/depot/tools/tool")
    tool.inside("n02", "rm /opt/tools/tool")
    done = tool.apply("--only", "tool", code=5)
    damaged = hashlib.sha256(b"damaged\n").hexdigest()
    assert f"has SHA-256 {damaged}, but {there} is pinned" in done.stderr + done.stdout
    assert tool.inside("n02", "ls -A /opt/tools") == ""
    tool.apply("--force", "depot")
    assert tool.inside("n02", "/opt/tools/tool") == "it runs\n"

    shutil.rmtree(tool.roles / "tool")
    tool.apply()
    assert tool.inside("n02", "ls -d /opt/tools 2>/dev/null || echo gone") == "gone\n"


def test_without_a_depot_the_role_is_named(tool: Site) -> None:
    tool.blueprint.write_text(tool.blueprint.read_text().replace("  depot: {on: n01}\n", ""))
    done = tool.run("plan", "--offline")
    assert done.returncode == 3
    assert "the artifacts of role tool need the service `depot`, which no node provides" in done.stderr
    assert "depot: {on: NODE}" in done.stderr
