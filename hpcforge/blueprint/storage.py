"""The file systems of a cluster in a blueprint. Which kinds there are is the catalog's to say, a file for each."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from hpcforge.blueprint import hostlist
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


class Needs(Section):
    """What all who mount a file system need of it together; `hpcforge design` holds it to drives and links."""

    capacity_tib: v.Number | None = Field(None, gt=0, le=10_000_000, description="Room for files, TiB.")
    read_gb_per_s: v.Number | None = Field(None, gt=0, le=1_000_000, description="Large reads, GB/s.")
    write_gb_per_s: v.Number | None = Field(None, gt=0, le=1_000_000, description="Large writes, GB/s.")


class FileSystem(Section):
    """Files that nodes share - a node serves them (`server`, `path`), or the site has them (`external`) -, or that each
    has for itself (`drives`).
    """

    kind: Annotated[v.SectionName, v.OfCatalog("file_systems")] = Field(
        description="How nodes reach it, as in nfs or lustre; the catalog has the kinds."
    )
    server: v.NodeHostlist | None = Field(
        None, description="The node that has the files; of a kind that several can serve together, those: stor[01-02]."
    )
    replicas: Annotated[Literal[1, 2, 3], BeforeValidator(v.whole)] | None = Field(
        None, description="Of several servers, how many have each file: of stor[01-04] with 2, the first two the same."
    )
    arbiter: v.NodeName | None = Field(
        None,
        description="Of 2 `replicas`, a node that keeps the names of files and nothing in them: with it any one server "
        "may be away, and no file comes to be two.",
    )
    path: Folder | None = Field(
        None,
        description="Where they are on `server`, and what its `arbiter` keeps: as in /tmp all may make files, and "
        "nobody removes another's; of `homes` only who has one, in hers.",
    )
    network: v.SectionName | None = Field(
        None,
        description="The network over which `server` serves it; all who mount it are on that, too. Default: the "
        "network of the nodes' addresses.",
    )
    external: Address | None = Field(
        None, description="What the site has, as mount(8) names it for this kind: 10.20.2.9@tcp:/proj."
    )
    drives: v.Counted | None = Field(
        None,
        description="So many of each node's own NVMe drives, as its hardware's `nvme` says them: 8 x 3.84TB. They are "
        "formatted where nothing at all is found on them, and never else.",
    )
    raid: Annotated[Literal[0, 1, 6], BeforeValidator(v.whole)] | None = Field(
        None,
        description="Of several `drives`, 0: with one all is lost; 1: each has all; 6: two of four or more may be "
        "lost. Default: 0.",
    )
    quota_gib: v.Whole | None = Field(
        None,
        ge=1,
        le=10_000_000,
        description="What each user may have on a node's `drives`, GiB, by whatever way it comes there: of what is "
        "served from them, too. Default: all.",
    )
    keep_after_jobs: v.Truth = Field(
        False, description="Whether what a user has on `drives` stays when her last job on that node has ended."
    )
    homes: v.Truth = Field(
        False,
        description="Whether users' homes are there, `mount`/NAME, made by `server`, or by the site where it has them; "
        "people of a directory have theirs there, too.",
    )
    mount: Folder = Field(description="Where nodes find the files.")
    options: tuple[MountOption, ...] = Field(
        (), description="Further options of mount(8); they count before those that the kind has of its own."
    )
    on: v.NodeSet | None = Field(
        None,
        description="The nodes that mount it; default: those with the function worker or login, of `drives` worker, of "
        "`homes` all.",
    )
    needs: Needs | None = Field(None, description="What is needed of it.")

    @property
    def servers(self) -> tuple[str, ...]:
        """The nodes of `server`, in their order."""
        return hostlist.expand(self.server) if self.server else ()

    @property
    def keepers(self) -> tuple[str, ...]:
        """The nodes that have something of it at `path`."""
        others = (self.arbiter,) if self.arbiter and self.arbiter not in self.servers else ()
        return (*self.servers, *others)
