"""The nodes to be installed, and the settings for serving them."""

from __future__ import annotations

import ipaddress
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.untrusted_files import read_named
from hpcforge.cluster import Loaded
from hpcforge.cluster.model import Network, Node
from hpcforge.cluster.people import number_of
from hpcforge.errors import UsageError
from hpcforge.image import disk, store
from hpcforge.image.manifest import Manifest
from hpcforge.metal.netboot import Records, folder, services
from hpcforge.metal.netboot.configurations import BootHost, BootNetwork
from hpcforge.metal.netboot.decide import Need, Record, renewed
from hpcforge.metal.netboot.installer import installer
from hpcforge.metal.netboot.server import Boots, identity
from hpcforge.run.site import Site, add_values
from hpcforge.tally import Tally

# nginx, as an ordinary user, must reach the socket, and a state folder may be below root's home.
_SERVED = Path("/run/hpcforge-netboot")
_BEFORE_ROOT_BYTES = 70 << 20  # partition tables, and partitions of boot loaders as installer.sh creates them


def records_of(site: Site) -> Records:
    return Records(folder(site.cluster.name))


def want(site: Site, names: Sequence[str], wipe: Mapping[str, tuple[str, ...]], image: str, hours: float) -> None:
    """Ask for the installation of nodes, each once, within some hours. Raises UsageError."""
    unknown = [name for name in names if site.cluster.by_name[name].mac is None]
    if unknown:
        raise UsageError(
            f"the MAC address is not known: {fold(unknown)}",
            f"in the inventory: `{unknown[0]}: {{mac: 3c:ec:ef:12:34:56}}`, or hpcforge discover",
        )
    until_s = time.time() + hours * 3600
    records = records_of(site)
    for name in names:
        _put(
            records,
            Record(name, "wanted", until_s, image, wipe.get(name, ()), mac=site.cluster.by_name[name].mac or ""),
        )


def _put(records: Records, new: Record) -> None:
    records.change(new.node, lambda old: renewed(new, old))


def withdraw(site: Site, names: Sequence[str]) -> None:
    """Ask no longer for the installation of nodes."""
    records = records_of(site)
    for name in names:
        records.change(
            name,
            lambda old: (
                replace(old, until_s=0.0, token_sha256=None) if old and old.state in ("wanted", "offered") else None
            ),
        )


def image_named(name: str | None) -> Manifest:
    """Return the named image with a disk, or the only one. Raise UsageError and `ImageError`."""
    if name is not None:
        image = store.read(name)
        if image.disk is None:
            raise UsageError(f"image {name} has no disk", "hpcforge image build BLUEPRINT --metal")
        return image
    images = [image for image in store.all_images() if isinstance(image, Manifest) and image.disk is not None]
    if len(images) != 1:
        names = ", ".join(image.name for image in images) or "none"
        raise UsageError(
            f"no single image has a disk: {names}", "--image NAME, or hpcforge image build BLUEPRINT --metal"
        )
    return images[0]


def boot_network(site: Site) -> Network:
    """Return the network that nodes boot on: the one with `boot`, else that of their addresses."""
    cluster = site.cluster
    return next((network for network in cluster.networks if network.boot), cluster.network)


@contextmanager
def served(
    site: Site, image: Manifest, address: str | None, port: int, proxy: bool, key: Path, say: Callable[[str], None]
) -> Iterator[services.Served]:
    """Yield everything that is served; meanwhile the image is not replaced or removed.

    Raises UsageError, `NetbootError`, `InstallerError` and `ImageError`.
    """
    network = boot_network(site)
    address = address or services.address_on(network.cidr)
    with ExitStack() as until_end:
        with disk.disk_of(image, say) as place:  # it compares checksums
            until_end.enter_context(store.in_use(image.name))
        files = {name: services.sha256_of(place / name) for name in ("vmlinuz", "initrd.img")}
        assert image.disk is not None
        files["root.ext4"] = image.disk.sha256
        say("making the installer")
        archive = installer()
        url, folder = f"http://{address}:{port}", _SERVED / site.cluster.name
        hosts = {
            node.mac: BootHost(node.name, node.mac, node.address) for node in site.cluster.nodes if node.mac is not None
        }
        needs = {node.name: _need(node, image.disk.bytes) for node in site.cluster.nodes}
        interface, script = services.interface_of(address), f"{url}/machine/boot.ipxe"
        boot = BootNetwork(interface, address, network.cidr, script, str(folder), network.gateway, proxy)
        identities = _identities(site, network, public_key(key))
        boots = Boots(records_of(site), hosts, identities, url, image.name, image.disk.bytes, files, needs, say=say)
        yield services.Served(boot, port, boots, folder, place, archive)


def _identities(site: Site, network: Network, authorized: str) -> dict[str, str]:
    prefix = ipaddress.IPv4Network(network.cidr).prefixlen
    return {
        node.name: identity(
            node.name,
            {
                "address": node.address,
                "prefix": str(prefix),
                "gateway": network.gateway or "",
                "user": site.cluster.access.user,
                "uid": str(number_of(site.cluster.users, site.cluster.access.user) or ""),
                "authorized_key": authorized,
                "console": "ttyS0,115200",
                "partitions": " ".join(f"{mount}={gib}" for mount, gib in node.system_disk.partitions_gib.items()),
            },
        )
        for node in site.cluster.nodes
    }


def _need(node: Node, image_bytes: int) -> Need:
    """Return the disk space for a node's system: its partitions, and for / the image and half as much again."""
    gib = sum(node.system_disk.partitions_gib.values())
    return Need(node.system_disk.drives, (gib << 30) + image_bytes * 3 // 2 + _BEFORE_ROOT_BYTES)


def record_keys(site: Site, names: Sequence[str] | None = None) -> tuple[str, ...]:
    """Write the host keys of installed nodes, or of these of them, where the inventory has none; return the nodes.

    Raises as `add_values` does.
    """
    installed = {name: record for name, record in records_of(site).read().items() if record.state == "installed"}

    def keys(loaded: Loaded) -> dict[tuple[str, str], object]:
        return {
            (node.name, "host_keys"): list(installed[node.name].host_keys)
            for node in loaded.cluster.nodes
            if node.name in installed
            and (names is None or node.name in names)
            and not node.host_keys
            and installed[node.name].mac == node.mac
        }

    return tuple(name for name, _ in add_values(site.loaded, keys))


def default_key(site: Site) -> Path:
    """Return hpcforge's login key: that of the blueprint, else the operator's own. Raise UsageError."""
    if site.cluster.access.key is not None:
        return site.cluster.access.key
    keys = sorted((Path.home() / ".ssh").glob("id_*.pub"))
    if not keys:
        raise UsageError("no ssh key for nodes is set", "in the inventory: `access: {key: FILE}`")
    return keys[0]


def public_key(key: Path) -> str:
    """Return the public key that belongs to a private one, or is in a .pub file. Raise UsageError."""
    content = read_named(key)
    if key.suffix == ".pub":
        text = content.decode(errors="replace")
    else:
        process = subprocess.run(
            ["ssh-keygen", "-y", "-P", "", "-f", str(key)], capture_output=True, text=True, check=False
        )
        if process.returncode:
            raise UsageError(f"{key}: its public key cannot be read", "name a .pub file: --key FILE")
        text = process.stdout
    return " ".join(text.split("\n", 1)[0].split()[:2])


def disks_to_wipe(wipe: Sequence[str], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the serial numbers of the disks that may be overwritten, by node. Raises UsageError."""
    serials: dict[str, tuple[str, ...]] = {}
    for text in wipe:
        name, _, serial = text.partition("=")
        if name not in names or not serial or not serial.isascii() or not serial.isprintable():
            raise UsageError(f"--wipe {text}: not NODE=SERIAL of a node that is named", f"--wipe {names[0]}=S3Z8NX0K")
        serials[name] = (*serials.get(name, ()), serial)
    return serials


def unfinished(records: Mapping[str, Record], now_s: float) -> list[str]:
    """Return the nodes whose installation was requested and has not ended."""
    return [
        name
        for name, record in records.items()
        if record.state == "begun" or (record.state in ("wanted", "offered") and record.until_s > now_s)
    ]


def follow(tally: Tally, records: Mapping[str, Record], now_s: float) -> None:
    """Count installations by their records, without those that had ended before."""
    awaited = unfinished(records, now_s)
    for name in awaited:
        tally.add(name)
        if records[name].state == "begun":
            tally.begin(name)
    for name in set(tally.names).difference(awaited):
        tally.end(name, failed=name not in records or records[name].state != "installed")
