"""The blueprint's schema: its keys, typed and described. Sections of later versions are unknown keys.

These types hold what one value can say for itself. What values say together (references, addresses, numbers against
hardware) is checked in `checks`, and what they amount to is a `hpcforge.cluster.model.Cluster`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, create_model

from hpcforge.blueprint import values as v
from hpcforge.blueprint.role_declarations import RoleDeclarations
from hpcforge.blueprint.section import LazySection, Section, schema_of
from hpcforge.blueprint.sections.acceptance import AcceptanceSection, acceptance_model
from hpcforge.blueprint.sections.access import AccessSection, GroupSection, UserSection
from hpcforge.blueprint.sections.fabrics import FabricSection
from hpcforge.blueprint.sections.hardware import Parts, Server
from hpcforge.blueprint.sections.networks import NetworkSection
from hpcforge.blueprint.sections.nodes import LabSection, NodeGroup, Override
from hpcforge.blueprint.sections.services import Services, services_model
from hpcforge.blueprint.sections.site import SiteSection
from hpcforge.blueprint.sections.slurm import SlurmSection
from hpcforge.blueprint.sections.software import Software, software_model
from hpcforge.blueprint.sections.storage import FileSystemSection
from hpcforge.blueprint.smoke_tests import SmokeTestFolder, SmokeTestSpec
from hpcforge.blueprint.variables import Roles, roles_model, variables_of


class BusyNodes(Section):
    """What becomes of changes to a node on which jobs run and that would disturb them."""

    wait: v.Duration = Field(
        description="How long to wait for its jobs, such as 30min or 48h. The node gets no new jobs meanwhile."
    )
    then: Literal["defer"] = Field("defer", description="After that time: leave the change for another apply.")


class RolloutSection(Section):
    """How carefully nodes in service are changed; default above 4 nodes: one canary, 8 at a time, 2 failures."""

    canary: v.Whole | None = Field(
        None, ge=0, le=64, description="Nodes of each group that must succeed before the rest of the group starts."
    )
    max_parallel: v.Whole | None = Field(None, ge=1, le=10_000, description="Workers that change at the same time.")
    stop_after_failures: v.Whole | None = Field(
        None, ge=1, le=10_000, description="Number of failed nodes after which no further node starts."
    )
    busy_nodes: BusyNodes | None = Field(
        None, description="Rules for nodes with running jobs; default: wait 10min, then defer."
    )
    reboot_wait: v.Duration | None = Field(
        None, description="How long to wait for a node that restarts; default: 20min."
    )
    confirm_wait: v.Duration | None = Field(
        None,
        description="Time after which a node reverts a change that could lock hpcforge out, unless hpcforge has "
        "logged in again; default: 60s.",
    )


_SOFTWARE = "Software of the nodes."
_ROLES = "Variables of roles: by role, then by variable, as its role.yaml declares them."
_SERVICES = "Services: a node provides it (`on`), or the site does (`external`)."


_ACCEPTANCE = "Tests that must pass before the cluster counts as working."


class Blueprint(Section):
    """What a cluster should be; `blueprint_model` knows services, roles' variables and smoke tests, too."""

    schema_: Annotated[Literal[1], BeforeValidator(v.whole)] = Field(
        alias="schema", description="Version of the blueprint's schema."
    )
    name: v.ClusterName = Field(description="The cluster's name, Slurm's ClusterName: fixed after the first apply.")
    domain: v.DomainName = Field(description="DNS domain of the nodes.")
    include: Annotated[tuple[v.FilePath, ...], v.ShortForm()] = Field(
        (),
        description="Files with parts of a blueprint, relative to this one and without `..`: shared by several "
        "clusters. Mappings merge; values of this file replace theirs. Other paths in them are relative to "
        "the blueprint.",
    )
    inventory: (
        Annotated[
            Annotated[v.FilePath, Tag("<path>")] | Annotated[LabSection, Tag("<lab>")],
            Discriminator(lambda value: "<lab>" if isinstance(value, dict) else "<path>"),
        ]
        | None
    ) = Field(
        None, description="The machines: the path of an inventory relative to the blueprint, or a lab on this machine."
    )
    secrets: v.SecretsPath | None = Field(
        None, description="age-encrypted file for generated secrets; default: beside the blueprint, ending in .age."
    )
    access: AccessSection = Field(description="How hpcforge logs in.")
    nodes: dict[v.NodeHostlist, NodeGroup] = Field(min_length=1, description="Nodes by hostlist.")
    networks: dict[v.SectionName, NetworkSection] = Field(
        min_length=1, description="Subnets by name; node addresses are in a subnet that all nodes are on."
    )
    services: Services = Field(description=_SERVICES)
    software: Software = Field(description=_SOFTWARE)
    role_folders: tuple[v.FilePath, ...] = Field(
        (),
        description="Folders of the site's own roles, ROLE/role.yaml in each, relative to the blueprint; added to the "
        "shipped ones.",
    )
    roles: Roles = Field(Roles.model_construct(), description=_ROLES)
    slurm: SlurmSection = Field(description="The scheduler.")
    users: dict[v.UserName, UserSection] = Field({}, description="People and accounts, by name.")
    groups: dict[v.GroupName, GroupSection] = Field({}, description="Groups that users share, by name.")
    storage: Annotated[dict[v.SectionName, FileSystemSection], LazySection()] = Field(
        {}, description="File systems that nodes share, by name."
    )
    overrides: dict[v.NodeName, Override] = Field({}, description="Nodes that differ from their hardware, by name.")
    fabrics: Annotated[dict[v.FabricName, FabricSection], LazySection()] = Field(
        {}, description="Switches and cables, by the fabric's name."
    )
    site: Annotated[SiteSection | None, LazySection()] = Field(
        None, description="The room: feeds, power, cooling, racks."
    )
    hardware: Annotated[dict[v.ModelName, Server], LazySection()] = Field(
        {}, description="Server models to add to the catalog or to replace in it."
    )
    parts: Annotated[Parts, LazySection()] = Field(
        Parts.model_construct(), description="GPUs, PDUs, racks and other parts to add."
    )
    rollout: RolloutSection | None = Field(None, description="How changes reach nodes in service.")
    acceptance: AcceptanceSection | None = Field(None, description=_ACCEPTANCE)

    @property
    def wants_lab(self) -> bool:
        """True if the nodes are those of a rehearsal on this machine."""
        return isinstance(self.inventory, LabSection)


def blueprint_model(
    declared: RoleDeclarations, smoke_tests: Mapping[str, SmokeTestFolder], named: Collection[str] | None = None
) -> type[Blueprint]:
    """Return the model of a blueprint with the services and variables of roles, and the smoke tests with a folder.

    `named` are the roles and tests that the blueprint names, None: any; models of the others take time for nothing.
    """
    services: Any = (services_model(declared.offers), Field(description=_SERVICES))
    others = (role for role in declared.roles if role not in declared.variables)
    model = roles_model(declared.variables, others, named)
    elsewhere = {key: f"write it under `{place}`" for key, place in variables_of(declared.variables).items()}
    services[0].not_keys = elsewhere
    accepted = {kind: f"did you mean `{role}`?" for kind, role in declared.accepted.items()}
    model.not_keys = {**elsewhere, **accepted, **model.not_keys}
    roles: Any = (Annotated[model, LazySection()], Field(model.model_construct(), description=_ROLES))
    tested: Any = (acceptance_model(smoke_tests, named) | None, Field(None, description=_ACCEPTANCE))
    software = (software_model(declared.container_runtimes), Field(description=_SOFTWARE))
    fields = {"services": services, "software": software, "roles": roles, "acceptance": tested}
    return create_model("Blueprint", __base__=Blueprint, __doc__="The description of a cluster.", **fields)


def json_schema(
    declared: RoleDeclarations,
    smoke_tests: Mapping[str, SmokeTestFolder],
    names: Mapping[str, Iterable[str]] | None = None,
) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a blueprint, for editors; every field has a description.

    `names` are those that each table of the catalog has, which editors offer; other names are accepted, too.
    """
    return schema_of(blueprint_model(declared, smoke_tests), "hpcforge blueprint", names)


def smoke_test_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a smoke test's `test.yaml`."""
    return schema_of(SmokeTestSpec, "hpcforge smoke test")
