"""The inventory's schema: the machines. A lab writes one; a site keeps one; `--inventory` swaps it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from hpcforge.blueprint import suggestions
from hpcforge.blueprint import values as v
from hpcforge.blueprint.public_keys import HostKey
from hpcforge.blueprint.section import Section, schema_of
from hpcforge.blueprint.sections.access import Through
from hpcforge.blueprint.sections.networks import InventoryNetwork


class InventoryAccess(Section):
    """How hpcforge gets in, where it differs from the blueprint."""

    user: v.LoginName | None = Field(None, description="The ssh user on every node.")
    become: Literal["sudo", "none"] | None = Field(None, description="How that user becomes root.")
    via: Through | None = Field(None, description="The jump host, in place of the blueprint's.")
    key: v.FilePath | None = Field(
        None, description="Private key file, relative to the inventory; default: the ssh agent and your own keys."
    )


class BmcSection(Section):
    """A machine's management controller."""

    address: v.Ipv4 | None = Field(
        None, description="IPv4 address; default: chosen by the node's name, if the blueprint has a network for BMCs."
    )
    mac: v.Mac | None = Field(None, description="MAC address.")
    certificate: v.Fingerprint | None = Field(
        None, description="SHA-256 of its TLS certificate; `hpcforge discover --trust-new` writes it."
    )
    user: v.BmcUser | None = Field(None, description="Its user; default: that of `bmcs`.")


class BmcsSection(Section):
    """How hpcforge talks to management controllers."""

    user: v.BmcUser | None = Field(None, description="The user on every management controller.")
    protocol: Literal["redfish", "ipmi"] = Field(
        "redfish", description="Redfish over HTTPS, or IPMI over LAN by ipmitool, which has no certificates."
    )
    tls: Literal["pinned", "unverified"] = Field(
        "pinned",
        description="pinned: only the certificate that `nodes.<name>.bmc.certificate` names; unverified: any, so that "
        "any machine at the address gets the password.",
    )
    port: v.Whole | None = Field(
        None, ge=1, le=65535, description="Port: TCP for Redfish, UDP for IPMI. Default: 443 and 623."
    )
    cipher_suite: Literal[3, 17] = Field(17, description="Cipher suite of IPMI. 3 is SHA-1, for old controllers.")


class InventoryNode(Section):
    """One machine."""

    address: v.Ipv4 | None = Field(None, description="IPv4 address; default: the blueprint's.")
    host_keys: tuple[HostKey, ...] = Field((), description="OpenSSH public host keys, type and base64.")
    addresses: dict[v.SectionName, v.Ipv4] = Field(
        {}, description="IPv4 addresses on other networks, by network; default: derived from its name."
    )
    mac: v.Mac | None = Field(None, description="MAC address of the interface that has `address`.")
    ports: dict[v.FabricName, tuple[v.Mac, ...]] = Field(
        {},
        description="MAC addresses of its ports by fabric, in the order of its links, for networks with `configure`; "
        "default: the fabric's `interfaces`.",
    )
    bmc: BmcSection | None = Field(None, description="Its management controller.")
    serial: v.Serial | None = Field(None, description="The maker's serial number, as on the machine.")
    note: v.Sentence | None = Field(None, description="Notes for people.")


PortLabel = Annotated[
    str, v.Matches("[0-9]{1,4}(?:/[0-9]{1,4}){0,2}", "a port, and its lane if it is broken out", "7 or 7/2")
]


class InventorySwitch(Section):
    """What a switch says of itself, where that is not the name that the design gives it."""

    system_name: v.HostOrAddress | None = Field(
        None, description="Its name in LLDP and in its InfiniBand node description."
    )
    guid: (
        Annotated[
            str,
            v.Matches(
                "0x[0-9a-f]{16}", "a GUID: 0x and 16 hexadecimal digits", "0xb83fd203004a1c80", guess=suggestions.guid
            ),
        ]
        | None
    ) = Field(None, description="Its InfiniBand node GUID, as in 0xb83fd203004a1c80.")
    mac: v.Mac | None = Field(None, description="Its chassis MAC address in LLDP.")
    ports: dict[PortLabel, v.Sentence] = Field(
        {}, description="Names of some of its ports in LLDP, by the port as printed on it; they settle its numbering."
    )


class PinnedPosition(Section):
    """Where a node or switch stands, as hpcforge once chose it."""

    rack: v.RackName = Field(description="Rack.")
    u: v.Whole = Field(ge=1, le=60, description="Lowest of its rack units, counted from 1 at the bottom.")


class Inventory(Section):
    """What there is: the machines behind a blueprint's names."""

    schema_: Annotated[Literal[1], BeforeValidator(v.whole)] = Field(
        alias="schema", description="Version of the inventory's schema."
    )
    access: InventoryAccess | None = Field(None, description="Access settings that differ from the blueprint's.")
    networks: dict[v.SectionName, InventoryNetwork] = Field(
        {}, description="Subnets that differ from the blueprint's, by name."
    )
    nodes: dict[v.NodeName, InventoryNode] = Field({}, description="Machines by node name.")
    bmcs: BmcsSection | None = Field(None, description="Access to management controllers.")
    switches: dict[v.NodeName, InventorySwitch] = Field(
        {}, description="Names and addresses that switches report, by their names in the design."
    )
    positions: dict[v.NodeName, PinnedPosition] = Field(
        {}, description="Pinned rack positions by node or switch; `hpcforge pin` writes them."
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of an inventory, for editors; every field has a description."""
    return schema_of(Inventory, "hpcforge inventory")
