"""The configuration of dnsmasq and nginx, and scripts for iPXE. Pure.

dnsmasq gives addresses to machines of the inventory, and names the first file. nginx serves large files itself, and
forwards requests about one machine to the small server behind it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Files of Debian's package ipxe that firmware boots first, by the architecture that a machine reports (RFC 4578).
BIOS_FILE, EFI_FILE = "undionly.kpxe", "ipxe.efi"
EFI_LABEL = "HPCFORGE"  # label of the EFI partition that the installer writes
_EFI_ARCHITECTURES = (7, 9)
_PXE_SERVICES = {"x86PC": BIOS_FILE, "BC_EFI": EFI_FILE, "X86-64_EFI": EFI_FILE}  # dnsmasq's names of 0, 7 and 9


@dataclass(frozen=True)
class BootHost:
    """A machine that is answered."""

    name: str
    mac: str
    address: str


@dataclass(frozen=True)
class BootNetwork:
    """The network for boots. `address` is this server's; `folder` has dnsmasq's files."""

    interface: str
    address: str
    cidr: str
    url: str  # URL of the boot script, without query
    folder: str
    router: str | None = None
    proxy: bool = False  # True: another server assigns addresses, and this one only names boot files


def dnsmasq_conf(network: BootNetwork, hosts: Sequence[BootHost]) -> str:
    """Return dnsmasq.conf. Machines that the inventory does not know get no answer."""
    subnet = ipaddress.IPv4Network(network.cidr)
    lines = [
        "# Written by hpcforge netboot serve.",
        "port=0",  # no DNS
        f"interface={network.interface}",
        "except-interface=lo",
        "bind-interfaces",
        f"pid-file={network.folder}/dhcp/dnsmasq.pid",
        f"dhcp-leasefile={network.folder}/dhcp/leases",
        "no-ping",  # addresses are reserved; without pings dnsmasq needs no raw socket
        "log-facility=-",
        "enable-tftp",
        f"tftp-root={network.folder}/tftp",
        "dhcp-ignore=tag:!known",
        "dhcp-match=set:ipxe,175",
        *(f"dhcp-match=set:efi,option:client-arch,{number}" for number in _EFI_ARCHITECTURES),
    ]
    # With a next server iPXE takes the file from a proxy's first answer. A BIOS would get no other.
    lines.append(f"dhcp-boot=tag:ipxe,{network.url}?mac=${{netX/mac}}&platform=${{platform}},,{network.address}")
    if network.proxy:
        lines += [
            f"dhcp-range={subnet.network_address},proxy,{subnet.netmask}",
            *(f'pxe-service=tag:!ipxe,{kind},"hpcforge",{file}' for kind, file in _PXE_SERVICES.items()),
        ]
        lines += [f"dhcp-host={host.mac},set:known" for host in hosts]
    else:
        lines += [
            f"dhcp-range={subnet.network_address},static,{subnet.netmask},1h",
            f"dhcp-boot=tag:!ipxe,tag:!efi,{BIOS_FILE}",
            f"dhcp-boot=tag:!ipxe,tag:efi,{EFI_FILE}",
            f"dhcp-option=option:router{f',{network.router}' if network.router else ''}",
        ]
        lines += [f"dhcp-host={host.mac},{host.address},{host.name}" for host in hosts]
    return "\n".join(lines) + "\n"


# nginx's folders for temporary files by directive. It creates them even for protocols that it never serves.
_BUFFERS = {"client_body": "body", "proxy": "proxy", "fastcgi": "fastcgi", "uwsgi": "uwsgi", "scgi": "scgi"}


def nginx_conf(address: str, port: int, folder: str, image: str, user: str | None) -> str:
    """Return nginx.conf for a server in the foreground.

    `folder` has `socket`, `installer.img` and what nginx writes, `image` the image's kernel, initrd and file system.
    `user`: the account of its workers, where root starts it.
    """
    as_user = f"user {user};\n" if user else ""
    buffers = "\n".join(f"  {kind}_temp_path {folder}/bodies/{sub};" for kind, sub in _BUFFERS.items())
    return f"""\
# Written by hpcforge netboot serve.
{as_user}daemon off;
worker_processes 2;
pid {folder}/nginx.pid;
error_log stderr notice;
events {{ worker_connections 1024; }}
http {{
  server_tokens off;
  access_log off;
  sendfile on;
  default_type application/octet-stream;
  client_max_body_size 64k;
{buffers}
  server {{
    listen {address}:{port};
    location = /files/installer.img {{ alias {folder}/installer.img; }}
    location ~ ^/files/(vmlinuz|initrd\\.img|root\\.ext4)$ {{
      alias {image}/$1;
      limit_except GET {{ deny all; }}
      disable_symlinks on;
    }}
    location /machine/ {{
      proxy_pass http://unix:{folder}/socket;
      proxy_set_header X-Real-IP $remote_addr;
    }}
    location / {{ return 404; }}
  }}
}}
"""


# `exit` continues with the BIOS's own boot order; some machines then boot the network again, so disks are tried first.
LOCAL_BIOS = "#!ipxe\necho hpcforge: this machine boots its own disk\nsanboot --no-describe --drive 0x80 || exit\n"
# The label locates the installer's EFI partition, since firmware may try other network boots for minutes before the
# disk. Firmware tries the next device only after a failure: after a success it shows its menu.
LOCAL_EFI = (
    f"#!ipxe\necho hpcforge: this machine boots its own disk\nchain file://{EFI_LABEL}/EFI/BOOT/BOOTX64.EFI || exit 1\n"
)


def local_script(platform: str) -> str:
    """Boot from the machine's own disk."""
    return LOCAL_EFI if platform == "efi" else LOCAL_BIOS


def install_script(url: str, token: str, mac: str, files: Mapping[str, str], console: str) -> str:
    """Boot the installer; `files` are the SHA-256 of kernel, initrd and installer archive by their names.

    The token is on the kernel's command line, which only the machine itself reads. The kernel and its archives are
    fetched by HTTP without a checksum, since iPXE as Debian builds it has none but signatures: the image is what is
    checked.
    """
    digests = ", ".join(f"{name} {digest[:12]}" for name, digest in files.items())
    return (
        "#!ipxe\n"
        f"echo hpcforge: installing ({digests})\n"
        f"kernel {url}/files/vmlinuz initrd=initrd.img initrd=installer.img console={console} panic=60"
        f" hpcforge.url={url}/machine hpcforge.token={token} BOOTIF=01-{mac.replace(':', '-')}\n"
        f"initrd --name initrd.img {url}/files/initrd.img\n"  # an argument would put it into another archive
        f"initrd --name installer.img {url}/files/installer.img\n"
        "boot\n"
    )
