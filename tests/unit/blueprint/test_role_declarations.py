"""A service is declared by the role that offers it, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.blueprint.diagnostics import InvalidInput, render_all
from hpcforge.blueprint.role_declarations import DeclarationError, read_declared
from hpcforge.blueprint.schema import json_schema
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster, Service
from hpcforge.kinds.files import File
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.roles.role import load_roles
from tests.support.shipped import ROOT

CASE = ROOT / "tests" / "unit" / "blueprint" / "cases" / "valid.yaml"
LOGS = """\
description: Sends what happens on a node to one place.
services:
  logs:
    description: Where logs are kept.
    on: The node that keeps them.
    options:
      also: {list_of: host, description: Machines that get a copy.}
    external: {list_of: host, description: The site's own log servers.}
on: cluster.services.logs.on or cluster.services.logs.external
files:
  - path: /etc/logs.conf
    content: "to {{ cluster.services.logs.host or cluster.services.logs.external | join(' ') }}\\n"
"""


@pytest.fixture
def roles(tmp_path: Path) -> Path:
    """A site's folder of roles, with one in it."""
    (tmp_path / "roles" / "logs").mkdir(parents=True)
    (tmp_path / "roles" / "logs" / "role.yaml").write_text(LOGS)
    return tmp_path / "roles"


def cluster(folder: Path, roles: Path | None, said: str) -> Cluster:
    path = folder / "b.yaml"
    named = f"role_folders: [{roles.name}]\n" if roles else ""
    path.write_text(named + CASE.read_text().replace("services: {", f"services: {{{said}"))
    return load(path).cluster


def logs_conf(of: Cluster, roles: Path) -> set[str]:
    desired = compile_desired(of, load_roles(bundled.roles(), roles), {})
    wanted = [one for node in desired.nodes.values() for one in node if one.role == "logs"]
    return {desired.texts[file.digest or ""] for one in wanted for file in one.of(File)}


def test_what_a_role_offers_may_be_said_and_is_used(tmp_path: Path, roles: Path) -> None:
    ours = cluster(tmp_path, roles, "logs: {on: head, also: [a.example.org]}, ")
    assert ours.services["logs"] == Service(("head",), (), {"also": ("a.example.org",)})
    assert logs_conf(ours, roles) == {"to head\n"}
    outside = cluster(tmp_path, roles, "logs: {external: [l1.example.org, l2.example.org]}, ")
    assert logs_conf(outside, roles) == {"to l1.example.org l2.example.org\n"}
    none = cluster(tmp_path, roles, "")
    assert none.services["logs"] == Service((), (), {"also": ()})
    assert logs_conf(none, roles) == set()


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("logs: {on: head, external: [l.example.org]}, ", "`logs` needs one of `on` and `external`, not both"),
        ("logs: {}, ", "`logs` needs one of `on` and `external`, not neither"),
        ("logs: {on: haed}, ", "did you mean `head`?"),
        ("logs: {external: [a b]}, ", "`a b` is not a host name or an IPv4 address"),
        (
            "logs: {external: [l.example.org], also: [m.example.org]}, ",
            "`also` needs `on`: it is for a service that a node provides",
        ),
        ("logs: {onn: head}, ", "unknown key `onn`"),
        ("lgos: {on: head}, ", "did you mean `logs`?"),
        ("monitoring: {on: head}, ", "hint: known: dns, time, depot, "),
    ],
)
def test_what_is_wrong_with_it_is_said_as_of_any_other(tmp_path: Path, roles: Path, said: str, error: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        cluster(tmp_path, roles, said)
    assert error in render_all(raised.value.diagnostics)


def test_without_the_role_the_service_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as raised:
        cluster(tmp_path, None, "logs: {on: head}, ")
    assert "unknown key `logs`" in render_all(raised.value.diagnostics)


def test_the_schema_for_editors_follows(roles: Path) -> None:
    logs = json_schema(read_declared(bundled.roles(), roles), {})["$defs"]["Logs"]
    assert logs["properties"]["external"]["description"] == "The site's own log servers."
    assert list(logs["properties"]) == ["on", "also", "external"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  logs:", "  dns:", "another role already offers this service"),
        ("  logs:", "  copy:", "invalid name for a service"),
        ("  logs:", "  Logs:", "String should match"),
        ("list_of: host", "list_of: hosts", "Input should be 'text', 'name', 'whole'"),
        ("    options:", "    optoins:", "Extra inputs are not permitted"),
        (
            "on: cl",
            "vars: {days: {type: whole, default: 3, rehearsed: few, description: Days.}}\non: cl",
            "rehearsed: ",
        ),
    ],
)
def test_a_role_that_declares_it_wrongly_is_named(roles: Path, old: str, new: str, said: str) -> None:
    path = roles / "logs" / "role.yaml"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(DeclarationError, match=r"logs/role\.yaml") as raised:
        read_declared(bundled.roles(), roles)
    assert said in str(raised.value)


def test_a_role_adds_a_container_runtime(roles: Path) -> None:
    path = roles / "logs" / "role.yaml"
    path.write_text(path.read_text() + "container_runtime: boxes\n")
    declared = read_declared(bundled.roles(), roles)
    assert "boxes" in declared.container_runtimes
    section = json_schema(declared, {})["$defs"]["ContainersSection"]
    assert "boxes" in section["properties"]["runtimes"]["items"]["enum"]
    path.write_text(path.read_text().replace("boxes", "podman"))
    with pytest.raises(DeclarationError, match=r"container_runtime: role .* provides podman, too"):
        read_declared(bundled.roles(), roles)
