"""The file systems of a cluster in a blueprint. Which kinds there are is the catalog's to say, a file for each."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

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


class FileSystem(Section):
    """Files that nodes share: a node serves them (`server`, `path`), or the site has them (`external`)."""

    kind: v.SectionName = Field(description="How nodes reach it, as in nfs or lustre; the catalog has the kinds.")
    server: v.NodeName | None = Field(None, description="The node that has the files.")
    path: Folder | None = Field(
        None,
        description="Where they are on `server`: as in /tmp all may make files there, and nobody removes another's.",
    )
    external: Address | None = Field(
        None, description="What the site has, as mount(8) names it for this kind: 10.20.2.9@tcp:/proj."
    )
    mount: Folder = Field(description="Where nodes find the files.")
    options: tuple[MountOption, ...] = Field(
        (), description="Further options of mount(8); they count before those that the kind has of its own."
    )
    on: v.NodeSet | None = Field(
        None, description="The nodes that mount it; default: those with the function worker or login."
    )
