"""The blueprint's schema: what may be written, typed and described. Sections of later versions are unknown keys.

These types hold what one value can say for itself. What values say together (references, addresses, numbers against
hardware) is checked in `checks`, and what they amount to is a `hpcforge.cluster.model.Cluster`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, create_model

from hpcforge.blueprint import values as v
from hpcforge.blueprint.accounting import Account, Billing, Qos
from hpcforge.blueprint.amd import Amd
from hpcforge.blueprint.declared import Declared
from hpcforge.blueprint.fabrics import Fabric
from hpcforge.blueprint.hardware import Gpus, Parts, Server
from hpcforge.blueprint.lab_kinds import LabKind
from hpcforge.blueprint.mig import GpuSet, Instances, MigProfile, Shards
from hpcforge.blueprint.networks import Network
from hpcforge.blueprint.nvidia import Nvidia, Sources
from hpcforge.blueprint.present import Present
from hpcforge.blueprint.public_keys import HostKey, UserKey
from hpcforge.blueprint.reservations import Reservation
from hpcforge.blueprint.section import Later, Section
from hpcforge.blueprint.services import Services, services_model
from hpcforge.blueprint.site import Site, Units
from hpcforge.blueprint.smoke_tests import SmokeTestFolder, SmokeTestSpec
from hpcforge.blueprint.storage import FileSystem, Folder
from hpcforge.blueprint.variables import Chosen, Roles, chosen_model, roles_model

Function = Literal["head", "login", "storage", "worker"]  # as in hpcforge.cluster.model
GpuFault = Literal[
    "gpu-driver", "gpu-driver-version", "gpu-model", "gpu-memory", "gpu-ecc", "gpu-rows", "gpu-nvlinks",
    "gpu-pcie-width", "gpu-pcie-generation", "gpu-mig",
]  # fmt: skip
Enforced = Literal["cores", "memory", "gpus"]


class Lab(Section):
    """A rehearsal on this machine."""

    lab: LabKind = Field(
        description="What the rehearsal's nodes are: nspawn starts containers with systemd, vm virtual machines "
        "that boot a kernel of their own, vagrant has Vagrant make such machines."
    )


class Via(Section):
    """The machine that nodes are reached through."""

    host: v.HostOrAddress = Field(description="A node, or the name or IPv4 address of another machine.")
    user: v.LoginName | None = Field(None, description="The ssh user there; default, and for a node always: `user`.")
    host_keys: tuple[HostKey, ...] = Field(
        (), description="Its OpenSSH public host keys, type and base64; for a node those of the inventory."
    )


Through = Annotated[Via, v.Short("host")]


class Access(Section):
    """A way into the nodes."""

    user: v.LoginName = Field(description="The ssh user on every node; an ordinary one is enough.")
    become: Literal["sudo", "none"] = Field("sudo", description="How that user becomes root; none: it is root already.")
    via: Through | None = Field(
        None, description="A jump host: over one connection to it all other nodes are reached. Default: straight."
    )


class OverrideGpus(Section):
    """The GPUs that one node really has."""

    model: Annotated[v.ModelName, v.OfCatalog("gpus")] = Field(description="GPU model in the catalog.")
    count: v.Whole = Field(ge=0, le=16, description="GPUs in this node; 0: none.")


class NodeGroup(Section):
    """Machines that are alike."""

    functions: tuple[Function, ...] = Field(min_length=1, description="What the nodes are for; one may have several.")
    hardware: Annotated[v.ModelName, v.OfCatalog("servers")] = Field(description="Server model in the catalog.")
    gpus: Gpus | None = Field(None, description="GPUs of each node; default: those the server model comes with.")
    mig: Annotated[dict[GpuSet, Annotated[dict[MigProfile, Instances], Field(min_length=1)]], Later()] = Field(
        {},
        description="The MIG instances that GPUs of each node are cut into: by GPUs (all, 0-3, 0,2) how many of each "
        "profile one has. A GPU that is not named stays whole.",
    )
    shards: Annotated[dict[GpuSet, Shards], Later()] = Field(
        {},
        description="The shards that jobs may ask for instead of a GPU: by GPUs (all, 0-3, 0,2) how many one has, as "
        "many jobs can share it. A GPU that is not named is not shared. Slurm 23.11.5 or later.",
    )
    addresses: v.Ipv4Hostlist | None = Field(
        None, description="IPv4 addresses in the order of the names, as a hostlist; default: from the inventory."
    )
    rack: v.RackHostlist | None = Field(
        None, description="Racks as a hostlist; nodes fill them in the order of the names. Default: proposed."
    )
    u: Units | None = Field(
        None,
        min_length=1,
        description="Lowest rack unit of each node of a rack: the first rack takes as many nodes as there are units.",
    )


class OperatingSystem(Section):
    """The distribution that is installed on the nodes."""

    name: Annotated[v.ModelName, v.OfCatalog("systems")] = Field(
        description="Distribution, as in ID of /etc/os-release."
    )
    release: Annotated[v.Version, v.OfCatalog("releases")] = Field(
        description="Release, as in VERSION_ID of /etc/os-release."
    )


class Frameworks(Section):
    """What jobs import."""

    pytorch: Annotated[v.Version, v.OfCatalog("pytorch")] | None = Field(
        None, description="PyTorch version in the catalog."
    )


class SiteRole(Section):
    """A site's own Ansible role."""

    path: v.FilePath = Field(description="The role's folder, relative to the blueprint.")
    on: v.NodeSet = Field(description="Nodes, as a node set: a hostlist, a function, a group, a rack, all!w03.")


class Software(Section):
    """Operating system, drivers, frameworks, a site's own roles, and what nodes bring."""

    os: OperatingSystem = Field(description="Operating system of all nodes.")
    frameworks: Frameworks = Field(Frameworks.model_construct(), description="Frameworks on the workers.")
    site_roles: tuple[SiteRole, ...] = Field((), description="The site's own Ansible roles, run after hpcforge's.")
    nvidia: Annotated[Nvidia | None, Later()] = Field(
        None, description="The driver and CUDA that nodes with GPUs of NVIDIA get; judged before any change."
    )
    amd: Annotated[Amd | None, Later()] = Field(
        None, description="The ROCm that nodes with GPUs of AMD get; judged before any change."
    )
    sources: Annotated[Sources, Later()] = Field(
        Sources.model_construct(), description="Where software comes from beside the distribution."
    )
    preinstalled: Annotated[Present, Later()] = Field(
        Present.model_construct(),
        description="Drivers and what goes with them, as nodes with GPUs bring them: judged before any change, "
        "together with `nvidia`, and never installed by hpcforge.",
    )


class Reserve(Section):
    """What the operating system keeps of each worker."""

    cores: v.ReserveCores | None = Field(
        None,
        description="Cores of a worker that jobs do not get; default: one of each socket of 16 cores or more.",
    )
    memory_gib: v.ReserveMemoryGib | None = Field(
        None,
        description="Memory of a worker that jobs do not get, GiB; default: 30 MiB for each GiB, and 400 MiB.",
    )


class Partition(Section):
    """A Slurm partition."""

    nodes: v.NodeSet = Field(description="Workers, as a node set: all, a hostlist, a group, a rack, all!gpu03.")
    default: v.Truth = Field(False, description="Jobs that name no partition go here.")
    max_time: v.MaxTime = Field(
        "infinite", description="Time limit of a job, [days-]hours:minutes:seconds, or infinite."
    )
    qos: v.SectionName | None = Field(
        None, description="A QOS whose limits its jobs have, too; with `services.accounting`."
    )
    billing: Billing | None = Field(
        None, description="What jobs are billed for what they have, with `services.accounting`; default: 1 a thread."
    )


class SlurmTopology(Section):
    """What the scheduler is told of a fabric, so that the nodes of a job are near each other."""

    fabric: v.FabricName | None = Field(
        None, description="The fabric; default: the fastest that workers are on, of infiniband, roce and omni-path."
    )
    plugin: Literal["tree", "block", "flat"] = Field(
        "tree", description="tree: switches; block: units that jobs are kept in, Slurm 24.11 or later; flat: nothing."
    )


class Slurm(Section):
    """Controller and partitions of the scheduler."""

    controller: v.NodeName = Field(description="The head that runs slurmctld.")
    reserve: Reserve = Field(
        Reserve.model_construct(),
        description="What jobs do not get of each worker; `hpcforge show --full` has the outcome.",
    )
    enforce: tuple[Enforced, ...] = Field(("cores", "memory", "gpus"), description="What jobs are held to by cgroups.")
    ssh: Literal["anyone", "jobs-only"] = Field(
        "anyone",
        description="Who may ssh to a worker that is neither head nor login node. jobs-only: users who have a job "
        "there, whose sessions are then part of it, and administrators.",
    )
    private_tmp: Folder | None = Field(
        None,
        description="A folder on each worker's own disk, for Slurm alone: below it each job has a /tmp of its own, "
        "which goes with it, as a /dev/shm does. Default: jobs share the node's.",
    )
    partitions: dict[v.SectionName, Partition] = Field(min_length=1, description="Partitions by name.")
    settings: dict[v.SlurmKey, v.SlurmSetting] = Field(
        {},
        description="Further settings of slurm.conf, as in TreeWidth: 50, by names that its release has. Those that "
        "hpcforge writes are refused. DefMemPerCPU, DefMemPerGPU or DefMemPerNode: for jobs that ask for no memory; "
        "else their CPUs' share.",
    )
    accounts: Annotated[dict[v.SectionName, Account], Later()] = Field(
        {}, description="Accounts by name, with `services.accounting`; then jobs are for users who are in one."
    )
    qos: Annotated[dict[v.SectionName, Qos], Later()] = Field(
        {}, description="Qualities of service by name, with `services.accounting`."
    )
    reservations: Annotated[dict[v.SectionName, Reservation], Later()] = Field(
        {}, description="Nodes that Slurm keeps for somebody from one time to another, by name."
    )
    topology: SlurmTopology = Field(
        SlurmTopology.model_construct(), description="What Slurm knows of the network between nodes."
    )


Shell = Literal["bash", "zsh", "fish", "nologin"]


class User(Section):
    """A person or a service account, the same on every node."""

    uid: v.Whole = Field(ge=1000, le=59_999, description="User and group number, 1000 to 59999.")
    admin: v.Truth = Field(False, description="May become root with sudo.")
    keys: tuple[UserKey, ...] = Field(
        (), description="OpenSSH public keys, or paths of .pub files relative to the blueprint."
    )
    groups: tuple[v.GroupName, ...] = Field((), description="Groups of `groups` that she is in, beside her own.")
    shell: Shell = Field("bash", description="What she logs in to; `nologin`: owns files and jobs, and never logs in.")
    expires: v.Date | None = Field(
        None, description="From this day on nobody logs in to it, by whatever means (year-month-day, UTC)."
    )


class Group(Section):
    """People who share files, the same on every node."""

    gid: v.Whole = Field(ge=1000, le=59_999, description="Group number, 1000 to 59999; no user's.")


class Override(Section):
    """What one node really has, and why."""

    sockets: v.Sockets | None = Field(None, description="Processor sockets.")
    cores_per_socket: v.CoresPerSocket | None = Field(None, description="Cores in one socket.")
    threads_per_core: v.ThreadsPerCore | None = Field(None, description="Hardware threads in one core.")
    memory_gib: v.MemoryGib | None = Field(None, description="Memory, GiB.")
    gpus: OverrideGpus | None = Field(None, description="GPUs.")
    accept: tuple[GpuFault, ...] = Field(
        (), description="What its GPUs may fall short in, and it gets jobs all the same: see docs/software.md."
    )
    reason: v.Sentence = Field(description="Why this node differs; shown wherever the override matters.")


class SmokeTest(Section):
    """A test that must pass."""

    nodes: Annotated[tuple[v.NodeSet, ...], v.Short()] = Field(
        min_length=1,
        description="Workers that it spans: a node set such as all, gpu[01-04], a partition, a rack, all!gpu03; a list "
        "of sets, or `each partition`: a launch for each. A set is within one partition.",
    )
    options: Chosen = Field(Chosen.model_construct(), description="What the test lets one choose.")


class SmokeTests(Section):
    """The tests that must pass."""

    folders: ClassVar[Mapping[str, SmokeTestFolder]] = {}  # what it was made from

    def by_name(self) -> dict[str, SmokeTest]:
        """Those that the blueprint asks for."""
        asked = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: test for name, test in asked.items() if test is not None}


class Acceptance(Section):
    """Tests, and who runs them."""

    run_as: v.UserName = Field(description="The user, from `users`, that submits the tests; no administrator.")
    folders: tuple[v.FilePath, ...] = Field(
        (),
        description="Folders of the site's own smoke tests, TEST/test.yaml in each, relative to the blueprint; added "
        "to the shipped ones.",
    )
    tests: SmokeTests = Field(description="The tests by name.")


class BusyNodes(Section):
    """What becomes of changes to a node on which jobs run and that would disturb them."""

    wait: v.Duration = Field(description="How long its jobs are waited for, as in 30min or 48h; it gets no new ones.")
    then: Literal["defer"] = Field("defer", description="What follows: the change is left for another apply.")


class Rollout(Section):
    """How carefully nodes in service are changed; default above 4 nodes: one canary, 8 at a time, 2 failures."""

    canary: v.Whole | None = Field(
        None, ge=0, le=64, description="Nodes of each group that must be done and well before the rest of it moves."
    )
    max_parallel: v.Whole | None = Field(None, ge=1, le=10_000, description="Workers that are changed at a time.")
    stop_after_failures: v.Whole | None = Field(
        None, ge=1, le=10_000, description="Failed nodes after which no further node is begun."
    )
    busy_nodes: BusyNodes | None = Field(None, description="Nodes on which jobs run; default: wait 10min, then defer.")
    reboot_wait: v.Duration | None = Field(
        None, description="How long a node that has to restart is waited for; default: 20min."
    )
    confirm_wait: v.Duration | None = Field(
        None,
        description="After so long a node takes back a change that could lock hpcforge out, unless that got in again; "
        "default: 60s.",
    )


_ROLES = "What roles let one choose: by role, then by variable as its role.yaml declares it."
_SERVICES = "Services: a node hosts it (`on`), or the site has one (`external`)."


_ACCEPTANCE = "What must be shown before the cluster counts as working."


class Blueprint(Section):
    """What a cluster should be; `blueprint_model` knows services, roles' variables and smoke tests, too."""

    schema_: Annotated[Literal[1], BeforeValidator(v.whole)] = Field(
        alias="schema", description="Version of the blueprint's schema."
    )
    name: v.ClusterName = Field(description="The cluster's name, Slurm's ClusterName: fixed after the first apply.")
    domain: v.DomainName = Field(description="DNS domain of the nodes.")
    inventory: (
        Annotated[
            Annotated[v.FilePath, Tag("<path>")] | Annotated[Lab, Tag("<lab>")],
            Discriminator(lambda value: "<lab>" if isinstance(value, dict) else "<path>"),
        ]
        | None
    ) = Field(
        None, description="What there is: the path of an inventory relative to the blueprint, or a lab on this machine."
    )
    secrets: v.SecretsPath | None = Field(
        None, description="age-encrypted file for generated secrets; default: beside the blueprint, ending in .age."
    )
    access: Access = Field(description="How hpcforge gets in.")
    nodes: dict[v.NodeHostlist, NodeGroup] = Field(min_length=1, description="Nodes by hostlist.")
    networks: dict[v.SectionName, Network] = Field(
        min_length=1, description="Subnets by name; the addresses of nodes are on one that all of them are on."
    )
    services: Services = Field(description=_SERVICES)
    software: Software = Field(description="What runs on the nodes.")
    role_folders: tuple[v.FilePath, ...] = Field(
        (),
        description="Folders of the site's own roles, ROLE/role.yaml in each, relative to the blueprint; added to the "
        "shipped ones.",
    )
    roles: Roles = Field(Roles.model_construct(), description=_ROLES)
    slurm: Slurm = Field(description="The scheduler.")
    users: dict[v.UserName, User] = Field({}, description="People and accounts, by name.")
    groups: dict[v.GroupName, Group] = Field({}, description="Groups that users share, by name.")
    storage: Annotated[dict[v.SectionName, FileSystem], Later()] = Field(
        {}, description="File systems that nodes share, by name."
    )
    overrides: dict[v.NodeName, Override] = Field({}, description="Nodes that differ from their hardware, by name.")
    fabrics: Annotated[dict[v.FabricName, Fabric], Later()] = Field(
        {}, description="Switches and cables, by the fabric's name."
    )
    site: Annotated[Site | None, Later()] = Field(None, description="The room: feeds, power, cooling, racks.")
    hardware: Annotated[dict[v.ModelName, Server], Later()] = Field(
        {}, description="Server models to add to the catalog, or to replace."
    )
    parts: Annotated[Parts, Later()] = Field(
        Parts.model_construct(), description="GPUs, PDUs, racks and other parts to add."
    )
    rollout: Rollout | None = Field(None, description="How carefully nodes in service are changed.")
    acceptance: Acceptance | None = Field(None, description=_ACCEPTANCE)

    @property
    def wants_lab(self) -> bool:
        """True if the nodes are those of a rehearsal on this machine."""
        return isinstance(self.inventory, Lab)


def blueprint_model(declared: Declared, smoke_tests: Mapping[str, SmokeTestFolder]) -> type[Blueprint]:
    """A blueprint in which services and variables are those that roles declare, and smoke tests have a folder."""
    services: Any = (services_model(declared.offers), Field(description=_SERVICES))
    model = roles_model(declared.variables, (role for role in declared.roles if role not in declared.variables))
    roles: Any = (model, Field(model.model_construct(), description=_ROLES))
    tested: Any = (acceptance_model(smoke_tests) | None, Field(None, description=_ACCEPTANCE))
    fields = {"services": services, "roles": roles, "acceptance": tested}
    return create_model("Blueprint", __base__=Blueprint, __doc__="What a cluster should be.", **fields)


def acceptance_model(smoke_tests: Mapping[str, SmokeTestFolder]) -> type[Acceptance]:
    """The section of a blueprint that follows from the smoke tests there are."""
    fields: dict[str, Any] = {
        name: (_smoke_test_model(name, folder.spec) | None, Field(None, description=folder.spec.description))
        for name, folder in smoke_tests.items()
    }
    tests: type[SmokeTests] = create_model("SmokeTests", __base__=SmokeTests, __doc__=SmokeTests.__doc__, **fields)
    tests.folders = smoke_tests
    field: Any = (tests, Field(description="The tests by name."))
    return create_model("Acceptance", __base__=Acceptance, __doc__=Acceptance.__doc__, tests=field)


def _smoke_test_model(name: str, spec: SmokeTestSpec) -> type[SmokeTest]:
    if not spec.options:
        return SmokeTest
    model = chosen_model(name, spec.options)
    options: Any = (model, Field(model.model_construct(), description="What the test lets one choose."))
    title = "".join(word.capitalize() for word in ("test", *name.split("_")))
    return create_model(title, __base__=SmokeTest, __doc__=SmokeTest.__doc__, options=options)


def json_schema(
    declared: Declared, smoke_tests: Mapping[str, SmokeTestFolder], names: Mapping[str, Iterable[str]] | None = None
) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a blueprint, for editors; every field has a description.

    `names` are those that each table of the catalog has, which editors offer; other names are accepted, too.
    """
    return schema_of(blueprint_model(declared, smoke_tests), "hpcforge blueprint", names)


def smoke_test_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a smoke test's `test.yaml`."""
    return schema_of(SmokeTestSpec, "hpcforge smoke test")


def schema_of(section: type[Section], title: str, names: Mapping[str, Iterable[str]] | None = None) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a whole file, as editors know it; `names` as of `json_schema`."""
    schema: dict[str, Any] = v.offered(_bounds(section.model_json_schema(by_alias=True)), names or {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **{key: value for key, value in schema.items() if key != "title"},
    }


def _bounds(node: Any) -> Any:
    """Spell bounds as JSON Schema does: pydantic leaves `ge` and `le` where text is typed before it is bounded."""
    if isinstance(node, list):
        return [_bounds(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {{"ge": "minimum", "le": "maximum"}.get(key, key): _bounds(value) for key, value in node.items()}
