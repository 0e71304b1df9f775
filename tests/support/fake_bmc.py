"""Management controllers that talk Redfish over TLS on this machine's loopback, and do what real ones do wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.tls_server import certificate

ROOT = "/redfish/v1"
SYSTEM = f"{ROOT}/Systems/1"
_PORTS = range(21500, 21600)
USER, PASSWORD = "admin", "not-the-factory-one"


@dataclass(frozen=True)
class Reply:
    """What a path answers in place of its resource."""

    status: int = 200  # 0: the connection is closed without an answer
    raw: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None  # of the header; -2: the header is left out; -1: and the body does not end


@dataclass
class FakeBmc:
    """One machine. `does` names what its controller does wrong: those of quirks.yaml, and what only liars do.

    `resources` stand beside its own or replace them, None removes; `replies` answer in their place.
    """

    serial: str = "SN0001"
    macs: tuple[str, ...] = ("02:00:00:00:00:01",)
    memory_gib: float = 64
    gpus: int = 0
    model: str = "Test 1U"
    does: tuple[str, ...] = ()
    on: bool = False
    enabled: str = "Disabled"
    target: str = "None"
    shuts_down: bool = True  # its operating system listens to the power button
    changed: Callable[[FakeBmc], None] = lambda _bmc: None  # after each change of power
    resets: list[str] = field(default_factory=list)
    types: tuple[str, ...] = ("On", "ForceOff", "GracefulShutdown", "ForceRestart")  # of resets that it lists
    late: list[tuple[str, str]] = field(default_factory=list)  # overrides that reads do not show, one for each read
    patches: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)  # of all requests that had one
    resources: dict[str, Any] = field(default_factory=dict)
    replies: dict[str, Reply] = field(default_factory=dict)
    refusal: Any = None  # what a refused change answers
    talk: Callable[[socket.socket], None] | None = None  # without TLS and HTTP, what it does with a connection
    release: threading.Event = field(default_factory=threading.Event)  # ends what `holds` and `trickles` do
    clears: set[str] = field(default_factory=set)  # paths of replies that are given once
    busy_s: float = 0.0  # from the first request on
    busy_until_s: float | None = None
    tries: int = 0

    def reset(self, kind: str) -> None:
        """Take a request for another power state."""
        self.resets.append(kind)
        self.tries += 1
        if "no-effect" in self.does and self.tries % 2:
            return
        if "never-any-effect" in self.does or (kind == "GracefulShutdown" and not self.shuts_down):
            return
        self.on = kind in ("On", "ForceOn", "ForceRestart")
        if not self.on and "forgets-when-off" in self.does:
            self.enabled, self.target = "Disabled", "None"
        self.changed(self)
        if self.on and self.enabled == "Once":
            self.enabled, self.target = "Disabled", "None"

    def patch(self, path: str, body: dict[str, Any]) -> int:
        """Take a boot override; return the status."""
        boot = body["Boot"]
        if "late-override" in self.does:
            self.late = [(self.enabled, self.target)] * 2
        self.patches.append((path, body))
        if "etag-required" in self.does and body.pop("If-Match") != '"7"':
            return 428
        if "no-override-mode" in self.does and "BootSourceOverrideMode" in boot:
            return 400
        if "settings-resource" in self.does:
            if path == SYSTEM:
                return 204  # and nothing changes, as on a DGX H100
            if body.get("@Redfish.SettingsApplyTime", {}).get("ApplyTime") != "OnReset":
                return 400
        self.target = boot["BootSourceOverrideTarget"]
        self.enabled = boot["BootSourceOverrideEnabled"]
        if self.enabled == "Once" and "once-becomes-continuous" in self.does:
            self.enabled = "Continuous"
        if "forgets-the-override" in self.does:
            self.enabled, self.target = "Disabled", "None"
        return 204

    def busy(self) -> bool:
        """Whether its controller is not ready."""
        if self.busy_until_s is None:
            self.busy_until_s = time.monotonic() + self.busy_s
        return time.monotonic() < self.busy_until_s

    def boot(self) -> dict[str, str]:
        """The override of the next boot."""
        enabled, target = self.late.pop() if self.late else (self.enabled, self.target)
        boot = {"BootSourceOverrideEnabled": enabled, "BootSourceOverrideTarget": target}
        if "no-override-mode" not in self.does:
            boot["BootSourceOverrideMode"] = "UEFI"
        return boot

    def system(self) -> dict[str, Any]:
        """The resource."""
        action: dict[str, Any] = {"target": f"{SYSTEM}/Actions/ComputerSystem.Reset"}
        if "settings-resource" in self.does:
            action["@Redfish.ActionInfo"] = f"{SYSTEM}/ResetActionInfo"
        elif "no-allowable-values" not in self.does:
            action["ResetType@Redfish.AllowableValues"] = list(self.types)
        if "sends-elsewhere" in self.does:
            action["target"] = "https://192.0.2.1/redfish/v1/steal"
        settings = {"SettingsObject": {"@odata.id": f"{SYSTEM}/Settings"}, "SupportedApplyTimes": ["OnReset"]}
        pending, decimal = ("settings-resource" in self.does), ("decimal-memory" in self.does)
        return {
            "PowerState": "On" if self.on else "Off",
            "SerialNumber": self.serial,
            "Model": self.model,
            "Manufacturer": "hpcforge tests",
            "MemorySummary": {"TotalSystemMemoryGiB": self.memory_gib * (1e9 / 2**30 if decimal else 1)},
            "Memory": {"@odata.id": f"{SYSTEM}/Memory"},
            "ProcessorSummary": {"Count": 2 + ("processors-with-gpus" in self.does) * self.gpus, "CoreCount": 64},
            "EthernetInterfaces": {"@odata.id": f"{SYSTEM}/EthernetInterfaces"},
            "Processors": {"@odata.id": f"{SYSTEM}/Processors"},
            "Boot": {**self.boot(), **({"BootSourceOverrideEnabled": "Disabled"} if pending else {})},
            "Actions": {"#ComputerSystem.Reset": action},
            **({"@Redfish.Settings": settings} if pending else {}),
        }

    def get(self, path: str) -> Any:
        """What a GET returns; None: there is no such resource."""
        if path in self.resources:
            return self.resources[path]
        if path == ROOT and "no-service-root" not in self.does:
            links = {"Systems": {"@odata.id": f"{ROOT}/Systems"}}
            return {"@odata.type": "#ServiceRoot.v1_15_0.ServiceRoot", "Vendor": "hpcforge tests", **links}
        if path == f"{ROOT}/Systems":
            several = "several-systems" in self.does
            return collection(*([f"{ROOT}/Systems/HGX_0"] if several else []), SYSTEM)
        if path == f"{ROOT}/Systems/HGX_0":
            return {"Name": "GPU baseboard", "PowerState": "On"}
        if path == SYSTEM:
            return self.system()
        if path == f"{SYSTEM}/Settings" and "settings-resource" in self.does:
            return {"Boot": self.boot()}
        if path == f"{SYSTEM}/ResetActionInfo" and "no-allowable-values" not in self.does:
            return {"Parameters": [{"Name": "ResetType", "AllowableValues": ["On", "ForceOff", "GracefulShutdown"]}]}
        if path == f"{SYSTEM}/EthernetInterfaces":
            return collection(*(f"{path}/{number}" for number in range(len(self.macs))))
        if path.startswith(f"{SYSTEM}/EthernetInterfaces/"):
            return {"MACAddress": self.macs[int(path.rpartition("/")[2])].upper()}
        if path == f"{SYSTEM}/Memory":
            return collection(*(f"{path}/{number}" for number in range(4)))
        if path.startswith(f"{SYSTEM}/Memory/"):
            return {"CapacityMiB": self.memory_gib * 1024 / 4, "MemoryDeviceType": "DDR5"}
        if path == f"{SYSTEM}/Processors":
            return collection(*(f"{path}/{number}" for number in range(2 + self.gpus)))
        if path.startswith(f"{SYSTEM}/Processors/"):
            gpu = int(path.rpartition("/")[2]) >= 2
            return {"ProcessorType": "GPU" if gpu else "CPU", "Model": "NVIDIA H100" if gpu else "CPU"}
        return None


def collection(*paths: str) -> dict[str, Any]:
    """Links to the members of a collection."""
    return {"Members": [{"@odata.id": path} for path in paths]}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, bmc: FakeBmc, *rest: Any) -> None:
        self.bmc = bmc
        super().__init__(*rest)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def handle(self) -> None:
        if self.bmc.talk is None:
            super().handle()
        else:
            self.bmc.talk(self.connection)

    def _send(self, status: int, data: Any = None) -> None:
        self._reply(Reply(status, b"" if data is None else json.dumps(data).encode()))

    def _reply(self, reply: Reply) -> None:
        if not reply.status:
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in {"ETag": '"7"', **reply.headers}.items():
            self.send_header(name, value)
        if reply.length is None or reply.length >= 0:
            self.send_header("Content-Length", str(len(reply.raw) if reply.length is None else reply.length))
        self.end_headers()
        self.close_connection = reply.length is not None
        with suppress(OSError):
            self.wfile.write(reply.raw)
            while reply.length == -1 and reply.raw:
                self.wfile.write(reply.raw)

    def _turned_away(self) -> bool:
        """Answer a request that gets no further."""
        bmc, does = self.bmc, self.bmc.does
        bmc.asked.append(f"{self.command} {self.path}")
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        authorization = self.headers["Authorization"]
        bmc.logins += [authorization] if authorization else []
        path = self.path.rstrip("/")
        if path != ROOT and ("refused-login" in does or authorization != f"Basic {login}"):
            self._send(401, {"error": {"message": "who \x1b[2J are you?"}})
        elif bmc.busy():
            self._send(503)
        elif path in bmc.replies:
            reply = bmc.replies.pop(path) if path in bmc.clears else bmc.replies[path]
            self._reply(reply)
        elif "redirects" in does and not self.path.endswith("/"):
            self._reply(Reply(301, headers={"Location": f"{self.path}/"}))
        elif "answers-too-much" in does:
            self._reply(Reply(raw=b" " * (2 * 1024 * 1024)))
        elif "answers-nonsense" in does:
            self._reply(Reply(raw=b"no JSON"))
        elif "answers-too-deep" in does:
            self._reply(Reply(raw=b"[" * 500_000))
        elif "breaks-off" in does:
            self.close_connection = True
        elif "holds" in does:
            bmc.release.wait(60)
            self.close_connection = True
        elif "trickles" in does:
            self.close_connection = True
            with suppress(OSError):
                for _ in range(600):
                    self.wfile.write(b"H")
                    if bmc.release.wait(0.1):
                        break
        else:
            return False
        return True

    def do_GET(self) -> None:
        if not self._turned_away():
            data = self.bmc.get(self.path.rstrip("/"))
            self._send(404 if data is None else 200, data)

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._turned_away():
            status = self.bmc.patch(self.path.rstrip("/"), {**body, "If-Match": self.headers["If-Match"]})
            self._changed(status, self.bmc.refusal if status >= 400 else None)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._turned_away():
            self.bmc.reset(body["ResetType"])
            self._changed(204)

    def _changed(self, status: int, data: Any = None) -> None:
        """Answer a change, if it does so at all."""
        lost: Mapping[str, Reply] = {
            "cuts-off-changes": Reply(200, b'{"a', length=20),
            "answers-changes-with-html": Reply(200, b"<html>done</html>"),
            "answers-changes-with-504": Reply(504),
        }
        kind = next((name for name in self.bmc.does if name in lost), None)
        if "closes-after-changes" in self.bmc.does:
            self.close_connection = True
        elif kind:
            self._reply(lost[kind])
        else:
            self._send(status, data)


@dataclass(frozen=True)
class Serving:
    """Where they are."""

    addresses: tuple[str, ...]
    port: int
    certificate: str


@contextmanager
def serving(folder: Path, bmcs: Sequence[FakeBmc], net: str = "127.77.0") -> Iterator[Serving]:
    """Serve these controllers, each at an address of its own of the loopback, on one port, with one certificate."""
    files = certificate(folder, timedelta(days=-1 if any("expired-certificate" in bmc.does for bmc in bmcs) else 2))
    pinned = hashlib.sha256(ssl.PEM_cert_to_DER_cert(files[0].read_text())).hexdigest()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    addresses = tuple(f"{net}.{number}" for number in range(1, len(bmcs) + 1))
    servers, port = _servers(addresses, bmcs)
    threads = []
    for server, bmc in zip(servers, bmcs, strict=True):
        server.daemon_threads = True
        if bmc.talk is None:
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threads.append(threading.Thread(target=partial(server.serve_forever, 0.05), daemon=True))
        threads[-1].start()
    try:
        yield Serving(addresses, port, pinned)
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients hang up on liars."""


def _servers(addresses: Sequence[str], bmcs: Sequence[FakeBmc]) -> tuple[list[_Server], int]:
    for port in _PORTS:
        servers: list[_Server] = []
        try:
            for address, bmc in zip(addresses, bmcs, strict=True):
                servers.append(_Server((address, port), partial(_Handler, bmc)))
        except OSError:
            for server in servers:
                server.server_close()
            continue
        return servers, port
    raise AssertionError("no port is free")
