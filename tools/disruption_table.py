"""The disruption by each field of a blueprint: the tool changes the field and compares the two `Desired`s.

It prints docs/disruption.md, and a test compares the page:

    python -m tools.disruption_table
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hpcforge import bundled
from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.frameworks import FRAMEWORKS
from hpcforge.kinds import KINDS
from hpcforge.kinds.files import File
from hpcforge.kinds.resource import Resource
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.desired import DISRUPTIONS, Desired, DesiredRole, Disruption, by_kind
from hpcforge.plan.diff import diff
from hpcforge.plan.observation import Difference, Observation, absent, nothing_there
from hpcforge.plan.plan import Change, Plan, Removal
from hpcforge.plan.resources import TYPES
from hpcforge.plan.roles.role import Role, load_roles

RELEASES = ("12", "13")
_PATH = Path("/disruption.yaml")  # does not exist: `load` gets its text
_FACTS = {"memory_kib": 1 << 40, "cpus": 1 << 20, "gpus": {"fake": 99, "nvidia": 99}}
_NEW_UNIT = {"enabled": False, "active": "inactive", "restart_pending": False}
_WORDS = {"enable": "enables", "start": "starts", "restart": "**restarts**", "refresh": "refreshes"}

_PAGE = """\
# What changing a field of the blueprint disrupts

Made by `python -m tools.disruption_table`; a test keeps it so. Each row was found by making the change in the blueprint
below and comparing what nodes should have before and after, by the same code that makes a plan. *Disruption* is the
worst of what happens to nodes that are configured already: `none`, `restart` of a service, `drain` of jobs, `reboot`,
`destroys-data`. `hpcforge plan` says the same for your own change, on your own nodes.

| field | change | disruption | nodes touched | what happens |
|---|---|---|---|---|
{rows}

## Not in the table

| field | why |
|---|---|
{kept}

## The blueprint

```yaml
{blueprint}```
"""

BLUEPRINT = """\
schema: 1
name: example
domain: example.org
access: {user: ops, become: sudo}
nodes:
  head:     {functions: [head], hardware: rehearsal-node, addresses: 10.77.0.10}
  login:    {functions: [login], hardware: rehearsal-node, addresses: 10.77.0.20}
  w[01-03]: {functions: [worker], hardware: rehearsal-node, addresses: "10.77.0.[11-13]", gpus: {model: fake, count: 2}}
networks:
  cluster: {cidr: 10.77.0.0/24}
services:
  dns:   {on: head, forward: [192.0.2.1]}
  time:  {on: head}
  depot: {on: head}
software:
  os: {name: debian, release: "@RELEASE@"}
  frameworks: {pytorch: "2.13.0"}
slurm:
  controller: head
  reserve: {cores: 1, memory_gib: 1}
  enforce: [cores, memory, gpus]
  partitions:
    main: {nodes: all, default: true, max_time: "01:00:00"}
users:
  ada:   {uid: 2001, admin: true}
  bob:   {uid: 2003}
  tests: {uid: 2002}
rollout: {canary: 0}
acceptance:
  run_as: tests
  tests:
    allreduce: {nodes: main}
    train_ddp: {nodes: main}
"""


@dataclass(frozen=True)
class Mutation:
    """A change to one field: `new` replaces `old` in the blueprint."""

    field: str  # as in docs/blueprint.md; with .* it includes the fields below it
    what: str
    old: str
    new: str


_W = 'w[01-03]: {functions: [worker], hardware: rehearsal-node, addresses: "10.77.0.[11-13]"'
_FABRIC = "fabrics:\n  lan: {kind: roce, rate_gbps: 100, topology: fat-tree, switch: sn4600, nodes: worker}\n"
MUTATIONS = (
    Mutation(
        "software.containers.*",
        "runtimes of containers for jobs",
        "software:\n",
        "software:\n  containers: {runtimes: [podman, charliecloud, oci]}\n",
    ),
    Mutation("domain", "another domain", "domain: example.org", "domain: example.net"),
    Mutation("access.user", "another login", "user: ops", "user: admin"),
    Mutation("nodes", "one node more", _W, _W.replace("03]", "04]").replace("13]", "14]")),
    Mutation("nodes", "one node less", _W, _W.replace("03]", "02]").replace("13]", "12]")),
    Mutation(
        "nodes.<name>.functions", "a login node that works, too", "functions: [login]", "functions: [login, worker]"
    ),
    Mutation("nodes.<name>.gpus.count", "fewer GPUs", "count: 2", "count: 1"),
    Mutation("nodes.<name>.gpus.*", "no GPUs", ", gpus: {model: fake, count: 2}", ""),
    Mutation("nodes.<name>.features", "a feature of the workers", _W, f"{_W}, features: [fast]"),
    Mutation("nodes.<name>.weight", "a weight of the workers", _W, f"{_W}, weight: 5"),
    Mutation("nodes.<name>.addresses", "the workers move", "10.77.0.[11-13]", "10.77.0.[31-33]"),
    Mutation("networks.<name>.cidr", "a larger subnet", "10.77.0.0/24", "10.77.0.0/23"),
    Mutation(
        "networks.<name>.interface",
        "the workers' interface, which NCCL uses",
        "cluster: {cidr: 10.77.0.0/24}",
        "cluster: {cidr: 10.77.0.0/24, interface: bond0}",
    ),
    Mutation("fabrics.*", "a fabric between the workers, for Slurm's topology", "networks:\n", f"{_FABRIC}networks:\n"),
    Mutation("services.dns.forward", "another server for other names", "192.0.2.1", "192.0.2.2"),
    Mutation("services.dns.external", "the site's DNS", "{on: head, forward: [192.0.2.1]}", "{external: [192.0.2.1]}"),
    Mutation("services.dns.on", "names served elsewhere", "dns:   {on: head", "dns:   {on: login"),
    Mutation("services.time.external", "the site's time", "time:  {on: head}", "time:  {external: [ntp.example.org]}"),
    Mutation("services.time.on", "time served elsewhere", "time:  {on: head}", "time:  {on: login}"),
    Mutation("services.depot.on", "wheels served elsewhere", "depot: {on: head}", "depot: {on: login}"),
    Mutation("software.frameworks.pytorch", "without PyTorch", '{pytorch: "2.13.0"}', "{}"),
    Mutation("slurm.reserve.cores", "another reserve", "cores: 1, memory_gib: 1", "cores: 0, memory_gib: 1"),
    Mutation("slurm.reserve.memory_gib", "another reserve", "cores: 1, memory_gib: 1", "cores: 1, memory_gib: 2"),
    Mutation("slurm.enforce", "cores only", "[cores, memory, gpus]", "[cores]"),
    Mutation("slurm.ssh", "ssh with a job only", "slurm:\n", "slurm:\n  ssh: jobs-only\n"),
    Mutation("slurm.private_tmp", "a /tmp for each job", "slurm:\n", "slurm:\n  private_tmp: /var/spool/jobs\n"),
    Mutation("slurm.partitions", "one partition more", "    main:", '    more: {nodes: "w01"}\n    main:'),
    Mutation("slurm.partitions.<name>.nodes", "fewer nodes", "main: {nodes: all", 'main: {nodes: "w[01-02]"'),
    Mutation("slurm.partitions.<name>.default", "no default", "default: true", "default: false"),
    Mutation("slurm.partitions.<name>.max_time", "another limit", "01:00:00", "02:00:00"),
    Mutation(
        "slurm.partitions.<name>.settings",
        "a parameter of Slurm's",
        "main: {nodes: all",
        "main: {nodes: all, settings: {PriorityTier: 10}",
    ),
    Mutation("slurm.settings", "a setting of Slurm's", "slurm:\n", "slurm:\n  settings: {MaxJobCount: 5000}\n"),
    Mutation("users", "one user more", "  tests: {uid: 2002}", "  tests: {uid: 2002}\n  eve: {uid: 2004}"),
    Mutation("users", "one user less", "  bob:   {uid: 2003}\n", ""),
    Mutation("users.<name>.uid", "another number", "bob:   {uid: 2003}", "bob:   {uid: 2005}"),
    Mutation("users.<name>.admin", "no admin any more", "{uid: 2001, admin: true}", "{uid: 2001}"),
    Mutation(
        "users.<name>.keys",
        "a key",
        "bob:   {uid: 2003}",
        "bob:   {uid: 2003, keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f]}",
    ),
    Mutation("users.<name>.shell", "another shell", "bob:   {uid: 2003}", "bob:   {uid: 2003, shell: nologin}"),
    Mutation("users.<name>.expires", "a last day", "bob:   {uid: 2003}", 'bob:   {uid: 2003, expires: "2999-12-30"}'),
    Mutation(
        "users.<name>.groups",
        "a group, with its first member",
        "users:\n  ada:   {uid: 2001, admin: true}",
        "groups: {vision: {gid: 3001}}\nusers:\n  ada:   {uid: 2001, admin: true, groups: [vision]}",
    ),
    Mutation(
        "storage.*",
        "a file system of the site's",
        "users:\n",
        'storage: {projects: {kind: nfs, external: "192.0.2.5:/projects", mount: /projects}}\nusers:\n',
    ),
    Mutation("groups.*", "a group", "users:\n", "groups: {vision: {gid: 3001}}\nusers:\n"),
    Mutation(
        "overrides.*", "a node with less", "rollout:", 'overrides: {w02: {memory_gib: 2, reason: "bad"}}\nrollout:'
    ),
    Mutation("rollout.*", "more caution", "canary: 0", "canary: 1"),
    Mutation("acceptance.run_as", "another user tests", "run_as: tests", "run_as: bob"),
    Mutation("acceptance.tests.*", "fewer tests", "    train_ddp: {nodes: main}\n", ""),
)

NOT_MEASURED: Mapping[str, str] = {
    "schema": "the version of this file's own form",
    "name": "fixed after the first apply: nodes refuse another cluster",
    "include": "what is in the files counts, not where it is",
    "inventory": "says where nodes are and which keys they have; see `nodes.<name>.addresses`",
    "secrets": "where the secrets are on the operator host",
    "access.become": "how hpcforge becomes root",
    "access.via": "the way that hpcforge takes, nothing on the nodes",
    "nodes.<name>.hardware": "as what it brings: `gpus`, `overrides`",
    "nodes.<name>.mig": "its GPUs get a new MIG layout, with a drain; slurmctld restarts with the new types",
    "nodes.<name>.system_disk": "nothing, until `apply --install` installs the node",
    "nodes.<name>.shards": "what jobs can request: Slurm's daemons restart as for other `gpus`, and jobs continue",
    "nodes.<name>.rack": "on paper only (`hpcforge design`)",
    "nodes.<name>.u": "on paper only (`hpcforge design`)",
    "software.os": "a distribution is not changed in place: reinstall the node, then `hpcforge nodes replace`",
    "role_folders": "what the roles in it do; the plan shows it, and roles of a folder that is no longer named go",
    "acceptance.folders": "the programs of the tests in it that are asked for, as `acceptance.tests`",
    "roles": "what the role does with it: in its files, in its code or in where it runs; the plan shows it",
    **dict.fromkeys(
        [f"software.frameworks.{name}" for name in FRAMEWORKS],
        "wheels in an environment of its own, with a drain",
    ),
    "software.nvidia": "packages, with a drain; those of kernel modules with a restart of the node",
    "software.amd": "packages, with a drain; firmware and kernel with a restart of the node",
    "software.sources": "where packages come from: no package of another version is taken for it",
    "software.preinstalled": "judged when a plan is made, and never installed (decision 32)",
    "services.grafana": "it needs the site's repository of Grafana; as with `services.metrics`, no job notices",
    "software.site_roles": "what the site's own role does; the plan shows it as opaque",
    "slurm.controller": "a controller is not moved: its state is on its disk",
    **{
        f"networks.<name>.{field}": "where the network says `configure`, its interfaces, with a drain; else nothing"
        for field in ("configure", "fabric", "nodes", "vlan", "mtu", "boot", "bmc", "external", "gateway", "bond")
    },
    "slurm.accounts": "a command of sacctmgr each, no restart; slurmctld restarts with the first, also `fairshare`",
    "slurm.qos": "a command of sacctmgr each, no restart; with the first `preempt` or `priority` slurmctld restarts",
    "slurm.reservations": "a command of scontrol each, no restart; jobs that run are left alone",
    "slurm.partitions.<name>.qos": "as `slurm.partitions.<name>.max_time`",
    "slurm.partitions.<name>.billing": "as `slurm.partitions.<name>.max_time`",
    "slurm.partitions.<name>.topology": "a restart of slurmctld",
    "slurm.topology": "what `fabrics` brings, or without it: a restart of slurmctld",
    "site": "on paper only (`hpcforge design`)",
    "hardware": "as what it brings: `nodes.<name>.gpus`, `overrides`",
    "parts": "on paper only (`hpcforge design`)",
}


@dataclass(frozen=True)
class Effect:
    """The effects of a mutation: the nodes for each role and action, and the worst disruption."""

    mutation: Mutation
    disruption: Disruption
    touched: tuple[str, ...]
    changes: tuple[str, ...]


def mutations(roles: Sequence[Role]) -> tuple[Mutation, ...]:
    """Return `MUTATIONS`, and the first use of each service that roles offer and `BLUEPRINT` does not use."""
    offered = {name: offer for role in roles for name, offer in role.spec.services.items()}
    first = "services:\n"
    return MUTATIONS + tuple(
        Mutation(
            f"services.{name}.*",
            f"{offer.description.rstrip('.')}: from now on",
            first,
            f"{first}  {name}: {{on: head}}\n",
        )
        for name, offer in offered.items()
        if f"\n  {name}:" not in BLUEPRINT and f"services.{name}" not in NOT_MEASURED
    )


def effects(roles: Sequence[Role], release: str) -> Iterator[Effect]:
    """Yield each mutation's effect on a cluster that is up to date before it, for one Debian release."""
    text = BLUEPRINT.replace("@RELEASE@", release)
    _, before = _desired(text, roles)
    for mutation in mutations(roles):
        if text.count(mutation.old) != 1:
            raise ValueError(f"{mutation.field}: {mutation.old!r} is not there exactly once")
        cluster, after = _desired(text.replace(mutation.old, mutation.new), roles, before.nodes)
        plan = diff(cluster, after, observed_as(before, after))
        new = tuple(name for name in after.nodes if name not in before.nodes)
        leaving = tuple(name for name in before.nodes if name not in after.nodes)
        touched = (*plan.touched, *leaving)
        yield Effect(mutation, _worst(plan, leaving), touched, tuple(_describe(plan, new, leaving)))


def observed_as(before: Desired, after: Desired) -> dict[str, Observation]:
    """Return the answers of nodes in the state `before` to the desired state `after`."""
    return {name: _answer(name, before, desired) for name, desired in after.nodes.items()}


def disruption_table(roles: Sequence[Role]) -> str:
    """Return the table in Markdown, for both supported Debian releases."""
    by_release = {release: list(effects(roles, release)) for release in RELEASES}
    rows = []
    for several in zip(*by_release.values(), strict=True):
        first = several[0]
        same = all((effect.disruption, effect.changes) == (first.disruption, first.changes) for effect in several)
        for release, effect in zip(RELEASES, several, strict=True):
            if same and effect is not first:
                continue
            change = effect.mutation.what if same else f"{effect.mutation.what} (Debian {release})"
            nodes = fold(effect.touched) or "none"
            changes = "<br>".join(effect.changes)
            rows.append(f"| `{effect.mutation.field}` | {change} | {effect.disruption} | {nodes} | {changes} |")
    omitted = [f"| `{field}` | {reason} |" for field, reason in NOT_MEASURED.items()]
    return _PAGE.format(
        rows="\n".join(rows), kept="\n".join(omitted), blueprint=BLUEPRINT.replace("@RELEASE@", RELEASES[0])
    )


def _desired(text: str, roles: Sequence[Role], before: Collection[str] = ()) -> tuple[Cluster, Desired]:
    """Return the desired state of a cluster that had these nodes before."""
    cluster = load(_PATH, instead={_PATH: text}).cluster
    removed = [name for name in before if name not in cluster.by_name]
    return cluster, compile_desired(cluster, roles, _secret_digests(cluster, removed))


def _secret_digests(cluster: Cluster, removed: Sequence[str]) -> dict[str, str | None]:
    """Return stand-ins that change with the same values as the real ones of `hpcforge.secrets.host_certificates`."""
    names = {
        f"ssh_host_certificate:{node.name}": f"{node.name}.{cluster.domain} {node.address}" for node in cluster.nodes
    }
    names |= {"munge_key": "a key", "ssh_known_hosts": " ".join((cluster.domain, *removed))}
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in names.items()}


def _answer(name: str, before: Desired, desired: Sequence[DesiredRole]) -> Observation:
    if name not in before.nodes:
        return Observation(name, _FACTS, {role.role: nothing_there(role) for role in desired})
    old_roles = before.nodes[name]
    state = _NodeState(
        packages={package for role in old_roles for package in role.packages},
        resources={(resource.kind, resource.named): resource for role in old_roles for resource in role.resources},
        units={unit.name for role in old_roles for unit in role.units},
        opaque={role.role: role.opaque.digest for role in old_roles if role.opaque},
        texts=before.texts,
    )
    differences = {role.role: state.difference(role) for role in desired}
    receipt = {"run": 1, "surplus": dict(_surplus(old_roles, desired)), "unowned": []}
    return Observation(
        name, _FACTS, {role: difference for role, difference in differences.items() if difference}, receipt=receipt
    )


@dataclass(frozen=True)
class _NodeState:
    """The state of a node, of all roles together."""

    packages: Set[str]
    resources: Mapping[tuple[str, str], Resource]  # by kind and name
    units: Set[str]
    opaque: Mapping[str, str]
    texts: Mapping[str, str]

    def difference(self, desired: DesiredRole) -> Difference:
        """Return the differences from the desired state, as the node program reports them."""
        differences: dict[str, Any] = {
            "packages": [package for package in desired.packages if package not in self.packages],
            **self._resources(desired.resources),
            "units": [_NEW_UNIT | {"name": unit.name} for unit in desired.units if unit.name not in self.units],
        }
        if desired.opaque and self.opaque.get(desired.role) != desired.opaque.digest:
            differences["opaque"] = {"digest": self.opaque.get(desired.role)}
        return {key: value for key, value in differences.items() if value}

    def _resources(self, desired: Sequence[Resource]) -> Mapping[str, Any]:
        present = {
            place: self.resources.get(place) for resource in desired for place in [(resource.kind, resource.named)]
        }
        differing = [resource for resource in desired if present[resource.kind, resource.named] != resource]
        entries = absent(differing)
        for kind, items in entries.items():
            for item in items:
                old = present[kind, item[KINDS[kind].key]]
                if old is not None:
                    item |= {**asdict(old), "exists": True, **self._written(old)}
        return entries

    def _written(self, old: Resource) -> Mapping[str, Any]:
        if not isinstance(old, File):
            return {}
        return {"text": None if old.holds else self.texts[str(old.digest)], "written": old.digest}


def _surplus(
    old_roles: Sequence[DesiredRole], desired: Sequence[DesiredRole]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield, by role, the items that no role declares any more."""
    still = {(kind, name) for role in desired for kind, names in _names(role).items() for name in names}
    for old in old_roles:
        surplus = {kind: [name for name in names if (kind, name) not in still] for kind, names in _names(old).items()}
        if any(surplus.values()):
            does = old.disrupts.get("opaque", "none") if surplus["trees"] else "none"
            yield old.role, {**surplus, "on_remove": old.on_remove, "disrupts": does}


def _names(role: DesiredRole) -> Mapping[str, Sequence[str]]:
    resource_names = by_kind(role.resources, (resource.named for resource in role.resources))
    return {**resource_names, "units": [unit.name for unit in role.units], "trees": [tree.path for tree in role.trees]}


def _worst(plan: Plan, leaving: Sequence[str]) -> Disruption:
    found: set[Disruption] = {change.disruption for step in plan.changes.steps for change in step.changes.values()}
    removals = [removal for removals in plan.changes.removals.values() for removal in removals]
    found |= {"restart"} if any(removal.owns.units for removal in removals) else set()
    found |= {removal.owns.disrupts for removal in removals}
    found |= {"drain"} if leaving else set()
    return max(found, key=DISRUPTIONS.index, default="none")


def _describe(plan: Plan, new: Sequence[str], leaving: Sequence[str]) -> Iterator[str]:
    """Yield a line for each role and action, with its nodes."""
    if new:
        yield f"new: `{fold(new)}` gets all its roles"
    if leaving:
        yield f"leaves: `{fold(leaving)}` is drained, stopped, cleaned"
    lines: dict[str, list[str]] = {}
    for step in plan.changes.steps:
        for node, change in step.changes.items():
            if node not in new:
                lines.setdefault(f"{step.role}: {'; '.join(_parts(change))}", []).append(node)
    for node, removals in plan.changes.removals.items():
        for removal in removals:
            lines.setdefault(f"{removal.role}: {'; '.join(_removal_effects(removal))}", []).append(node)
    for line, nodes in lines.items():
        yield f"`{fold(nodes)}` {line}"


def _removal_effects(removal: Removal) -> Iterator[str]:
    by_verb: dict[str, dict[str, None]] = {"**stops**": dict.fromkeys(removal.owns.units)}
    for kind in reversed(TYPES):
        by_verb.setdefault(TYPES[kind].remove_verb, {}).update(dict.fromkeys(removal.owns.resources.get(kind, ())))
    by_verb["removes"].update(dict.fromkeys(removal.owns.trees))
    yield from (f"{verb} {', '.join(names)}" for verb, names in by_verb.items() if names)


def _parts(change: Change) -> Iterator[str]:
    if change.packages:
        yield f"installs {', '.join(change.packages)}"
    by_verb: dict[str, list[str]] = {}
    for part in change.resources:
        by_verb.setdefault(part.resource.apply_verb, []).append(part.resource.named)
    yield from (f"{verb} {', '.join(names)}" for verb, names in by_verb.items())
    if change.opaque:
        yield f"runs its {change.opaque.opaque.engine} code"
    for unit in change.units:
        yield f"{' and '.join(_WORDS[action] for action in unit.actions)} {unit.name}"


if __name__ == "__main__":
    sys.stdout.write(disruption_table(load_roles(bundled.roles())))
