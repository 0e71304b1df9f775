"""dnsmasq and nginx while machines are installed: started here, in the foreground, and ended with this process."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hpcforge.errors import ExpectedError
from hpcforge.locks import held
from hpcforge.metal.netboot import server
from hpcforge.metal.netboot.configurations import BIOS_FILE, EFI_FILE, BootNetwork, dnsmasq_conf, nginx_conf
from hpcforge.metal.netboot.server import Boots

# Other DHCP servers on a network: hpcforge sends a DISCOVER and accepts no offer (RFC 2131).
#
# It sends and receives whole Ethernet frames, so that neither this machine's firewall nor a DHCP client with the port
# is in the way.
_COOKIE = b"\x63\x82\x53\x63"
_AT_ONCE = 64  # questions in a round: more could overflow a server's queue
_ROUND_S = 0.25
_TIMES = 2  # repeated, since a frame may be lost
_WAIT_S = 2.0  # after each round; a server that pings an address before its offer takes 1 s (RFC 2131, 2.2)
_IP, _UDP = 14, 34  # offsets of their headers, both without options
_BOOTP = 42
_SERVER_ID = 54
_ALL_PROTOCOLS = 0x0003  # ETH_P_ALL of linux/if_ether.h


def others(interface: str, own: Collection[str], macs: Sequence[str] = (), wait_s: float = _WAIT_S) -> tuple[str, ...]:
    """Return the addresses of DHCP servers that offer one to an unknown machine or to one of `macs`. Needs root.

    A server that knows other machines, and answers no unknown one, stays unseen.
    """
    number = secrets.randbits(32)
    source = b"\x02" + secrets.token_bytes(5)
    asking = [source, *(bytes.fromhex(mac.replace(":", "")) for mac in macs)]
    servers: dict[str, None] = {}
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)) as sock:
        sock.bind((interface, 0))
        for _ in range(_TIMES):
            for first in range(0, len(asking), _AT_ONCE):
                for mac in asking[first : first + _AT_ONCE]:
                    sock.send(discover_frame(mac, number, source))
                last = first + _AT_ONCE >= len(asking)
                servers |= dict.fromkeys(_servers(sock, number, wait_s if last else min(_ROUND_S, wait_s)))
    return tuple(server for server in servers if server not in own)


def _servers(sock: socket.socket, number: int, wait_s: float) -> list[str]:
    """Return the servers whose answers arrive within `wait_s`."""
    servers: list[str] = []
    until_s = time.monotonic() + wait_s
    while (left_s := until_s - time.monotonic()) > 0:
        sock.settimeout(left_s)
        try:
            server = server_of(sock.recv(2048), number)
        except TimeoutError:
            break
        if server is not None:
            servers.append(server)
    return servers


def discover_frame(mac: bytes, number: int, source: bytes) -> bytes:
    """Return a DHCPDISCOVER about a machine with this MAC address, from `source` to all on its network."""
    bootp = struct.pack(">BBBBIHH", 1, 1, 6, 0, number, 0, 0x8000) + bytes(16) + mac.ljust(16, b"\0") + bytes(192)
    bootp += _COOKIE + b"\x35\x01\x01" + b"\x37\x02\x01\x03" + b"\xff"
    bootp = bootp.ljust(300, b"\0")  # the smallest size of BOOTP (RFC 1542, 2.1)
    udp = struct.pack(">HHHH", 68, 67, 8 + len(bootp), 0)  # 0: without a checksum (RFC 768)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28 + len(bootp), 0, 0, 64, 17, 0, bytes(4), b"\xff" * 4)
    ip = ip[:10] + struct.pack(">H", _checksum(ip)) + ip[12:]
    return b"\xff" * 6 + source + b"\x08\x00" + ip + udp + bootp


def server_of(frame: bytes, number: int) -> str | None:
    """Return which server a frame comes from, if it is an answer to the DISCOVER with this number."""
    if len(frame) < _BOOTP + 240 or frame[12:14] != b"\x08\x00" or frame[_IP] != 0x45 or frame[_IP + 9] != 17:
        return None
    if frame[_UDP : _UDP + 4] != b"\x00\x43\x00\x44" or frame[_BOOTP] != 2:
        return None
    if frame[_BOOTP + 4 : _BOOTP + 8] != struct.pack(">I", number) or frame[_BOOTP + 236 : _BOOTP + 240] != _COOKIE:
        return None
    source = frame[_IP + 12 : _IP + 16]
    return str(ipaddress.IPv4Address(_option(frame[_BOOTP + 240 :], _SERVER_ID) or source))


def _option(options: bytes, code: int) -> bytes | None:
    """Return the value of an option of four bytes; None where it is not there."""
    at = 0
    while at + 1 < len(options) and options[at] != 255:
        if options[at] == 0:
            at += 1
            continue
        value = options[at + 2 : at + 2 + options[at + 1]]
        if options[at] == code and len(value) == 4:
            return value
        at += 2 + options[at + 1]
    return None


def _checksum(header: bytes) -> int:
    """Compute the Internet checksum (RFC 1071)."""
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


IPXE = Path("/usr/lib/ipxe")  # folder of Debian's package ipxe
PROGRAMS = {"dnsmasq": "dnsmasq-base", "nginx": "nginx-light"}  # programs and their packages
_ENDS_S = 10.0
_LOG_BYTES = 1 << 20  # size of a server's log, and of its older part
_DHCP_RIGHTS = "-all,+net_admin,+net_bind_service"  # to add machines to the ARP table; to bind ports 67 and 69


class NetbootError(ExpectedError):
    """Machines cannot be served."""


@dataclass(frozen=True)
class Served:
    """The served data, their network and their folders."""

    network: BootNetwork
    port: int
    boots: Boots
    place: Path  # folder of the servers' files
    image: Path  # folder with kernel, initrd and file system
    installer: bytes
    user: str | None = "www-data"  # user of nginx


@dataclass(frozen=True)
class Program:
    """A server that runs, and what keeps its log."""

    process: subprocess.Popen[bytes]
    log: threading.Thread


@contextmanager
def serving(served: Served) -> Iterator[Callable[[], None]]:
    """Serve while entered; yield a function that raises `NetbootError` once a server has ended or was replaced.

    Raises `HeldError` where another process serves this cluster or this network interface.
    """
    _require_programs()
    with alone(served):
        _refuse_foreign_dhcp(served.network, [host.mac for host in served.boots.hosts.values()])
        place, user = served.place, served.user if os.geteuid() == 0 else None
        _write_files(served, user)
        with server.serving(place / "socket", served.boots) as own:
            if user:
                shutil.chown(place / "socket", user)
            dnsmasq = ["dnsmasq", "--keep-in-foreground", f"--conf-file={place}/dnsmasq.conf"]
            with (
                running(dnsmasq, place, unprivileged(place / "dhcp") if os.geteuid() == 0 else ()) as dhcp,
                running(["nginx", "-p", str(place), "-c", f"{place}/nginx.conf", "-e", "stderr"], place) as http,
            ):
                yield lambda: _check({"dnsmasq": dhcp, "nginx": http}, place, own)


@contextmanager
def alone(served: Served) -> Iterator[None]:
    """Hold the place and the interface: a second dnsmasq on it would share port 67. Raises `HeldError`."""
    folder, name, interface = served.place.parent, served.place.name, served.network.interface
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)  # nginx's workers must reach the socket and the installer, whatever root's umask is
    hint = "wait for its end; it installs every node with a record: `hpcforge netboot want`"
    with (
        held(folder / f".cluster-{name}.lock", f"{name} is served to machines that boot", hint),
        held(folder / f".interface-{interface}.lock", f"machines on {interface} are served", hint),
    ):
        yield


def _write_files(served: Served, user: str | None) -> None:
    place = served.place
    place.mkdir(exist_ok=True)
    place.chmod(0o711)
    for folder in ("tftp", "bodies"):
        (place / folder).mkdir(exist_ok=True)
        (place / folder).chmod(0o755)
    for name in (BIOS_FILE, EFI_FILE):
        shutil.copyfile(IPXE / name, place / "tftp" / name)
    (place / "installer.img").write_bytes(served.installer)
    (place / "installer.img").chmod(0o644)
    (place / "dnsmasq.conf").write_text(dnsmasq_conf(served.network, list(served.boots.hosts.values())))
    (place / "dnsmasq.conf").chmod(0o644)
    (place / "dhcp").mkdir(mode=0o700, exist_ok=True)  # folder of leases
    (place / "nginx.conf").write_text(
        nginx_conf(served.network.address, served.port, str(place), str(served.image), user)
    )


def unprivileged(leases: Path) -> list[str]:
    """Return options of setpriv for dnsmasq: an ordinary user, with the rights that DHCP needs and no others.

    dnsmasq's own change of user would clear the signal that ends it with this process.
    """
    try:
        account = pwd.getpwnam("dnsmasq")  # user of Debian's package
    except KeyError:
        account = pwd.getpwuid(65534)  # the unprivileged user of every Debian system
    os.chown(leases, account.pw_uid, account.pw_gid)
    user = [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", "--no-new-privs"]
    return [*user, *(f"--{kind}={_DHCP_RIGHTS}" for kind in ("bounding-set", "inh-caps", "ambient-caps"))]


def interface_of(address: str) -> str:
    """Return the interface of this machine that has an address. Raise `NetbootError`."""
    process = subprocess.run(["ip", "-j", "-4", "address"], capture_output=True, check=True)
    for link in json.loads(process.stdout):
        if any(entry.get("local") == address for entry in link.get("addr_info", [])):
            return str(link["ifname"])
    raise NetbootError(f"this machine does not have the address {address}", "name its own address: --address")


def address_on(cidr: str) -> str:
    """Return the address that this machine has on a network. Raise `NetbootError`."""
    network = ipaddress.IPv4Network(cidr)
    process = subprocess.run(["ip", "-j", "-4", "address"], capture_output=True, check=True)
    links = json.loads(process.stdout)
    addresses = [str(entry["local"]) for link in links for entry in link.get("addr_info", []) if "local" in entry]
    matching = [address for address in addresses if ipaddress.IPv4Address(address) in network]
    if not matching:
        raise NetbootError(
            f"this machine has no address on {cidr}, where nodes boot",
            "give it one; `hpcforge netboot serve` takes another: --address",
        )
    return matching[0]


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refuse_foreign_dhcp(network: BootNetwork, macs: Sequence[str]) -> None:
    """Refuse to be the second DHCP server of a network: machines take the offer that comes first."""
    servers = () if network.proxy else others(network.interface, (network.address,), macs)
    if servers:
        raise NetbootError(
            f"another DHCP server answers on {network.interface}: {', '.join(servers)}",
            "--proxy-dhcp leaves addresses to it; or switch it off (perhaps `netboot serve` on another host)",
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
def running(argv: list[str], place: Path, privileges: Sequence[str] = ()) -> Iterator[Program]:
    """Run a server while entered, with options of setpriv as its `privileges`; its log goes to `place`."""
    process = subprocess.Popen(
        ["setpriv", *privileges, "--pdeathsig", "TERM", *argv],  # it ends with this process, even if that is killed
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    log = threading.Thread(target=_keep_log, args=(process.stdout, place / f"{argv[0]}.log"), daemon=True)
    log.start()
    try:
        yield Program(process, log)
    finally:
        _end(process)
        log.join(_ENDS_S)


def _keep_log(output: IO[bytes], path: Path) -> None:
    """Keep the newest part of a server's output, however much machines make it print; the part before is in `.1`."""
    path.unlink(missing_ok=True)
    written = 0
    while chunk := os.read(output.fileno(), 1 << 16):
        with suppress(OSError), path.open("ab") as log:  # a full disk must not stop the server
            log.write(chunk)
        written += len(chunk)
        if written > _LOG_BYTES:
            written = 0
            with suppress(OSError):
                path.replace(path.with_name(f"{path.name}.1"))
    output.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a server and its workers: those of nginx outlive a master that was killed, and hold its port."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        until = time.monotonic() + _ENDS_S
        while time.monotonic() < until:
            process.poll()
            os.killpg(process.pid, 0)  # raises an error when all of them have ended
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _check(programs: Mapping[str, Program], place: Path, own: Callable[[], bool]) -> None:
    for name, program in programs.items():
        if program.process.poll() is not None:
            program.log.join(1.0)  # surviving workers keep its log open
            log = place / f"{name}.log"
            last_lines = log.read_text("utf-8", "replace").strip().splitlines()[-3:] if log.exists() else []
            raise NetbootError(
                f"{name} has ended: {' | '.join(last_lines)}",
                f"{place}/{name}.log has more; another server may have its port",
            )
    if not own():
        raise NetbootError(
            f"requests to {place}/socket do not reach the server that was started there",
            "another process removed or replaced it: end that, then serve again",
        )


def started(check: Callable[[], None], seconds: float = 1.0) -> None:
    """Raise `NetbootError` if a server ends within its first moments, as where its port is taken."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        check()
        time.sleep(0.1)
