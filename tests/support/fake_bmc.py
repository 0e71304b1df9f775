"""Management controllers that talk Redfish over TLS on this machine's loopback, and do what real ones do wrong."""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.tls_server import certificate

ROOT = "/redfish/v1"
_PORTS = range(21500, 21600)
USER, PASSWORD = "admin", "not-the-factory-one"


@dataclass
class FakeBmc:
    """One machine. `does` names what its controller does wrong: those of quirks.yaml, and what only liars do."""

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
    asked: list[str] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)  # of all requests that had one
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
        self.changed(self)
        if self.on and self.enabled == "Once":
            self.enabled, self.target = "Disabled", "None"

    def patch(self, boot: dict[str, str]) -> None:
        """Take a boot override."""
        self.target = boot["BootSourceOverrideTarget"]
        self.enabled = boot["BootSourceOverrideEnabled"]
        if self.enabled == "Once" and "once-becomes-continuous" in self.does:
            self.enabled = "Continuous"
        if "forgets-the-override" in self.does:
            self.enabled, self.target = "Disabled", "None"

    def busy(self) -> bool:
        """Whether its controller is not ready."""
        if self.busy_until_s is None:
            self.busy_until_s = time.monotonic() + self.busy_s
        return time.monotonic() < self.busy_until_s

    def system(self) -> dict[str, Any]:
        """The resource."""
        action: dict[str, Any] = {"target": f"{ROOT}/Systems/1/Actions/ComputerSystem.Reset"}
        if "no-allowable-values" not in self.does:
            action["ResetType@Redfish.AllowableValues"] = ["On", "ForceOff", "GracefulShutdown", "ForceRestart"]
        if "sends-elsewhere" in self.does:
            action["target"] = "https://192.0.2.1/redfish/v1/steal"
        boot = {"BootSourceOverrideEnabled": self.enabled, "BootSourceOverrideTarget": self.target}
        if "no-override-mode" not in self.does:
            boot["BootSourceOverrideMode"] = "UEFI"
        return {
            "PowerState": "On" if self.on else "Off",
            "SerialNumber": self.serial,
            "Model": self.model,
            "Manufacturer": "hpcforge tests",
            "MemorySummary": {"TotalSystemMemoryGiB": self.memory_gib},
            "ProcessorSummary": {"Count": 2, "CoreCount": 64},
            "EthernetInterfaces": {"@odata.id": f"{ROOT}/Systems/1/EthernetInterfaces"},
            "Processors": {"@odata.id": f"{ROOT}/Systems/1/Processors"},
            "Boot": boot,
            "Actions": {"#ComputerSystem.Reset": action},
        }

    def get(self, path: str) -> Any:
        """What a GET returns; None: there is no such resource."""
        if path == f"{ROOT}/" and "no-service-root" not in self.does:
            links = {"Systems": {"@odata.id": f"{ROOT}/Systems"}}
            return {"@odata.type": "#ServiceRoot.v1_15_0.ServiceRoot", "Vendor": "hpcforge tests", **links}
        if path == f"{ROOT}/Systems":
            several = "several-systems" in self.does
            paths = [f"{ROOT}/Systems/HGX_0", f"{ROOT}/Systems/1"] if several else [f"{ROOT}/Systems/1"]
            return {"Members": [{"@odata.id": one} for one in paths]}
        if path == f"{ROOT}/Systems/HGX_0":
            return {"Name": "GPU baseboard", "PowerState": "On"}
        if path == f"{ROOT}/Systems/1":
            return self.system()
        if path == f"{ROOT}/Systems/1/EthernetInterfaces":
            return {"Members": [{"@odata.id": f"{path}/{number}"} for number in range(len(self.macs))]}
        if path.startswith(f"{ROOT}/Systems/1/EthernetInterfaces/"):
            return {"MACAddress": self.macs[int(path.rpartition("/")[2])].upper()}
        if path == f"{ROOT}/Systems/1/Processors":
            return {"Members": [{"@odata.id": f"{path}/{number}"} for number in range(2 + self.gpus)]}
        if path.startswith(f"{ROOT}/Systems/1/Processors/"):
            gpu = int(path.rpartition("/")[2]) >= 2
            return {"ProcessorType": "GPU" if gpu else "CPU", "Model": "NVIDIA H100" if gpu else "CPU"}
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, bmc: FakeBmc, *rest: Any) -> None:
        self.bmc = bmc
        super().__init__(*rest)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _send(self, status: int, data: Any = None, raw: bytes | None = None) -> None:
        body = raw if raw is not None else b"" if data is None else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("ETag", '"7"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _turned_away(self) -> bool:
        """Answer a request that gets no further."""
        bmc, does = self.bmc, self.bmc.does
        bmc.asked.append(f"{self.command} {self.path}")
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        given = self.headers["Authorization"]
        bmc.logins += [given] if given else []
        if self.path != f"{ROOT}/" and ("refused-login" in does or given != f"Basic {login}"):
            self._send(401, {"error": {"message": "who \x1b[2J are you?"}})
        elif bmc.busy():
            self._send(503)
        elif "answers-too-much" in does:
            self._send(200, raw=b" " * (2 * 1024 * 1024))
        elif "answers-nonsense" in does:
            self._send(200, raw=b"<html>")
        elif "answers-too-deep" in does:
            self._send(200, raw=b"[" * 500_000)
        elif "breaks-off" in does:
            self.close_connection = True
        elif "trickles" in does:
            with suppress(OSError):
                for _ in range(600):
                    self.wfile.write(b"H")
                    time.sleep(0.1)
        else:
            return False
        return True

    def do_GET(self) -> None:
        if not self._turned_away():
            found = self.bmc.get(self.path)
            self._send(404 if found is None else 200, found)

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._turned_away():
            return
        if "etag-required" in self.bmc.does and self.headers["If-Match"] != '"7"':
            self._send(428)
        elif "no-override-mode" in self.bmc.does and "BootSourceOverrideMode" in body["Boot"]:
            self._send(400, {"error": {"message": "unknown property"}})
        else:
            self.bmc.patch(body["Boot"])
            self._send(204)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._turned_away():
            self.bmc.reset(body["ResetType"])
            self._send(204)


@dataclass(frozen=True)
class Serving:
    """Where they are."""

    addresses: tuple[str, ...]
    port: int
    certificate: str


@contextmanager
def serving(folder: Path, bmcs: Sequence[FakeBmc], net: str = "127.77.0") -> Iterator[Serving]:
    """Serve these controllers, each at an address of its own of the loopback, on one port, with one certificate."""
    files = certificate(folder)
    pinned = hashlib.sha256(ssl.PEM_cert_to_DER_cert(files[0].read_text())).hexdigest()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    addresses = tuple(f"{net}.{number}" for number in range(1, len(bmcs) + 1))
    servers, port = _servers(addresses, bmcs)
    threads = []
    for server in servers:
        server.daemon_threads = True
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
