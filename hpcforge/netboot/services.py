"""dnsmasq and nginx while machines are installed: started here, in the foreground, and ended with this process."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hpcforge.errors import ExpectedError
from hpcforge.netboot import foreign_dhcp, server
from hpcforge.netboot.configurations import BIOS_FILE, EFI_FILE, BootNetwork, dnsmasq_conf, nginx_conf
from hpcforge.netboot.server import Boots

IPXE = Path("/usr/lib/ipxe")  # of Debian's package ipxe
PROGRAMS = {"dnsmasq": "dnsmasq-base", "nginx": "nginx-light"}  # and the packages that have them
_ENDS_S = 10.0


class NetbootError(ExpectedError):
    """Machines cannot be served."""


@dataclass(frozen=True)
class Served:
    """What is served, where, and from which folders."""

    network: BootNetwork
    port: int
    boots: Boots
    place: Path  # what the servers write
    image: Path  # kernel, initrd and file system
    installer: bytes
    user: str | None = "www-data"  # whom nginx runs as


@contextmanager
def serving(what: Served) -> Iterator[Callable[[], None]]:
    """Serve while entered; what is given raises `NetbootError` once a server has ended."""
    _require_programs()
    _refuse_foreign_dhcp(what.network, [host.mac for host in what.boots.hosts.values()])
    place = what.place
    place.mkdir(parents=True, exist_ok=True)
    # nginx's workers must reach the socket and the installer, whatever umask root has
    place.parent.chmod(0o755)
    place.chmod(0o711)
    for folder in ("tftp", "bodies"):
        (place / folder).mkdir(exist_ok=True)
        (place / folder).chmod(0o755)
    for name in (BIOS_FILE, EFI_FILE):
        shutil.copyfile(IPXE / name, place / "tftp" / name)
    (place / "installer.img").write_bytes(what.installer)
    (place / "installer.img").chmod(0o644)
    (place / "dnsmasq.conf").write_text(dnsmasq_conf(what.network, list(what.boots.hosts.values())))
    user = what.user if os.geteuid() == 0 else None
    (place / "nginx.conf").write_text(nginx_conf(what.network.address, what.port, str(place), str(what.image), user))
    with server.serving(place / "socket", what.boots):
        if user:
            shutil.chown(place / "socket", user)
        with (
            running(
                ["dnsmasq", "--keep-in-foreground", "--user=root", f"--conf-file={place}/dnsmasq.conf"], place
            ) as dhcp,
            running(["nginx", "-p", str(place), "-c", f"{place}/nginx.conf", "-e", "stderr"], place) as http,
        ):
            yield lambda: _check({"dnsmasq": dhcp, "nginx": http}, place)


def interface_of(address: str) -> str:
    """The interface of this machine that has an address. Raises `NetbootError`."""
    done = subprocess.run(["ip", "-j", "-4", "address"], capture_output=True, check=True)
    for link in json.loads(done.stdout):
        if any(found.get("local") == address for found in link.get("addr_info", [])):
            return str(link["ifname"])
    raise NetbootError(f"this machine does not have the address {address}", "name one that it has: --address")


def address_on(cidr: str) -> str:
    """The address that this machine has on a network. Raises `NetbootError`."""
    network = ipaddress.IPv4Network(cidr)
    done = subprocess.run(["ip", "-j", "-4", "address"], capture_output=True, check=True)
    links = json.loads(done.stdout)
    found = [str(entry["local"]) for link in links for entry in link.get("addr_info", []) if "local" in entry]
    there = [address for address in found if ipaddress.IPv4Address(address) in network]
    if not there:
        raise NetbootError(
            f"this machine has no address on {cidr}, where nodes boot", "give it one, or name it: --address"
        )
    return there[0]


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refuse_foreign_dhcp(network: BootNetwork, macs: Sequence[str]) -> None:
    """Refuse to be the second DHCP server of a network: machines take the offer that comes first."""
    found = () if network.proxy else foreign_dhcp.others(network.interface, (network.address,), macs)
    if found:
        raise NetbootError(
            f"another DHCP server answers on {network.interface}: {', '.join(found)}",
            "--proxy-dhcp leaves addresses to it; or switch it off (`netboot serve` on another host is one, too)",
        )


def _require_programs() -> None:
    missing = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if not (IPXE / BIOS_FILE).exists():
        missing.append("ipxe")
    if missing:
        raise NetbootError(
            f"this machine lacks {', '.join(missing)}", f"apt-get install --no-install-recommends {' '.join(missing)}"
        )


@contextmanager
def running(argv: list[str], place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server while entered; its log goes to `place`."""
    with (place / f"{argv[0]}.log").open("wb") as log:
        ends_with_us = ["setpriv", "--pdeathsig", "TERM", *argv]  # even if this process is killed
        process = subprocess.Popen(
            ends_with_us, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a server and its workers: those of nginx outlive a master that was killed, and hold its port."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        until = time.monotonic() + _ENDS_S
        while time.monotonic() < until:
            process.poll()
            os.killpg(process.pid, 0)  # raises once none of them is left
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _check(processes: Mapping[str, subprocess.Popen[bytes]], place: Path) -> None:
    for name, process in processes.items():
        if process.poll() is not None:
            said = (place / f"{name}.log").read_text("utf-8", "replace").strip().splitlines()[-3:]
            raise NetbootError(
                f"{name} has ended: {' | '.join(said)}",
                f"{place}/{name}.log has more; another server may have its port",
            )


def started(check: Callable[[], None], seconds: float = 1.0) -> None:
    """Raise `NetbootError` if a server ends within its first moments, as where its port is taken."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        check()
        time.sleep(0.1)
