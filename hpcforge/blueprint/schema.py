"""The blueprint's schema: what may be written, typed and described. Sections of later versions are unknown keys.

These types hold what one value can say for itself. What values say together (references, addresses, numbers against
hardware) is checked in `checks`, and what they amount to is a `hpcforge.cluster.model.Cluster`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, create_model

from hpcforge.blueprint import values as v
from hpcforge.blueprint.accounting import AccountSection, Billing, Qos
from hpcforge.blueprint.fabrics import FabricSection
from hpcforge.blueprint.gpus import AmdSection, GpuSet, Instances, MigProfile, NvidiaSection, Shards, Sources
from hpcforge.blueprint.hardware import GpusSection, Parts, Server
from hpcforge.blueprint.lab_kinds import LabKind
from hpcforge.blueprint.networks import NetworkSection
from hpcforge.blueprint.preinstalled import Present
from hpcforge.blueprint.public_keys import HostKey, UserKey
from hpcforge.blueprint.reservations import ReservationSection
from hpcforge.blueprint.role_declarations import RoleDeclarations
from hpcforge.blueprint.section import LazySection, Section
from hpcforge.blueprint.services import Services, services_model
from hpcforge.blueprint.site import SiteSection, Units
from hpcforge.blueprint.smoke_tests import SmokeTestFolder, SmokeTestSpec
from hpcforge.blueprint.storage import FileSystemSection, Folder
from hpcforge.blueprint.variables import Chosen, Roles, chosen_model, roles_model, variables_of
from hpcforge.frameworks import FRAMEWORKS

Function = Literal["head", "login", "storage", "worker"]  # as in hpcforge.cluster.model
GpuFault = Literal[
    "gpu-driver", "gpu-driver-version", "gpu-model", "gpu-memory", "gpu-ecc", "gpu-rows", "gpu-nvlinks",
    "gpu-fabric", "gpu-pcie-width", "gpu-pcie-generation", "gpu-power-limit", "gpu-mig",
]  # fmt: skip
Enforced = Literal["cores", "memory", "gpus"]
Plugin = Literal["tree", "block", "flat"]  # of Slurm's topology


class LabSection(Section):
    """A rehearsal on this machine."""

    lab: LabKind = Field(
        description="The kind of the rehearsal's nodes: nspawn, containers with systemd; vm, virtual machines with a "
        "kernel of their own; vagrant, virtual machines that Vagrant starts."
    )


class Via(Section):
    """The machine that nodes are reached through."""

    host: v.HostOrAddress = Field(description="A node, or the name or IPv4 address of another machine.")
    user: v.LoginName | None = Field(None, description="The ssh user there; default, and for a node always: `user`.")
    host_keys: tuple[HostKey, ...] = Field(
        (), description="Its OpenSSH public host keys, type and base64; default for a node: from the inventory."
    )


Through = Annotated[Via, v.ShortForm("host")]


class AccessSection(Section):
    """A way into the nodes."""

    user: v.LoginName = Field(description="The ssh user on every node; need not be root.")
    become: Literal["sudo", "none"] = Field("sudo", description="How that user becomes root; none: it is root already.")
    via: Through | None = Field(
        None, description="A jump host: hpcforge reaches all other nodes over one connection to it. Default: none."
    )


class OverrideGpus(Section):
    """The GPUs that one node really has."""

    model: Annotated[v.ModelName, v.OfCatalog("gpus")] = Field(description="GPU model in the catalog.")
    count: v.Whole = Field(ge=0, le=16, description="GPUs in this node; 0: none.")


_Partition = Annotated[
    str,
    v.Matches(
        r"(?!/(?:boot|usr|etc|bin|sbin|lib|lib64|dev|proc|sys|run|root)(?:/|$))(?:/[A-Za-z0-9_-]{1,100}){1,20}",
        "a mount point of a partition: /var or a folder below it, /home, /tmp, /opt, /srv or the site's own",
        "/var",
    ),
]


class SystemDiskSection(Section):
    """Where the installer of `apply --install` writes the operating system: docs/bare-metal.md."""

    drives: Annotated[v.Whole, Field(ge=1, le=2)] = Field(
        1, description="2: two disks of one size, as mirrors (RAID 1)."
    )
    partitions_gib: Annotated[dict[_Partition, Annotated[v.Whole, Field(ge=1, le=65_536)]], Field(max_length=16)] = (
        Field({}, description="Sizes of further partitions by mount point, GiB; / gets the rest.")
    )


class NodeGroup(Section):
    """Machines that are alike."""

    functions: tuple[Function, ...] = Field(min_length=1, description="Functions of the nodes, one or more.")
    hardware: Annotated[v.ModelName, v.OfCatalog("servers")] = Field(description="Server model in the catalog.")
    gpus: GpusSection | None = Field(None, description="GPUs of each node; default: the server model's built-in GPUs.")
    mig: Annotated[dict[GpuSet, Annotated[dict[MigProfile, Instances], Field(min_length=1)]], LazySection()] = Field(
        {},
        description="MIG instances of each node's GPUs: by GPUs (all, 0-3, 0,2) the number of instances of each "
        "profile on one GPU. A GPU that is not named stays whole.",
    )
    shards: Annotated[dict[GpuSet, Shards], LazySection()] = Field(
        {},
        description="Shards of each node's GPUs, for jobs that share a GPU: by GPUs (all, 0-3, 0,2) the number on "
        "one GPU, which is the number of jobs that can share it. A GPU that is not named is not shared. Slurm "
        "23.11.5 or later.",
    )
    features: tuple[v.Feature, ...] = Field(
        (), description="Slurm features of each node, which jobs ask for with `--constraint`."
    )
    weight: v.Whole | None = Field(
        None,
        ge=0,
        le=4_294_967_293,
        description="Slurm's weight of each node: jobs get the nodes with the lowest first; default: 1.",
    )
    system_disk: SystemDiskSection = Field(
        SystemDiskSection.model_construct(),
        description="Disks and partitions of the operating system that hpcforge installs.",
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
        description="Lowest rack unit of each node in a rack; the first rack gets one node for each entry.",
    )


class OperatingSystemSection(Section):
    """The distribution that is installed on the nodes."""

    name: Annotated[v.DistributionName, v.OfCatalog("systems")] = Field(
        description="Distribution, as in ID of /etc/os-release."
    )
    release: Annotated[v.ReleaseNumber, v.OfCatalog("releases")] = Field(
        description="Release, as in VERSION_ID of /etc/os-release."
    )


_CONTAINERS = "Containers for jobs."
_FRAMEWORKS = "Frameworks on the workers."


_Versions = Annotated[tuple[v.Version, ...], v.ShortForm()]


class Frameworks(Section):
    """What jobs import; of several versions, which are side by side, the first is the default."""

    pytorch: Annotated[tuple[Annotated[v.Version, v.OfCatalog("pytorch")], ...], v.ShortForm()] = Field(
        (), description="Versions of PyTorch in the catalog; the first is the default."
    )

    def others(self) -> dict[str, tuple[str, ...]]:
        """The versions of those beside PyTorch, by name."""
        return {name: versions for name in FRAMEWORKS if (versions := getattr(self, name, ()))}


class SiteRoleSection(Section):
    """A site's own Ansible role."""

    path: v.FilePath = Field(description="The role's folder, relative to the blueprint.")
    on: v.NodeSet = Field(description="Nodes, as a node set: a hostlist, a function, a group, a rack, all!w03.")


class ContainersSection(Section):
    """Container runtimes for jobs."""

    runtimes: tuple[v.SectionName, ...] = Field(
        (), description="Container runtimes on the workers, for jobs of every user. docs/jobs.md shows each."
    )


class Software(Section):
    """Operating system, drivers, frameworks, a site's own roles, and what nodes bring."""

    os: OperatingSystemSection = Field(description="Operating system of all nodes.")
    frameworks: Frameworks = Field(Frameworks.model_construct(), description=_FRAMEWORKS)
    containers: ContainersSection = Field(ContainersSection.model_construct(), description=_CONTAINERS)
    site_roles: tuple[SiteRoleSection, ...] = Field(
        (), description="The site's own Ansible roles; they run after hpcforge's roles."
    )
    nvidia: Annotated[NvidiaSection | None, LazySection()] = Field(
        None, description="Driver and CUDA for nodes with NVIDIA GPUs; checked before any change."
    )
    amd: Annotated[AmdSection | None, LazySection()] = Field(
        None, description="ROCm for nodes with AMD GPUs; checked before any change."
    )
    sources: Annotated[Sources, LazySection()] = Field(
        Sources.model_construct(), description="Package sources in addition to the distribution's."
    )
    preinstalled: Annotated[Present, LazySection()] = Field(
        Present.model_construct(),
        description="Driver software that is already on nodes with GPUs. hpcforge checks it with `nvidia` before any "
        "change, and never installs it.",
    )


class Reserve(Section):
    """What the operating system keeps of each worker."""

    cores: v.ReserveCores | None = Field(
        None,
        description="Cores of a worker that are reserved for the system; default: one of each socket of 16 cores or "
        "more.",
    )
    memory_gib: v.ReserveMemoryGib | None = Field(
        None,
        description="Memory of a worker that is reserved for the system, GiB; default: 400 MiB, and 30 MiB for each "
        "GiB.",
    )


class PartitionSection(Section):
    """A Slurm partition."""

    nodes: v.NodeSet = Field(description="Workers, as a node set: all, a hostlist, a group, a rack, all!gpu03.")
    default: v.Truth = Field(False, description="The partition of jobs that name none.")
    max_time: v.MaxTime = Field(
        "infinite", description="Time limit of a job, [days-]hours:minutes:seconds, or infinite."
    )
    qos: v.SectionName | None = Field(
        None, description="A QOS whose limits also apply to its jobs; with `services.accounting`."
    )
    billing: Billing | None = Field(
        None, description="Billing weights of resources, with `services.accounting`; default: 1 for each thread."
    )
    topology: Plugin | None = Field(
        None,
        description="Topology of its jobs, where it is not that of `slurm.topology`. Two topologies in one cluster "
        "take Slurm 25.05 or later on all nodes.",
    )
    settings: dict[v.PartitionKey, v.SlurmSetting] = Field(
        {},
        description="More parameters of the partition in slurm.conf, such as PriorityTier: 10, with names and values "
        "that the release of Slurm knows. What another key sets is refused. DefMemPerCPU, DefMemPerGPU and "
        "DefMemPerNode replace the share of memory that hpcforge writes.",
    )


class SlurmTopology(Section):
    """What the scheduler is told of a fabric, so that the nodes of a job are near each other."""

    fabric: v.FabricName | None = Field(
        None, description="The fabric; default: the workers' fastest infiniband, roce or omni-path fabric."
    )
    plugin: Plugin = Field(
        "tree",
        description="tree: jobs stay below few switches; block: jobs stay in one NVLink domain or unit, Slurm 24.11 "
        "or later; flat: Slurm ignores the network.",
    )


class SlurmSection(Section):
    """Controller and partitions of the scheduler."""

    controller: v.NodeName = Field(description="The head that runs slurmctld.")
    reserve: Reserve = Field(
        Reserve.model_construct(),
        description="Resources of each worker that are reserved for the system; `hpcforge show --full` prints the "
        "result.",
    )
    enforce: tuple[Enforced, ...] = Field(
        ("cores", "memory", "gpus"), description="Limits of jobs that cgroups enforce."
    )
    ssh: Literal["anyone", "jobs-only"] = Field(
        "anyone",
        description="Users who may log in to a worker that is neither head nor login node. jobs-only: "
        "administrators, and users with a job there, whose session becomes part of the job.",
    )
    private_tmp: Folder | None = Field(
        None,
        description="A folder on each worker's own disk, used only by Slurm, for a private /tmp of each job. It and "
        "the job's /dev/shm are removed with the job. Default: jobs share the node's /tmp.",
    )
    partitions: dict[v.PartitionName, PartitionSection] = Field(min_length=1, description="Partitions by name.")
    settings: dict[v.SlurmKey, v.SlurmSetting] = Field(
        {},
        description="More settings of slurm.conf, such as TreeWidth: 50, with names that the release of Slurm knows. "
        "Settings that hpcforge writes are refused. Jobs that ask for no memory get their CPUs' share, unless "
        "DefMemPerCPU, DefMemPerGPU or DefMemPerNode is set.",
    )
    accounts: Annotated[dict[v.SectionName, AccountSection], LazySection()] = Field(
        {}, description="Accounts by name, with `services.accounting`; then only users in an account may run jobs."
    )
    qos: Annotated[dict[v.SectionName, Qos], LazySection()] = Field(
        {}, description="Qualities of service by name, with `services.accounting`."
    )
    reservations: Annotated[dict[v.SectionName, ReservationSection], LazySection()] = Field(
        {}, description="Reservations by name: nodes that Slurm keeps free for users or accounts during a time."
    )
    topology: SlurmTopology = Field(
        SlurmTopology.model_construct(), description="The network between nodes, as Slurm uses it."
    )


Shell = Literal["bash", "zsh", "fish", "nologin"]


class UserSection(Section):
    """A person or a service account, the same on every node."""

    uid: v.Whole = Field(ge=1000, le=59_999, description="User and group number, 1000 to 59999.")
    admin: v.Truth = Field(False, description="May become root with sudo.")
    keys: tuple[UserKey, ...] = Field(
        (), description="OpenSSH public keys, or paths of .pub files relative to the blueprint."
    )
    groups: tuple[v.GroupName, ...] = Field(
        (), description="Names from `groups` that the user belongs to, in addition to the user's own group."
    )
    shell: Shell = Field(
        "bash", description="The login shell; `nologin`: the user may own files and jobs, but cannot log in."
    )
    expires: v.Date | None = Field(None, description="The account is locked from this day on (year-month-day, UTC).")


class GroupSection(Section):
    """People who share files, the same on every node."""

    gid: v.Whole = Field(ge=1000, le=59_999, description="Group number, 1000 to 59999, different from every user's.")


class Override(Section):
    """What one node really has, and why."""

    sockets: v.Sockets | None = Field(None, description="Processor sockets.")
    cores_per_socket: v.CoresPerSocket | None = Field(None, description="Cores in one socket.")
    threads_per_core: v.ThreadsPerCore | None = Field(None, description="Hardware threads in one core.")
    memory_gib: v.MemoryGib | None = Field(None, description="Memory, GiB.")
    gpus: OverrideGpus | None = Field(None, description="GPUs.")
    release: Annotated[v.Version, v.OfCatalog("releases")] | None = Field(
        None, description="Release of the distribution, where the node waits for its upgrade. See docs/operations.md."
    )
    accept: tuple[GpuFault, ...] = Field(
        (), description="GPU shortfalls that are accepted: the node still gets jobs. See docs/software.md."
    )
    reason: v.Sentence = Field(description="Why this node differs; shown with every message about the override.")


class SmokeTestSection(Section):
    """A test that must pass."""

    nodes: Annotated[tuple[v.NodeSet, ...], v.ShortForm()] = Field(
        min_length=1,
        description="Workers that it spans: a node set such as all, gpu[01-04], a partition, a rack, all!gpu03; a "
        "list of sets, or `each partition`, with one launch for each. All nodes of a set must be in one partition.",
    )
    options: Chosen = Field(Chosen.model_construct(), description="Options of the test.")
    time_limit: v.Duration | None = Field(None, description="Time limit, such as 5h; default: the test's own.")


class SmokeTests(Section):
    """The tests that must pass."""

    folders: ClassVar[Mapping[str, SmokeTestFolder]] = {}  # what it was made from

    def by_name(self) -> dict[str, SmokeTestSection]:
        """Those that the blueprint asks for."""
        asked = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: test for name, test in asked.items() if test is not None}


class AcceptanceSection(Section):
    """Tests, and who runs them."""

    run_as: v.UserName = Field(
        description="The user, from `users`, that submits the tests; must not be an administrator."
    )
    folders: tuple[v.FilePath, ...] = Field(
        (),
        description="Folders of the site's own smoke tests, TEST/test.yaml in each, relative to the blueprint; added "
        "to the shipped ones.",
    )
    tests: SmokeTests = Field(description="The tests by name.")


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
        "clusters. Mappings merge; what this file sets replaces what they set. Other paths in them are relative to "
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


def blueprint_model(declared: RoleDeclarations, smoke_tests: Mapping[str, SmokeTestFolder]) -> type[Blueprint]:
    """A blueprint in which services and variables are those that roles declare, and smoke tests have a folder."""
    services: Any = (services_model(declared.offers), Field(description=_SERVICES))
    model = roles_model(declared.variables, (role for role in declared.roles if role not in declared.variables))
    elsewhere = {key: f"write it under `{place}`" for key, place in variables_of(declared.variables).items()}
    services[0].not_keys = elsewhere
    known = {kind: f"did you mean `{role}`?" for kind, role in declared.accepted.items()}
    model.not_keys = {**elsewhere, **known, **model.not_keys}
    roles: Any = (model, Field(model.model_construct(), description=_ROLES))
    tested: Any = (acceptance_model(smoke_tests) | None, Field(None, description=_ACCEPTANCE))
    software = (software_model(declared.container_runtimes), Field(description=_SOFTWARE))
    fields = {"services": services, "software": software, "roles": roles, "acceptance": tested}
    return create_model("Blueprint", __base__=Blueprint, __doc__="The description of a cluster.", **fields)


def software_model(runtimes: tuple[str, ...]) -> type[Software]:
    """The section of a blueprint that follows from the container runtimes that roles provide, and the frameworks."""
    pinned: dict[str, object] = {
        name: (_Versions, Field((), description=f"Versions of {name}, as pinned wheels; the first is the default."))
        for name in FRAMEWORKS
    }
    fields: dict[str, Any] = {"frameworks": _made(Frameworks, _FRAMEWORKS, pinned)}
    if runtimes:
        words = (tuple[Literal[runtimes], ...], ContainersSection.model_fields["runtimes"])  # type: ignore[valid-type]
        fields["containers"] = _made(ContainersSection, _CONTAINERS, {"runtimes": words})
    return create_model("Software", __base__=Software, __doc__=Software.__doc__, **fields)


def _made(of: type[Section], description: str, fields: Mapping[str, Any]) -> tuple[type[Section], object]:
    """A section with more fields, and itself as a field."""
    section = create_model(of.__name__, __base__=of, __doc__=of.__doc__, **fields)
    return section, Field(section.model_construct(), description=description)


def acceptance_model(smoke_tests: Mapping[str, SmokeTestFolder]) -> type[AcceptanceSection]:
    """The section of a blueprint that follows from the smoke tests there are."""
    fields: dict[str, Any] = {
        name: (_smoke_test_model(name, folder.spec) | None, Field(None, description=folder.spec.description))
        for name, folder in smoke_tests.items()
    }
    tests: type[SmokeTests] = create_model("SmokeTests", __base__=SmokeTests, __doc__=SmokeTests.__doc__, **fields)
    tests.folders = smoke_tests
    field: Any = (tests, Field(description="The tests by name."))
    return create_model("AcceptanceSection", __base__=AcceptanceSection, __doc__=AcceptanceSection.__doc__, tests=field)


def _smoke_test_model(name: str, spec: SmokeTestSpec) -> type[SmokeTestSection]:
    if not spec.options:
        return SmokeTestSection
    model = chosen_model(name, spec.options)
    options: Any = (model, Field(model.model_construct(), description="Options of the test."))
    title = "".join(word.capitalize() for word in ("test", *name.split("_")))
    return create_model(title, __base__=SmokeTestSection, __doc__=SmokeTestSection.__doc__, options=options)


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


def schema_of(section: type[Section], title: str, names: Mapping[str, Iterable[str]] | None = None) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a whole file, as editors know it; `names` as of `json_schema`."""
    schema: dict[str, Any] = v.offered(_bounds(section.model_json_schema(by_alias=True)), names or {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **{key: value for key, value in schema.items() if key != "title"},
    }


_BOUNDS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}


def _bounds(node: Any) -> Any:
    """Spell bounds as JSON Schema does: pydantic leaves `ge` and `le` where text is typed before it is bounded."""
    if isinstance(node, list):
        return [_bounds(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {_BOUNDS.get(key, key): _bounds(value) for key, value in node.items()}
