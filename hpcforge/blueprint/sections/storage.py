"""The section `storage`: file systems that nodes share, of the catalog's kinds, and checks of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from hpcforge.blueprint import hostlist
from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import closest, did_you_mean, quote
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.section import Section
from hpcforge.blueprint.sections.access import AccessSection, UserSection
from hpcforge.blueprint.sections.fabrics import FabricSection
from hpcforge.blueprint.sections.networks import NetworkSection, is_bmc, primary
from hpcforge.blueprint.sections.nodes import LabSection
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.values import counted
from hpcforge.blueprint.visible_nodes import NamedNodes

# Letters that names of systemd units, /etc/exports and mount(8) all accept unescaped.
Folder = Annotated[
    str,
    v.Matches(
        r"(?!.*/\.)(?:/[A-Za-z0-9_.-]{1,100}){1,20}",
        "a folder on a node: it begins with /, its names have letters, digits and _.-, and none begins with a point",
        "/projects",
    ),
]
MountOption = Annotated[
    str,
    v.Matches(
        r"[a-z_][A-Za-z0-9_.-]{0,63}(?:=[A-Za-z0-9_./:@+-]{1,200})?",
        "an option of mount(8): a word, or WORD=VALUE",
        "ro or nconnect=8",
    ),
]
Address = Annotated[
    str, v.Matches(r"[A-Za-z0-9_./:@,=\[\]-]{1,500}", "an address as mount(8) takes it", "10.20.2.9:/export/projects")
]


class StorageNeedsSection(Section):
    """What all who mount a file system need of it together; `hpcforge design` holds it to drives and links."""

    capacity_tib: v.Number | None = Field(None, gt=0, le=10_000_000, description="Required capacity, TiB.")
    read_gb_per_s: v.Number | None = Field(None, gt=0, le=1_000_000, description="Large reads, GB/s.")
    write_gb_per_s: v.Number | None = Field(None, gt=0, le=1_000_000, description="Large writes, GB/s.")


class FileSystemSection(Section):
    """Files that nodes share - a node serves them (`server`, `path`), or the site has them (`external`) -, or that each
    has for itself (`drives`).
    """

    kind: Annotated[v.SectionName, v.OfCatalog("file_systems")] = Field(
        description="Kind of file system, such as nfs or lustre; the catalog lists the kinds."
    )
    server: v.NodeName | None = Field(None, description="The node that serves the files.")
    path: Folder | None = Field(
        None,
        description="The folder on `server`. All users may create files there and delete their own, "
        "as in /tmp; with `homes`, each user only in the own home.",
    )
    network: v.SectionName | None = Field(
        None,
        description="The network over which `server` serves it; nodes that mount it must be on it. Default: the "
        "network of the nodes' addresses.",
    )
    external: Address | None = Field(
        None, description="The site's file system, as mount(8) names it for this kind: 10.20.2.9@tcp:/proj."
    )
    drives: v.Counted | None = Field(
        None,
        description="A number of each node's own NVMe drives, as in `nvme` of its hardware: 8 x 3.84TB. hpcforge "
        "formats only drives on which it finds nothing at all.",
    )
    raid: Annotated[Literal[0, 1, 6], BeforeValidator(v.whole)] | None = Field(
        None,
        description="RAID level of several `drives`. 0: all files are lost with one drive; 1: each drive has all "
        "files; 6: two of four or more drives may fail. Default: 0.",
    )
    quota_gib: v.Whole | None = Field(
        None,
        ge=1,
        le=10_000_000,
        description="Quota of each user on a node's `drives`, GiB; includes files that the node serves from them. "
        "Default: none.",
    )
    keep_after_jobs: v.Truth = Field(
        False, description="Whether a user's files on `drives` stay after the user's last job on that node."
    )
    homes: v.Truth = Field(
        False,
        description="Whether users' homes are there, as `mount`/NAME, also for users of a directory. `server` "
        "creates them, or the site if it serves them.",
    )
    mount: Folder = Field(description="The mount point on nodes.")
    options: tuple[MountOption, ...] = Field(
        (), description="More options of mount(8); they override the kind's own options."
    )
    on: v.NodeSet | None = Field(
        None,
        description="The nodes that mount it; default: workers and login nodes; with `drives` workers, with `homes` "
        "all nodes.",
    )
    needs: StorageNeedsSection | None = Field(None, description="Required capacity and speed.")


# Errors of `storage` against nodes and their folders. Pure.


Findings = Iterator[Finding]
Reference = Callable[[Loc, Iterable[str]], Findings]

_SYSTEM = frozenset(
    ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "root", "run", "sbin", "sys", "tmp", "usr", "var")
)
_FEWEST_OF_SIX = 4  # drives of RAID 6: mdadm(8)
_FREE_WITHIN = ("/usr/local",)  # folders in these that packages leave to a site
_HELD = {  # a mount may not hide these, but may hide a folder next to them
    "/home": "the home of hpcforge's login user is there, and hpcforge could not log in while a server is down",
    "/mnt": "it is for temporary mounts",
    "/opt": "software is there, also hpcforge's",
    "/opt/hpcforge": "hpcforge installs libraries for jobs there",
    "/usr/local": "programs are there",
}  # fmt: skip


def storage_findings(draft: Draft, declared: NamedNodes, reference: Reference) -> Findings:
    """Yield errors of servers, of the nodes that mount, and of the mounted or served folders."""
    systems: dict[str, FileSystemSection] = draft.sections["storage"] or {}
    mounts: list[tuple[str, str, frozenset[str] | None]] = []
    served: list[tuple[str, str, str]] = []
    yield from _home_settings(systems)
    for name, file_system in systems.items():
        loc = ("storage", name)
        yield from _source(draft, name, file_system, reference)
        nodes, wrong = _nodes(draft, declared, name, file_system)
        yield from wrong
        yield from _network(draft, declared, name, file_system, nodes)
        yield from _hides((*loc, "mount"), file_system.mount, "mounted", draft)
        yield from _overlapping_mounts((*loc, "mount"), name, file_system.mount, nodes, mounts)
        mounts.append((name, file_system.mount, nodes))
        if file_system.path and file_system.server:
            yield from _hides((*loc, "path"), file_system.path, "served", draft)
            yield from _served(loc, file_system.server, file_system.path, served)
            yield from _at_home(loc, file_system.server, file_system.path, file_system.mount, nodes)
            served.append((name, file_system.server, file_system.path))
    yield from _volume_shares(systems, declared, draft)
    yield from _outside_volumes(systems, declared, draft)
    yield from _administrators(draft, systems)


def _source(draft: Draft, name: str, file_system: FileSystemSection, reference: Reference) -> Findings:
    """Check that exactly one source has the files."""
    loc = ("storage", name)
    if not draft.intact(*loc):
        return
    sources = [f"`{key}`" for key in ("server", "external", "drives") if getattr(file_system, key) is not None]
    if len(sources) != 1:
        many = " and ".join(sources) or "none"
        hint = "server and path: a node serves it; external: the site serves it; drives: each node's own drives"
        yield Finding(loc, f"`{name}` needs one of `server`, `external` and `drives`, not {many}", hint, key=True)
    elif file_system.server is not None:
        yield from reference((*loc, "server"), (file_system.server,))
        if file_system.path is None:
            hint = f"the folder of {file_system.server} that has the files, for example path: /srv/{name}"
            yield Finding((*loc, "server"), "`server` without `path`", hint)
    elif file_system.path is not None:
        hint = (
            "remove it; `external` already has the path"
            if file_system.external
            else "remove it; `mount` is the place on the node"
        )
        yield Finding((*loc, "path"), "`path` is a folder of `server`", hint)
    yield from _drive_settings(loc, file_system)


def _drive_settings(loc: Loc, file_system: FileSystemSection) -> Findings:
    """Check the settings of drives."""
    settings = {
        "raid": file_system.raid is not None,
        "quota_gib": file_system.quota_gib is not None,
        "keep_after_jobs": file_system.keep_after_jobs,
    }
    for key in (key for key, is_set in settings.items() if is_set and file_system.drives is None):
        yield Finding((*loc, key), f"`{key}` needs `drives`", "leave it out", key=True)
    count = counted(file_system.drives)[0] if file_system.drives is not None else 0
    if count == 1 and file_system.raid is not None:
        yield Finding((*loc, "raid"), "`raid` needs several drives, and this is one drive", "leave it out")
    elif count and file_system.raid == 6 and count < _FEWEST_OF_SIX:
        yield Finding((*loc, "raid"), f"RAID 6 needs {_FEWEST_OF_SIX} drives or more, not {count}", "raid: 1")


def _network(
    draft: Draft, declared: NamedNodes, name: str, file_system: FileSystemSection, nodes: frozenset[str] | None
) -> Findings:
    """Report a network over which no node can serve it, or which some nodes are not on."""
    networks: dict[str, NetworkSection] = draft.sections["networks"] or {}
    if file_system.network is None or file_system.network == primary(networks, draft.sections["fabrics"] or {}):
        return
    loc, lab = ("storage", name, "network"), draft.sections["inventory"]
    network = networks.get(file_system.network)
    if file_system.server is None:
        yield Finding(loc, "`network` is of `server`", "leave it out", key=True)
    elif file_system.network not in draft.keys("networks"):
        hint = did_you_mean(file_system.network, draft.keys("networks")) or "name it under `networks`"
        yield Finding(loc, f"{quote(file_system.network)} is not a network of this blueprint", hint)
    elif isinstance(lab, LabSection) and lab.lab == "nspawn":
        hint = "rehearse on virtual machines: inventory: {lab: vm}"
        yield Finding(loc, "containers have only the network of their addresses", hint)
    elif network and (network.external or is_bmc(file_system.network, network)):
        purpose = "is the site's" if network.external else "has management controllers"
        yield Finding(
            loc, f"`{file_system.network}` {purpose}: nodes serve nothing there", "take a network of the nodes' own"
        )
    elif network:
        yield from _not_on(draft, declared, loc, file_system.network, {file_system.server, *(nodes or ())})


def _not_on(draft: Draft, declared: NamedNodes, loc: Loc, network: str, nodes: set[str]) -> Findings:
    """Yield nodes that serve or mount the file system without being on its network: by its `nodes`, else its fabric."""
    network_spec: NetworkSection = draft.sections["networks"][network]
    fabric: FabricSection | None = (draft.sections["fabrics"] or {}).get(network_spec.fabric or "")
    if network_spec.nodes is None and network_spec.fabric and fabric is None:
        return
    section, node_set = f"networks.{network}", network_spec.nodes or "all"
    if network_spec.nodes is None and fabric is not None:
        section, node_set = f"fabrics.{network_spec.fabric}", fabric.nodes
    on = declared.named(draft, loc, node_set)[0]
    missing = [] if on is None else [node for node in declared.group_of if node in nodes and node not in on]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        hint = f"add {hostlist.fold(missing)} to `nodes` of `{section}`, or name the nodes that mount it in `on`"
        yield Finding(loc, f"{hostlist.fold(missing)} {verb} not on `{network}`", hint)


def _home_settings(systems: Mapping[str, FileSystemSection]) -> Findings:
    """Check homes of users: one file system has them, nodes share it, and users can write."""
    with_homes = [name for name, file_system in systems.items() if file_system.homes]
    for name in with_homes[1:]:
        message = f"`{with_homes[0]}` already has the homes"
        yield Finding(("storage", name, "homes"), message, "a user has one home: remove one of the two", key=True)
    for name in with_homes:
        file_system, loc = systems[name], ("storage", name, "homes")
        if file_system.drives is not None:
            hint = "use server and path: a node creates them; or external: the site creates them"
            yield Finding(loc, "homes on `drives` would differ on each node", hint, key=True)
        if "ro" in file_system.options:
            yield Finding(loc, "homes are mounted read-only (`ro`)", "leave out `ro`", key=True)


def _nodes(
    draft: Draft, declared: NamedNodes, name: str, file_system: FileSystemSection
) -> tuple[frozenset[str] | None, list[Finding]]:
    """Return the nodes that mount it, None where they are not known, and the errors of the set."""
    if file_system.on is None:
        sure = declared.names_known and draft.intact("nodes")
        if file_system.homes:
            return frozenset(declared.group_of) if sure else None, []
        functions = ("worker",) if file_system.drives else ("worker", "login")
        return frozenset(
            name for function in functions for name in declared.with_function(function)
        ) if sure else None, []
    loc = ("storage", name, "on")
    nodes, wrong = declared.named(draft, loc, file_system.on)
    if nodes == () and draft.intact("nodes"):
        wrong = [Finding(loc, f"no node is in {quote(file_system.on)}")]
    return None if nodes is None else frozenset(nodes), wrong


def _hides(loc: Loc, path: str, how: str, draft: Draft) -> Findings:
    """Report folders that the mount would hide: the system's, hpcforge's or a user's."""
    first = path.split("/")[1]
    own = [home for home in _homes(draft) if _within(home, path) or _within(path, home)]
    if path in _HELD:
        example = "/homes" if path == "/home" else f"/srv/{loc[1]}"
        yield Finding(loc, f"`{path}` cannot be {how}: {_HELD[path]}", f"choose a separate folder, such as {example}")
    elif first in _SYSTEM and not any(_within(path, free) for free in _FREE_WITHIN):
        yield Finding(
            loc,
            f"`{path}` cannot be {how}: `/{first}` belongs to the system",
            "choose another folder, such as /projects",
        )
    elif _within(path, "/opt/hpcforge"):
        yield Finding(loc, f"`{path}` cannot be {how}: {_HELD['/opt/hpcforge']}", "choose another")
    elif own:
        yield Finding(
            loc, f"`{path}` cannot be {how}: {own[0]} is a user's home", "choose another folder, such as /projects"
        )


def _homes(draft: Draft) -> list[str]:
    """Return the homes of users, and the likely home of hpcforge's login account, beside them."""
    access: AccessSection | None = draft.sections["access"]
    names = [*draft.keys("users"), *([access.user] if access and access.user != "root" else [])]
    return [f"/home/{name}" for name in names]


def _overlapping_mounts(
    loc: Loc,
    name: str,
    path: str,
    nodes: frozenset[str] | None,
    others: Iterable[tuple[str, str, frozenset[str] | None]],
) -> Findings:
    """Yield mounts of the same nodes that hide each other."""
    for second_name, second_path, second_nodes in others:
        shared = nodes & second_nodes if nodes is not None and second_nodes is not None else frozenset()
        if not shared:
            continue
        which = hostlist.fold(sorted(shared))
        if second_path == path:
            yield Finding(
                loc, f"`{second_name}` is mounted at `{path}`, too, on {which}", "each needs a folder of its own"
            )
        elif _within(path, second_path) or _within(second_path, path):
            inner, outer = (name, second_name) if _within(path, second_path) else (second_name, name)
            message = (
                f"`{inner}` is nested inside the mount `{outer}` on {which}; it disappears when `{outer}` is unmounted"
            )
            yield Finding(loc, message, "use another mount point")


def _at_home(loc: Loc, server: str, path: str, mount: str, nodes: frozenset[str] | None) -> Findings:
    """Report a server that would mount its own folder at a second place."""
    if server in (nodes or ()) and (_within(path, mount) or _within(mount, path)):
        message = f"{server} also mounts it, and has it at `{path}`: one folder is inside the other"
        yield Finding((*loc, "mount"), message, f"take other folders, as path: /srv/{loc[1]} and mount: /{loc[1]}")


def _volume_shares(systems: Mapping[str, FileSystemSection], declared: NamedNodes, draft: Draft) -> Findings:
    """Check shares of a volume: each is a folder on it, and its files stay."""
    volumes = {name: file_system for name, file_system in systems.items() if file_system.drives}
    for name, file_system in systems.items():
        for volume, below in volumes.items():
            if not (file_system.path and _within(file_system.path, below.mount)):
                continue
            server = file_system.server
            if server is None or server not in (_nodes(draft, declared, volume, below)[0] or ()):
                continue
            if file_system.path.rpartition("/")[0] != below.mount:
                message = (
                    f"`{file_system.path}` must be a direct child of `{below.mount}`, the volume `{volume}` of {server}"
                )
                yield Finding(("storage", name, "path"), message, f"as {below.mount}/{name}")
            elif not below.keep_after_jobs and declared.functions(server) == ("worker",):
                message = (
                    f"files of a user on `{volume}` are deleted after the user's last job on {server}, which serves it"
                )
                yield Finding(("storage", volume), message, "keep_after_jobs: true", key=True)


def _outside_volumes(systems: Mapping[str, FileSystemSection], declared: NamedNodes, draft: Draft) -> Findings:
    """Warn of folders that are on no volume of a server that has volumes: a name may be misspelled."""
    mounts: dict[str, list[str]] = {}
    for volume, file_system in systems.items():
        for node in (_nodes(draft, declared, volume, file_system)[0] or ()) if file_system.drives else ():
            mounts.setdefault(node, []).append(file_system.mount)
    for name, file_system in systems.items():
        path, volumes = file_system.path, mounts.get(file_system.server or "", [])
        if path is None or not volumes or any(_within(path, mount) for mount in volumes):
            continue
        message = f"`{path}` is on the system disk of {file_system.server}, and on none of its volumes"
        near = closest("/" + path.split("/")[1], volumes)
        hint = f"did you mean `{near}/{path.rpartition('/')[2]}`?" if near else f"volumes: {', '.join(volumes)}"
        yield Finding(("storage", name, "path"), message, hint, severity="warning")


def _served(loc: Loc, server: str, path: str, others: Iterable[tuple[str, str, str]]) -> Findings:
    for second_name, host, second_path in others:
        if server == host and (_within(path, second_path) or _within(second_path, path)):
            message = f"`{path}` and `{second_path}` of `{second_name}` are nested on {server}"
            hint = "nodes that mount one could reach the other's files; use separate folders"
            yield Finding((*loc, "path"), message, hint)


def _within(path: str, folder: str) -> bool:
    """Return whether it is that folder, or somewhere in it."""
    return path == folder or path.startswith(f"{folder}/")


def _administrators(draft: Draft, systems: Mapping[str, FileSystemSection]) -> Findings:
    """Warn of administrators whose homes are shared: the login user's home stays on each node."""
    if not draft.intact("access", "user"):
        return
    access: AccessSection | None = draft.sections["access"]
    users: dict[str, UserSection] = draft.sections["users"] or {}
    shared = next((name for name, file_system in systems.items() if file_system.homes), None)
    for name, user in users.items() if shared is not None else ():
        if user.admin and (access is None or name != access.user):
            yield Finding(
                ("users", name, "admin"),
                f"the home of {quote(name)} is on `storage.{shared}`: root on one node that mounts it can become this "
                "user, and so root on every node",
                "remove it, and administer as `access.user`: that home stays on each node",
                severity="warning",
            )
