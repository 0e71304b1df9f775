"""Checks across the sections of a blueprint: names, addresses and references, by place and severity."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hpcforge.blueprint import checks
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.visible_nodes import NamedNodes
from tests.unit.blueprint.drafts import SMALL, draft, errors, places

Check = Callable[[Draft, NamedNodes], Iterator[Finding]]
HEAD = "  head: {functions: [head], hardware: generic-1u, addresses: 10.1.0.1}\n"
WORKERS = "functions: [worker], hardware: rehearsal-node"
MAIN = "main: {nodes: all, default: true}"
SLURM = "  controller: head\n"


def result(check: Check, *changes: tuple[str, str], text: str = SMALL) -> list[tuple[str, str]]:
    blueprint = draft(*changes, text=text)
    return places(check(blueprint, NamedNodes(blueprint)))


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ((HEAD, HEAD), []),
        ((HEAD, f"{HEAD}{HEAD.replace('head:', 'h[1-2]:')}"), ["nodes.h[1-2].addresses", "nodes.h[1-2].addresses"]),
        (("[11-14]", "[11-13]"), ["nodes.w[01-04].addresses"]),
        (("[11-14]", "[1,12-14]"), ["nodes.w[01-04].addresses"]),  # the head's
        (("10.1.0.1}", "10.2.0.1}"), ["nodes.head.addresses"]),
        (("10.1.0.1}", "10.1.0.0}"), ["nodes.head.addresses"]),
        (("10.1.0.1}", "10.1.0.255}"), ["nodes.head.addresses"]),
        (("cidr: 10.1.0.0/24", "cidr: x"), []),  # the network is not known
    ],
)
def test_each_node_has_one_address_on_the_network_of_nodes(change: tuple[str, str], wrong: list[str]) -> None:
    assert result(checks.address_findings, change) == errors(*wrong)


def test_a_name_for_many_addresses_may_be_a_range() -> None:
    blueprint = draft((HEAD, HEAD.replace("head:", "gpu01-02:").replace("10.1.0.1", '"10.1.0.[1-2]"')))
    [finding] = checks.address_findings(blueprint, NamedNodes(blueprint))
    assert "`gpu[01-02]`" in (finding.hint or "")


@pytest.mark.parametrize(
    ("via", "wrong"),
    [
        ("head", []),
        ("{host: head, user: ada}", ["access.via.user"]),
        ("{host: gate.example.org, user: ada}", []),
    ],
)
def test_a_jump_host_that_is_a_node_has_its_settings_there(via: str, wrong: list[str]) -> None:
    change = ("access: {user: ops}", f"access: {{user: ops, via: {via}}}")
    assert result(checks.jump_host_findings, change) == errors(*wrong)


@pytest.mark.parametrize(
    ("dns", "wrong"),
    [
        ("{on: head}", []),
        ("{external: [10.0.0.1]}", []),
        ("{on: head, external: [10.0.0.1]}", ["services.dns"]),
        ("{forward: [10.0.0.1]}", ["services.dns", "services.dns.forward"]),
        ("{on: nosuch}", ["services.dns.on"]),
        ("{on: login}", ["services.dns.on"]),  # no node has that function
        ("{on: worker}", ["services.dns.on"]),  # more than one
    ],
)
def test_a_service_has_a_node_or_is_the_sites(dns: str, wrong: list[str]) -> None:
    assert result(checks.service_section_findings, ("dns: {on: head}", f"dns: {dns}")) == errors(*wrong)


@pytest.mark.parametrize(
    ("more", "wrong"), [("grafana: {on: head}", ["services.grafana"]), ("grafana: {on: head}, metrics: {on: head}", [])]
)
def test_a_service_has_the_services_that_it_needs(more: str, wrong: list[str]) -> None:
    change = ("time: {on: head}", f"time: {{on: head}}, {more}")
    assert result(checks.service_section_findings, change) == errors(*wrong)


@pytest.mark.parametrize(
    ("roles", "wrong"),
    [
        ("{path: roles/a, on: head}, {path: roles/b, on: all}", []),
        ("{path: roles/a, on: head}, {path: ours/a, on: all}", errors("software.site_roles.1.path")),
        ("{path: roles/a, on: nosuch}", errors("software.site_roles.0.on")),
        ("{path: roles/a, on: login}", errors("software.site_roles.0.on")),
    ],
)
def test_roles_of_the_site_run_somewhere(roles: str, wrong: list[tuple[str, str]]) -> None:
    change = ('release: "12"}\n', f'release: "12"}}\n  site_roles: [{roles}]\n')
    assert result(checks.site_role_findings, change) == wrong


@pytest.mark.parametrize(
    ("controller", "wrong"), [("head", []), ("w01", ["slurm.controller"]), ("nosuch", ["slurm.controller"])]
)
def test_the_controller_is_a_head(controller: str, wrong: list[str]) -> None:
    change = (SLURM, SLURM.replace("head", controller))
    assert result(checks.controller_findings, change) == errors(*wrong)


@pytest.mark.parametrize(
    ("partitions", "wrong"),
    [
        (MAIN, []),
        (f"{MAIN}\n    two: {{nodes: w01}}", []),
        (f"{MAIN}\n    two: {{nodes: w01, default: true}}", errors("slurm.partitions.two.default")),
        ("main: {nodes: all}", [("slurm.partitions", "warning")]),
        ("main: {nodes: head, default: true}", errors("slurm.partitions.main.nodes")),
        ('main: {nodes: "all!w[01-04]", default: true}', errors("slurm.partitions.main.nodes")),
        (
            f'{MAIN[:-1]}, settings: {{AllocNodes: "head,other"}}}}',
            [("slurm.partitions.main.settings.AllocNodes", "warning")],
        ),
        (f"{MAIN[:-1]}, settings: {{AllocNodes: ALL}}}}", []),
    ],
)
def test_partitions_have_workers_and_one_is_the_default(partitions: str, wrong: list[tuple[str, str]]) -> None:
    assert result(checks.partition_findings, (MAIN, partitions)) == wrong


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ((), []),
        (((MAIN, "main: {nodes: all!w04, default: true}"),), [("nodes.w[01-04]", "warning")]),
        (((MAIN, "main: {nodes: nosuch, default: true}"),), []),  # which may be why
        (((WORKERS, WORKERS.replace("worker", "login")), (MAIN, "main: {nodes: head}")), errors("nodes")),
    ],
)
def test_each_worker_is_in_a_partition(changes: tuple[tuple[str, str], ...], wrong: list[tuple[str, str]]) -> None:
    assert result(checks.idle_worker_findings, *changes) == wrong


@pytest.mark.parametrize(("key", "value"), [("features", "[fast]"), ("weight", "5")])
def test_only_workers_are_nodes_of_slurm(key: str, value: str) -> None:
    for line, wrong in ((HEAD.strip(), [(f"nodes.head.{key}", "warning")]), (WORKERS, [])):
        change = (line.removesuffix("}"), f"{line.removesuffix('}')}, {key}: {value}")
        assert result(checks.worker_key_findings, change) == wrong


@pytest.mark.parametrize(
    ("override", "wrong"),
    [
        ("w01: {sockets: 1, reason: seen}", []),
        ("w09: {sockets: 1, reason: seen}", errors("overrides.w09")),
        ("w01:\n    sockets: 1\n    reason: DIMM #3 is out", [("overrides.w01.reason", "warning")]),
        ("w01:\n    sockets: 1\n    reason: DIMM # why", []),  # a comment as people write them
        ('w01:\n    sockets: 1\n    reason: "DIMM #3"', []),
    ],
)
def test_an_override_is_of_a_node_with_its_whole_reason(override: str, wrong: list[tuple[str, str]]) -> None:
    text = f"{SMALL}overrides:\n  {override}\n"
    assert result(checks.override_section_findings, text=text) == wrong


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ("ssh: jobs-only", []),
        ("ssh: jobs-only\n  enforce: []", ["slurm.ssh"]),
        ("private_tmp: /scratch/jobs", []),
        ("private_tmp: /var/spool/jobs", []),
        ("private_tmp: /tmp/jobs", ["slurm.private_tmp"]),
        ("private_tmp: /usr/local/jobs", ["slurm.private_tmp"]),
        ("private_tmp: /srv", ["slurm.private_tmp"]),
        ("private_tmp: /srv/jobs", []),
        ("private_tmp: /projects/jobs", ["slurm.private_tmp"]),  # which nodes share
        ('private_tmp: /scratch\n  settings: {PrologFlags: "Contain,NoHold"}', ["slurm.settings.PrologFlags"]),
        ("settings: {PrologFlags: NoHold}", []),
    ],
)
def test_jobs_have_a_tmp_and_sessions_of_their_own(settings: str, wrong: list[str]) -> None:
    text = f'{SMALL}storage: {{s: {{kind: nfs, external: "nas:/p", mount: /projects}}}}\n'
    assert result(checks.job_findings, (SLURM, f"{SLURM}  {settings}\n"), text=text) == errors(*wrong)


def test_where_all_workers_are_heads_nobody_is_kept_out() -> None:
    both = (WORKERS, WORKERS.replace("[worker]", "[head, worker]"))
    assert result(checks.job_findings, both, (SLURM, f"{SLURM}  ssh: jobs-only\n")) == errors("slurm.ssh")


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        ("rack: r1, u: 3", []),
        ("rack: r3, u: 3", ["nodes.head.rack"]),
        ("u: 3", ["nodes.head.u"]),
    ],
)
def test_a_node_stands_in_a_rack_that_there_is(place: str, wrong: list[str]) -> None:
    text = SMALL.replace("generic-1u,", f"generic-1u, {place},") + 'site: {racks: {"r[1-2]": {model: x}}}\n'
    assert result(checks.rack_findings, text=text) == errors(*wrong)


def test_a_name_that_two_groups_have_is_wrong_once() -> None:
    twice = (HEAD, f"{HEAD}{HEAD.replace('head:', 'w02:').replace('10.1.0.1', '10.1.0.9')}")
    assert result(checks.node_name_findings, twice) == errors("nodes.w[01-04]")
