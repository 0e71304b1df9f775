"""dnsmasq's configuration: addresses for the machines that the inventory knows, and the first file to boot. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

# Files of Debian's package ipxe, by the architecture that a machine reports (RFC 4578): what firmware boots first.
BIOS_FILE, EFI_FILE = "undionly.kpxe", "ipxe.efi"
_EFI_ARCHITECTURES = (7, 9)


@dataclass(frozen=True)
class Host:
    """A machine that is answered."""

    name: str
    mac: str
    address: str


@dataclass(frozen=True)
class BootNetwork:
    """Where machines boot. `address` is this server's; `folder` has what dnsmasq writes."""

    interface: str
    address: str
    cidr: str
    url: str  # of the boot script, without what is asked
    folder: str
    router: str | None = None
    proxy: bool = False  # another server gives addresses: only boot files are named


def dnsmasq_conf(network: BootNetwork, hosts: Sequence[Host]) -> str:
    """Return dnsmasq.conf. Machines that the inventory does not know get no answer."""
    subnet = ipaddress.IPv4Network(network.cidr)
    lines = [
        "# Written by hpcforge netboot serve.",
        "port=0",  # no DNS
        f"interface={network.interface}",
        "except-interface=lo",
        "bind-interfaces",
        f"pid-file={network.folder}/dnsmasq.pid",
        f"dhcp-leasefile={network.folder}/leases",
        "log-dhcp",
        "log-facility=-",
        "enable-tftp",
        f"tftp-root={network.folder}/tftp",
        "dhcp-ignore=tag:!known",
        "dhcp-match=set:ipxe,175",
        *(f"dhcp-match=set:efi,option:client-arch,{number}" for number in _EFI_ARCHITECTURES),
    ]
    script = f"{network.url}?mac=${{netX/mac}}&platform=${{platform}}"
    if network.proxy:
        lines += [
            f"dhcp-range={subnet.network_address},proxy,{subnet.netmask}",
            f'pxe-service=tag:!ipxe,x86PC,"hpcforge",{BIOS_FILE}',
            f'pxe-service=tag:!ipxe,X86-64_EFI,"hpcforge",{EFI_FILE}',
            f'pxe-service=tag:!ipxe,BC_EFI,"hpcforge",{EFI_FILE}',
            f'pxe-service=tag:ipxe,x86PC,"hpcforge",{script}',
            f'pxe-service=tag:ipxe,X86-64_EFI,"hpcforge",{script}',
        ]
        lines += [f"dhcp-host={host.mac},set:known" for host in hosts]
    else:
        lines += [
            f"dhcp-range={subnet.network_address},static,{subnet.netmask},1h",
            f"dhcp-boot=tag:!ipxe,tag:!efi,{BIOS_FILE}",
            f"dhcp-boot=tag:!ipxe,tag:efi,{EFI_FILE}",
            f"dhcp-boot=tag:ipxe,{script}",
            f"dhcp-option=option:router{f',{network.router}' if network.router else ''}",
        ]
        lines += [f"dhcp-host={host.mac},{host.address},{host.name}" for host in hosts]
    return "\n".join(lines) + "\n"
