"""The inventory's schema: what there is. A lab writes one; a site keeps one; `--inventory` swaps it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from hpcforge.blueprint import values as v
from hpcforge.blueprint.schema import Network
from hpcforge.blueprint.section import Section


class InventoryAccess(Section):
    """How hpcforge gets in, where it differs from the blueprint."""

    user: v.LoginName | None = Field(None, description="The ssh user on every node.")
    become: Literal["sudo", "none"] | None = Field(None, description="How that user becomes root.")
    key: v.FilePath | None = Field(
        None, description="Private key file, relative to the inventory; default: the ssh agent and your own keys."
    )


class InventoryNode(Section):
    """One machine."""

    address: v.Ipv4 | None = Field(None, description="IPv4 address; default: the blueprint's.")
    host_keys: tuple[v.HostKey, ...] = Field((), description="OpenSSH public host keys, type and base64.")


class PinnedPosition(Section):
    """Where a node or switch stands, as hpcforge once chose it."""

    rack: v.RackName = Field(description="Rack.")
    u: v.Whole = Field(ge=1, le=60, description="Lowest rack unit it takes, counted from 1 at the bottom.")


class Inventory(Section):
    """What there is: the machines behind a blueprint's names."""

    schema_: Annotated[Literal[1], BeforeValidator(v.whole)] = Field(
        alias="schema", description="Version of the inventory's schema."
    )
    access: InventoryAccess | None = Field(None, description="How hpcforge gets in, where it differs.")
    networks: dict[v.SectionName, Network] = Field({}, description="Subnets that differ from the blueprint's, by name.")
    nodes: dict[v.NodeName, InventoryNode] = Field({}, description="Machines by node name.")
    positions: dict[v.NodeName, PinnedPosition] = Field(
        {}, description="Pinned rack positions by node or switch; `hpcforge pin` writes them."
    )
