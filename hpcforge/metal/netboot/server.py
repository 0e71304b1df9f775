"""The small server that decides for each machine: its boot script, its disk, and the host keys it hands back.

It listens on a Unix socket behind nginx, which says from which address a request came. A machine's boot script goes to
its own address alone; all else needs the token that was in the script.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shlex
import socket as sockets
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from pydantic import TypeAdapter, ValidationError

from hpcforge.errors import ExpectedError
from hpcforge.metal.netboot import Records, configurations, decide
from hpcforge.metal.netboot.configurations import BootHost
from hpcforge.metal.netboot.decide import Need, Record, TargetDisk

_LARGEST = 64 * 1024  # bytes of a request's body; nginx has the same limit
_WAIT_S = 30.0
_ANSWERS_S = 10.0  # limit for an answer to this process, even while many machines ask
_DISKS: TypeAdapter[list[TargetDisk]] = TypeAdapter(list[TargetDisk])
_HOST_KEY = re.compile(r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) [A-Za-z0-9+/]{40,1000}={0,2}")
_OWN_PATH = "/own"  # nginx only forwards /machine/
_MOST_DISKS, _MOST_KEYS = 256, 8
_MOST_REFUSALS = 20  # printed refusals in a minute
_MOST_LINES, _LONGEST_LINE = 25, 200  # kept lines of a console, and letters of each


class ServerError(ExpectedError):
    """The socket belongs to another server."""

    kind = "busy"


@dataclass
class Refusals:
    """Refused requests of the current minute: strangers may send any number, and each is a line for the operator."""

    minute: int = 0
    number: int = 0


@dataclass(frozen=True)
class Boots:
    """The data for all answers."""

    records: Records
    hosts: Mapping[str, BootHost]  # by MAC address
    identities: Mapping[str, str]  # by node: shell assignments for the installer
    url: str
    image: str
    image_bytes: int  # size of its file system, a multiple of 1 MiB
    files: Mapping[str, str]  # SHA-256 by file name
    needs: Mapping[str, Need] = field(default_factory=dict)  # by node, if not the default
    console: str = "ttyS0,115200"
    say: Callable[[str], None] = lambda _text: None
    now_s: Callable[[], float] = time.time
    refusals: Refusals = field(default_factory=Refusals)


@dataclass(frozen=True)
class Reply:
    """Status and text of an answer."""

    status: int
    text: str = ""


_REFUSED = Reply(403, "refused\n")


def boot_script(boots: Boots, mac: str, platform: str, source: str) -> Reply:
    """Return the script of the machine with this MAC address, if the request comes from its own address."""
    host = boots.hosts.get(mac.lower())
    if host is None or host.address != source:
        _say_refused(boots, f"{source} asked for the boot script of {mac[:17]!r}: refused")
        return _REFUSED
    record = boots.records.read().get(host.name)
    if record is not None and record.mac != host.mac:
        boots.say(f"{host.name}: its record is of another machine ({record.mac}): ignored")
        record = None
    if record is not None and record.state == "begun":
        cut_off = boots.records.change(host.name, lambda current: decide.restarted(current) if current else None)
        boots.say(f"{host.name}: {f'failed: {cut_off.why}' if cut_off else 'has ended meanwhile'}")
    if record is None or decide.boots(record, boots.now_s()) == "disk" or record.image != boots.image:
        suffix = (
            f", since image {boots.image} is served and not {record.image}"
            if record and record.image != boots.image
            else ""
        )
        boots.say(f"{host.name}: boots its own disk{suffix}")
        return Reply(200, configurations.local_script(platform))
    token = secrets.token_urlsafe(32)

    def offer(current: Record | None) -> Record | None:
        return (
            decide.offered(current, _sha256(token))
            if current and decide.boots(current, boots.now_s()) == "install"
            else None
        )

    if boots.records.change(host.name, offer) is None:
        return Reply(200, configurations.local_script(platform))
    boots.say(f"{host.name}: boots the installer")
    return Reply(200, configurations.install_script(boots.url, token, host.mac, boots.files, boots.console))


def begin(boots: Boots, token: str, source: str, body: bytes) -> Reply:
    """Return what the machine with this token writes, its disks and its identity, or why it writes nothing."""
    own = _find_record(boots, token, source)
    if own is None:
        return _REFUSED
    digest = _sha256(token)
    claimed = boots.records.change(own.node, lambda record: decide.claimed(record, digest, boots.now_s(), boots.image))
    if claimed is None or claimed.state != "begun":
        boots.say(f"{own.node}: {claimed.why if claimed else 'its token is not valid now'}")
        return _REFUSED
    try:
        disks = _DISKS.validate_json(body)[:_MOST_DISKS]
    except ValidationError:
        return _fail(boots, claimed.node, "the installer sent an invalid list of disks")
    choice = decide.choose(claimed, disks, boots.needs.get(claimed.node, Need()))
    if not choice.disks:
        return _fail(boots, claimed.node, choice.why)
    if not all(re.fullmatch(r"[a-z0-9]{1,32}", disk.name) for disk in choice.disks):
        return _fail(boots, claimed.node, "the name of its disk is invalid")
    labels = tuple(disk.label for disk in choice.disks)
    boots.records.change(claimed.node, lambda record: replace(record, disks=labels) if record else None)
    boots.say(f"{claimed.node}: writes {decide.listed(choice.disks)}")
    image, names = boots.files["root.ext4"], " ".join(disk.name for disk in choice.disks)
    answer = f"disks='{names}'\nimage_sha256={image}\nimage_bytes={boots.image_bytes}\nmarker={digest}\n"
    answer += boots.identities[claimed.node]
    return Reply(200, answer)


def end(boots: Boots, token: str, source: str, body: bytes) -> Reply:
    """Take the host keys of a machine that is installed."""
    record = _find_record(boots, token, source)
    if record is None or record.state != "begun":
        return _REFUSED
    keys = tuple(" ".join(line.split()[:2]) for line in body.decode("ascii", "replace").splitlines() if line.strip())
    if not keys or len(keys) > _MOST_KEYS or not all(_HOST_KEY.fullmatch(key) for key in keys):
        return _fail(boots, record.node, "it sent invalid host keys")
    boots.records.change(
        record.node, lambda current: replace(current, state="installed", host_keys=keys) if current else None
    )
    boots.say(f"{record.node}: installed")
    return Reply(200, "installed\n")


def broken(boots: Boots, token: str, source: str, body: bytes) -> Reply:
    """Take why an installation ended badly."""
    record = _find_record(boots, token, source)
    if record is None or record.state != "begun":
        return _REFUSED
    first, *lines = [
        "".join(letter for letter in line[:_LONGEST_LINE] if letter.isprintable())
        for line in body.decode("utf-8", "replace").split("\n", 200)
    ]
    _fail(boots, record.node, f"the installer says: {first}", list(filter(None, lines))[-_MOST_LINES:])
    return Reply(200, "noted\n")


def _find_record(boots: Boots, token: str, source: str) -> Record | None:
    """Return the record with this token, if the request comes from its node's address."""
    digest = _sha256(token)
    address = {host.name: host.address for host in boots.hosts.values()}
    for record in boots.records.read().values():
        if record.token_sha256 == digest and address.get(record.node) == source:
            return record
    _say_refused(boots, f"{source} showed a token that is not its own: refused")
    return None


def _say_refused(boots: Boots, text: str) -> None:
    refusals, minute = boots.refusals, int(boots.now_s() // 60)
    if refusals.minute != minute:
        if refusals.number > _MOST_REFUSALS:
            boots.say(f"{refusals.number - _MOST_REFUSALS} more requests were refused in that minute")
        refusals.minute, refusals.number = minute, 0
    refusals.number += 1
    if refusals.number <= _MOST_REFUSALS:
        boots.say(text)


def _fail(boots: Boots, node: str, reason: str, console: Sequence[str] = ()) -> Reply:
    boots.records.change(node, lambda record: decide.failed(record, reason, console) if record else None)
    boots.say(f"{node}: failed: {reason}")
    return Reply(409, f"{reason}\n")


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


_POSTS: Mapping[str, Callable[[Boots, str, str, bytes], Reply]] = {
    "/machine/begin": begin,
    "/machine/end": end,
    "/machine/broken": broken,
}


class _Handler(BaseHTTPRequestHandler):
    timeout = _WAIT_S
    server: _Server

    def do_GET(self) -> None:
        """Send a boot script."""
        parts = urlsplit(self.path)
        query = parse_qs(parts.query, max_num_fields=8)
        if parts.path == _OWN_PATH:
            return self._send(Reply(200, self.server.id))
        if parts.path != "/machine/boot.ipxe":
            return self._send(Reply(404))
        mac, platform = (query.get(key, [""])[0] for key in ("mac", "platform"))
        return self._send(boot_script(self.server.boots, mac, platform, self._source))

    def do_POST(self) -> None:
        """Something that needs a token."""
        size = self.headers.get("Content-Length", "")
        respond = _POSTS.get(self.path)
        if respond is None or not size.isdecimal() or int(size) > _LARGEST:
            return self._send(Reply(404))
        body = self.rfile.read(int(size))
        return self._send(respond(self.server.boots, self.headers.get("X-Token", "")[:200], self._source, body))

    @property
    def _source(self) -> str:
        return self.headers.get("X-Real-IP", "")

    def _send(self, reply: Reply) -> None:
        body = reply.text.encode()
        self.send_response(reply.status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: the important lines are printed above."""

    def address_string(self) -> str:
        """Return a fixed name: a Unix socket has no address."""
        return ""


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 1024  # for a whole cluster that starts at once; nginx would answer 502 to the rest

    def __init__(self, socket: Path, boots: Boots) -> None:
        self.boots, self.id = boots, secrets.token_hex(16)
        super().__init__(str(socket), _Handler)

    def handle_error(self, *_: object) -> None:
        """Print a line where a traceback would be; nothing of a machine that did not wait for its answer."""
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            _say_refused(self.boots, f"a request failed: {type(error).__name__}: {error}")


@contextmanager
def serving(socket: Path, boots: Boots) -> Iterator[Callable[[], bool]]:
    """Serve on a Unix socket while entered; yield whether requests there reach this server.

    Raises `ServerError` where another server answers on that socket.
    """
    if _answer(socket) is not None:
        raise ServerError(f"another server answers on {socket}", f"end it first: `fuser {socket}` prints its process")
    socket.unlink(missing_ok=True)  # left by a killed server
    server = _Server(socket, boots)
    made = socket.stat().st_ino
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield lambda: _answer(socket) == server.id
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        with suppress(FileNotFoundError):
            if socket.stat().st_ino == made:
                socket.unlink()


def _answer(socket: Path) -> str | None:
    """Return the identity of the server on a socket; "" of one that gives none, None where no server is."""
    until = time.monotonic() + _ANSWERS_S
    while (left_s := until - time.monotonic()) > 0:
        with sockets.socket(sockets.AF_UNIX) as asking:
            asking.settimeout(left_s)
            try:
                asking.connect(str(socket))
                asking.sendall(f"GET {_OWN_PATH} HTTP/1.0\r\n\r\n".encode())
                with asking.makefile("rb") as answer:
                    return answer.read(4096).decode("ascii", "replace").rpartition("\r\n\r\n")[2]
            except BlockingIOError:  # the queue is full
                time.sleep(0.1)
            except (FileNotFoundError, ConnectionError):
                return None
            except OSError:
                return ""
    return ""


def identity(name: str, values: Mapping[str, str]) -> str:
    """Shell assignments of a node's identity, which the installer reads."""
    return "".join(f"{key}={shlex.quote(value)}\n" for key, value in {"hostname": name, **values}.items())
