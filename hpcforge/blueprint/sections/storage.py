"""The file systems of a cluster in a blueprint. Which kinds there are is the catalog's to say, a file for each."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from hpcforge.blueprint import values as v
from hpcforge.blueprint.section import Section

# Letters that systemd's names of units, /etc/exports and mount(8) all take as they are.
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
