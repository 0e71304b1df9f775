"""Every check of a blueprint, of its inventory and of their files: a row with its code and function.

A check is a function that yields findings, and a row here. The rows of a tuple get the same arguments and run in its
order. A lambda adapts a function with fewer arguments. `hpcforge explain` lists all rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.blueprint import checks
from hpcforge.blueprint.inventory import Inventory
from hpcforge.blueprint.role_declarations import RoleDeclarations
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.sections import access, accounts, site, slurm, software
from hpcforge.blueprint.sections.slurm import ReservationSection
from hpcforge.blueprint.validate import Draft, Finding, Given, InputCheck
from hpcforge.blueprint.visible_nodes import NamedNodes
from hpcforge.catalog import Catalog
from hpcforge.cluster import mig, shards, smoke_tests, variables
from hpcforge.cluster.checks import catalog as catalog_checks
from hpcforge.cluster.checks import files as file_checks
from hpcforge.cluster.checks import gpus as gpu_checks
from hpcforge.cluster.checks import hardware as hardware_checks
from hpcforge.cluster.checks import interfaces as interface_checks
from hpcforge.cluster.checks import inventory as inventory_checks
from hpcforge.cluster.checks import releases as release_checks
from hpcforge.cluster.checks import slurm as slurm_checks
from hpcforge.cluster.checks import storage as storage_checks
from hpcforge.cluster.checks import subordinate_numbers as subordinate_checks
from hpcforge.cluster.model import Cluster

if TYPE_CHECKING:
    from hpcforge.design.fabric.graph import Fabric


@dataclass(frozen=True)
class Resolved:
    """The arguments of checks of a resolved blueprint."""

    blueprint: Blueprint
    cluster: Cluster
    catalog: Catalog
    roles: RoleDeclarations
    pinned: Collection[str]  # nodes whose racks the inventory has


# Parts of a blueprint against each other.
BLUEPRINT: tuple[InputCheck[[Draft, NamedNodes]], ...] = (
    InputCheck("node-names", "a node is named once", "nodes", checks.node_name_findings),
    InputCheck("jump-host", "a jump host that is a node has its settings there",
               "access.via, nodes", checks.jump_host_findings),
    InputCheck("node-addresses", "each node has one address, on the network of nodes",
               "nodes.*.addresses, networks, fabrics", checks.address_findings),
    InputCheck("service-nodes", "a service has a node or is the site's, and the services that it needs",
               "services, nodes", checks.service_section_findings),
    InputCheck("site-roles", "roles of the site differ in their names, and run on a node",
               "software.site_roles, nodes", checks.site_role_findings),
    InputCheck("installed-once", "software is installed or preinstalled, and licences are accepted",
               "software.nvidia, software.preinstalled, software.sources",
               lambda draft, _: software.software_findings(draft)),
    InputCheck("dependent-variables", "a variable of a role has the variables that it needs",
               "roles", lambda draft, _: software.variable_findings(draft)),
    InputCheck("controller-node", "the controller of Slurm is a head",
               "slurm.controller, nodes", checks.controller_findings),
    InputCheck("partition-nodes", "nodes of partitions are workers, and one partition is the default",
               "slurm.partitions, nodes", checks.partition_findings),
    InputCheck("account-names", "accounts and QOS have parents, users and a database",
               "slurm.accounts, slurm.qos, slurm.partitions, services, users",
               lambda draft, _: accounts.accounting_findings(draft)),
    InputCheck("directory-users", "users that the blueprint lacks are for the directory",
               "services.directory, users, slurm.accounts, slurm.reservations",
               lambda draft, _: accounts.directory_findings(draft)),
    InputCheck("worker-keys", "only workers have features and a weight",
               "nodes.*.features, nodes.*.weight", checks.worker_key_findings),
    InputCheck("reservation-nodes", "reservations have workers, users, accounts and an end, and do not overlap",
               "slurm.reservations, users", checks.reservation_section_findings),
    InputCheck("job-isolation", "users reach workers, and jobs get a private /tmp that nothing else uses",
               "slurm.ssh, slurm.private_tmp, slurm.settings, storage", checks.job_findings),
    InputCheck("idle-workers", "each worker is in a partition", "nodes, slurm.partitions", checks.idle_worker_findings),
    InputCheck("user-logins", "users, groups and administrators exist and can log in",
               "users, access", lambda draft, _: access.people_findings(draft)),
    InputCheck("storage-mounts", "file systems have servers, paths and mounts that do not hide each other",
               "storage, nodes, networks, users", checks.storage_section_findings),
    InputCheck("override-nodes", "an override is of a node, with its whole reason",
               "overrides, nodes", checks.override_section_findings),
    InputCheck("test-settings", "smoke tests have nodes, time and a user",
               "acceptance, nodes, slurm.partitions, users", checks.acceptance_section_findings),
    InputCheck("node-racks", "racks of nodes exist, and `u` has a rack",
               "nodes.*.rack, nodes.*.u, site.racks", checks.rack_findings),
    InputCheck("site-parts", "racks, feeds and rows of the site fit each other",
               "site", lambda draft, _: site.site_findings(draft)),
    InputCheck("fabric-keys", "a fabric has nodes, racks, a subnet manager and the keys of its topology",
               "fabrics, nodes, site.racks", checks.fabric_section_findings),
    InputCheck("network-ranges", "networks do not overlap, and fit their fabric and their purpose",
               "networks, fabrics", checks.network_section_findings),
)  # fmt: skip

# A blueprint against the catalog.
CATALOG: tuple[InputCheck[[Draft, Catalog]], ...] = (
    InputCheck("known-models", "models of hardware and GPUs exist",
               "nodes.*.hardware, nodes.*.gpus, overrides", catalog_checks.model_findings),
    InputCheck("own-models", "own models name models that exist, and packets that switches carry",
               "hardware, parts, fabrics, networks.*.mtu, site", hardware_checks.hardware_findings),
    InputCheck("worker-gpus", "the GPUs of workers are set, in the number that the model is sold with",
               "nodes.*.gpus, overrides", gpu_checks.gpu_findings),
    InputCheck("mig-instances", "MIG instances exist, fit their GPU and are requested by name",
               "nodes.*.gpus.mig, slurm", mig.mig_findings),
    InputCheck("gpu-shards", "shards are of GPUs that can have them",
               "nodes.*.gpus.shards, slurm", shards.shard_findings),
    InputCheck("override-gpus", "an override keeps GPU instances and shards",
               "overrides, nodes", gpu_checks.override_findings),
    InputCheck("worker-facts", "workers have cores and memory, more than the reserve",
               "nodes.*.hardware, overrides, hardware, slurm.reserve", catalog_checks.worker_fact_findings),
    InputCheck("known-system", "system, drivers and frameworks exist, for the hardware of the nodes",
               "software, nodes, slurm.topology, services", catalog_checks.system_findings),
    InputCheck("file-systems", "kinds of file systems exist, with addresses and options of their kind",
               "storage", storage_checks.storage_kind_findings),
    InputCheck("slurm-settings", "Slurm knows each setting and its value, and settings fit each other",
               "slurm.settings, slurm.partitions.*.settings", slurm_checks.slurm_findings),
    InputCheck("known-releases", "releases of overrides exist", "overrides.*.release", release_checks.unknown_releases),
)  # fmt: skip

# Addresses of a blueprint or its inventory.
ADDRESSES: tuple[InputCheck[[Draft, Draft | None]], ...] = (
    InputCheck("missing-addresses", "each node has an address in the blueprint or in the inventory",
               "nodes, networks; nodes of the inventory", inventory_checks.missing_address_findings),
)  # fmt: skip

# An inventory against its blueprint.
INVENTORY: tuple[InputCheck[[Draft, Draft, NamedNodes]], ...] = (
    InputCheck("inventory-nodes", "nodes of the inventory are in the blueprint",
               "nodes", inventory_checks.unknown_node_findings),
    InputCheck("inventory-jump-host", "a jump host that is a node has its settings there",
               "access.via, nodes", inventory_checks.jump_host_findings),
    InputCheck("inventory-networks", "networks of the inventory are in the blueprint",
               "networks", inventory_checks.unknown_network_findings),
    InputCheck("rack-positions", "rack positions are of nodes and switches of the blueprint",
               "positions", inventory_checks.position_findings),
    InputCheck("unique-identities", "MAC addresses, serial numbers and BMC addresses belong to one machine",
               "nodes.*.mac, nodes.*.ports, nodes.*.serial, nodes.*.bmc, switches", inventory_checks.identity_findings),
    InputCheck("inventory-addresses", "addresses of the inventory are on the network, and belong to one node",
               "nodes.*.address, networks", inventory_checks.address_findings),
)  # fmt: skip

# Files that a blueprint names, relative to its folder.
FILES: tuple[InputCheck[[Draft, Path]], ...] = (
    InputCheck("user-keys", "files of public keys are readable", "users.*.keys", file_checks.user_key_findings),
    InputCheck("site-role-folders", "folders of the site's roles are Ansible roles",
               "software.site_roles", file_checks.site_role_folder_findings),
    InputCheck("repository-key", "the key of NVIDIA's repository has the expected fingerprint",
               "software.sources.nvidia", file_checks.repository_key_findings),
)  # fmt: skip

# Files that an inventory names; the path is the inventory's own.
INVENTORY_FILES: tuple[InputCheck[[Draft, Path]], ...] = (
    InputCheck("private-key", "the private key of the inventory exists",
               "access.key", file_checks.private_key_findings),
)  # fmt: skip

# An inventory against the fabrics of the design.
SWITCHES: tuple[InputCheck[[Inventory, Iterable[Fabric]]], ...] = (
    InputCheck("inventory-switches", "switches of the inventory and their ports are in the design",
               "switches; fabrics of the blueprint", interface_checks.switch_findings),
)  # fmt: skip

# The resolved blueprint.
RESOLVED: tuple[InputCheck[[Resolved]], ...] = (
    InputCheck("interfaces-and-routes", "interfaces fit networks and fabrics, and a node has one default route",
               "networks, fabrics, services",
               lambda inputs: chain(interface_checks.interface_findings(inputs.cluster),
                                interface_checks.route_findings(inputs.cluster))),
    InputCheck("sets-of-racks", "node sets that name racks have nodes",
               "slurm.partitions, slurm.reservations, software.site_roles, services",
               lambda inputs: catalog_checks.empty_set_findings(inputs.blueprint, inputs.cluster)),
    InputCheck("service-memory", "nodes have the memory that their services take", "services, nodes.*.hardware",
               lambda inputs: hardware_checks.memory_findings(
                   inputs.blueprint, inputs.cluster, inputs.catalog, inputs.roles.memory)),
    InputCheck("release-order", "releases of Slurm work together, and have the container runtimes",
               "software.os, overrides.*.release", lambda inputs: release_checks.release_findings(inputs.cluster)),
    InputCheck("slurm-topologies", "a fabric gives each topology, and none cuts a partition",
               "slurm.topology, slurm.partitions, fabrics, nodes.*.rack",
               lambda inputs: slurm_checks.topology_findings(
                   inputs.blueprint, inputs.cluster, inputs.catalog, inputs.pinned)),
    InputCheck("possible-tests", "the nodes of a smoke test can run it",
               "acceptance.tests", lambda inputs: smoke_tests.impossible_tests(inputs.blueprint, inputs.cluster)),
    InputCheck("missing-variables", "roles that run have their variables",
               "roles, role_folders",
               lambda inputs: variables.missing_variables(inputs.blueprint, inputs.roles, inputs.cluster)),
    InputCheck("subordinate-numbers", "subordinate numbers of containers differ from the numbers of users",
               "users.*.uid, roles", lambda inputs: subordinate_checks.subordinate_findings(inputs.cluster)),
    InputCheck("image-drivers", "nodes that get an image get a driver for their GPUs",
               "software, nodes.*.gpus",
               lambda inputs: gpu_checks.driver_findings(inputs.blueprint.software, inputs.cluster)),
)  # fmt: skip

# Checks that depend on the current time.
TIME: tuple[InputCheck[[Mapping[str, ReservationSection], str]], ...] = (
    InputCheck("past-reservations", "a reservation is not over", "slurm.reservations", slurm.over),
)  # fmt: skip


def table() -> dict[str, InputCheck[...]]:
    """Return every check by its code, in the order in which they run."""
    tuples: tuple[tuple[InputCheck[...], ...], ...] = (
        FILES, INVENTORY_FILES, BLUEPRINT, CATALOG, ADDRESSES, INVENTORY, SWITCHES, RESOLVED, TIME
    )  # fmt: skip
    return {check.code: check for rows in tuples for check in rows}


def file_of(check: InputCheck[...]) -> str:
    """Return the file that a check reports on: the blueprint or the inventory."""
    of_inventory: tuple[InputCheck[...], ...] = (*INVENTORY_FILES, *INVENTORY, *SWITCHES)
    return "inventory" if check in of_inventory else "blueprint"


def run(checks: Iterable[InputCheck[Given]], *args: Given.args, **kwargs: Given.kwargs) -> Iterator[Finding]:
    """Yield the findings of these checks, in their order."""
    for check in checks:
        yield from check.function(*args, **kwargs)


def blueprint_findings(draft: Draft, catalog: Catalog) -> Iterator[Finding]:
    """Yield findings of a blueprint alone and against the catalog."""
    yield from run(BLUEPRINT, draft, NamedNodes(draft))
    yield from run(CATALOG, draft, catalog)


def inventory_findings(machines: Draft, draft: Draft) -> Iterator[Finding]:
    """Yield findings of an inventory against its blueprint."""
    yield from run(INVENTORY, machines, draft, NamedNodes(draft))
