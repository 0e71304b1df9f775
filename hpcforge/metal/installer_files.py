"""Files for a site's own installer, so that a node meets the needs of the first apply. Pure.

Preseed for debian-installer, and user-data, meta-data and network-config for cloud-init's NoCloud source. Neither
names a disk or confirms a write: an installer asks then, and wipes none by mistake (`installer_disks`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import urlsplit

import yaml

from hpcforge.cluster.model import Cluster, Network, Node
from hpcforge.cluster.people import number_of
from hpcforge.metal.installer_disks import disk_lines, disk_text

Format = Literal["preseed", "cloud-init"]
_PACKAGES = ("openssh-server", "python3", "sudo")


@dataclass(frozen=True)
class InstallerChoices:
    """Settings that the blueprint does not have."""

    key: str  # public key, "ssh-ed25519 AAAA..."
    mirror: str = "http://deb.debian.org/debian"
    security: str = "http://deb.debian.org/debian-security"  # cloud-init's default is `mirror`, which has no updates
    dns: tuple[str, ...] = ()  # name servers for the installer; (): `name_servers`


def files_of(cluster: Cluster, node: Node, network: Network, kind: Format, choices: InstallerChoices) -> dict[str, str]:
    """Return the files of a node by their paths below a folder of all nodes."""
    choices = replace(choices, dns=choices.dns or name_servers(cluster))
    if kind == "preseed":
        return {f"{node.name}.cfg": preseed(cluster, node, network, choices)}
    files = {
        "user-data": "#cloud-config\n" + _disk_comment(node) + _yaml(user_data(cluster, node, choices)),
        "meta-data": _yaml({"instance-id": f"{cluster.name}-{node.name}", "local-hostname": node.name}),
    }
    if node.mac is not None:  # without a MAC address, a node could configure the wrong interface
        files["network-config"] = _yaml(network_config(node, network, choices))
    return {f"{node.name}/{name}": text for name, text in files.items()}


def _disk_comment(node: Node) -> str:
    """Return a comment about disks: cloud-init starts on the disk that has the system already."""
    disks = disk_text(node.system_disk)
    return f"# Not in this file, and needed before it is read: system_disk with {disks}.\n" if disks else ""


def name_servers(cluster: Cluster) -> tuple[str, ...]:
    """Return name servers that answer before any node does: the site's, or the forwarders of the cluster's."""
    service = cluster.services.get("dns")
    return () if service is None else service.external or service.options.get("forward", ())


def user_data(cluster: Cluster, node: Node, choices: InstallerChoices) -> Mapping[str, object]:
    """Return cloud-init's configuration of a node: account, key, sudo, packages and their source."""
    user = cluster.access.user
    account: dict[str, object] = {"name": user, "ssh_authorized_keys": [choices.key]}
    if user != "root":
        number = number_of(cluster.users, user)
        account |= {"uid": str(number)} if number else {}  # older releases ignore a number that is not text
        account |= {"shell": "/bin/bash", "lock_passwd": True, "sudo": "ALL=(ALL) NOPASSWD:ALL"}
    return {
        "hostname": node.name,
        "fqdn": f"{node.name}.{cluster.domain}",
        "users": [account],
        "disable_root": user != "root",
        "ssh_pwauth": False,
        "apt": {
            "primary": [{"arches": ["default"], "uri": choices.mirror}],
            "security": [{"arches": ["default"], "uri": choices.security}],
        },
        "package_update": True,
        "packages": list(_PACKAGES),
    }


def network_config(node: Node, network: Network, choices: InstallerChoices) -> Mapping[str, object]:
    """Return cloud-init's network configuration (version 2): the one interface that has the node's address."""
    interface: dict[str, object] = {
        "match": {"macaddress": node.mac},
        "addresses": [f"{node.address}/{_prefix(network)}"],
    }
    if network.gateway is not None:
        interface["routes"] = [{"to": "0.0.0.0/0", "via": network.gateway}]
    if choices.dns:
        interface["nameservers"] = {"addresses": list(choices.dns)}
    return {"version": 2, "ethernets": {"first": interface}}


def preseed(cluster: Cluster, node: Node, network: Network, choices: InstallerChoices) -> str:
    """Return a preseed file of debian-installer (Debian 12 and 13)."""
    user = cluster.access.user
    mirror = urlsplit(choices.mirror)
    home = "/root" if user == "root" else f"/home/{user}"
    address = {
        "get_ipaddress": node.address,
        "get_netmask": network.netmask,
        "get_gateway": network.gateway or "none",
        "get_nameservers": " ".join(choices.dns),
        "get_hostname": node.name,
        "get_domain": cluster.domain,
    }
    boot = " ".join(f"netcfg/{key}={value.split()[0]}" for key, value in address.items() if value)
    lines = [
        f"# {node.name} of {cluster.name}. Written by hpcforge export. It confirms no disk: the installer asks.",
        "# A file that comes over the network comes after these questions. Put this on the kernel's command line:",
        f"#   netcfg/disable_autoconfig=true {boot}",
        "d-i netcfg/disable_autoconfig boolean true",
        *(f"d-i netcfg/{key} string {value}".rstrip() for key, value in address.items()),
        "d-i netcfg/confirm_static boolean true",
        "d-i mirror/country string manual",
        f"d-i mirror/protocol string {mirror.scheme}",
        f"d-i mirror/{mirror.scheme}/hostname string {mirror.netloc}",
        f"d-i mirror/{mirror.scheme}/directory string {mirror.path or '/'}",
        f"d-i mirror/{mirror.scheme}/proxy string",
        *_account(user, number_of(cluster.users, user)),
        *disk_lines(node.system_disk),
        "d-i clock-setup/utc boolean true",
        "d-i time/zone string Etc/UTC",
        "tasksel tasksel/first multiselect",
        f"d-i pkgsel/include string {' '.join(_PACKAGES)}",
        "popularity-contest popularity-contest/participate boolean false",
        "d-i finish-install/reboot_in_progress note",
        "d-i preseed/late_command string \\",
        f"  mkdir -p -m 0700 /target{home}/.ssh && \\",
        f"  echo '{choices.key}' > /target{home}/.ssh/authorized_keys && \\",
        f"  chmod 0600 /target{home}/.ssh/authorized_keys && \\",
        f"  in-target chown -R {user}: {home}/.ssh" + ("" if user == "root" else " && \\"),
    ]
    if user != "root":
        lines += [
            f"  echo '{user} ALL=(ALL) NOPASSWD: ALL' > /target/etc/sudoers.d/hpcforge-first && \\",
            "  chmod 0440 /target/etc/sudoers.d/hpcforge-first",
        ]
    return "".join(f"{line}\n" for line in lines)


def _account(user: str, number: int | None) -> list[str]:
    if user == "root":
        return [
            "d-i passwd/root-login boolean true",
            "d-i passwd/root-password-crypted password !",
            "d-i passwd/make-user boolean false",
        ]
    return [
        "d-i passwd/root-login boolean false",
        f"d-i passwd/user-fullname string {user}",
        f"d-i passwd/username string {user}",
        *([f"d-i passwd/user-uid string {number}"] if number else []),
        "d-i passwd/user-password-crypted password !",
    ]


def _prefix(network: Network) -> int:
    return ipaddress.IPv4Network(network.cidr).prefixlen


def _yaml(data: Mapping[str, object]) -> str:
    return str(yaml.safe_dump(data, sort_keys=False, width=1000))
