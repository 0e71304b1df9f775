"""A server of files over TLS on this machine's loopback, for tests, with a certificate that nobody else signed."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_PORTS = range(21400, 21500)  # apt-cacher-ng 3.7 connects to none above 32767


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate of `localhost` that signs itself, and its key: their files."""
    made = folder / "localhost.pem", folder / "localhost.key"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    argv += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-out", str(made[0])]
    subprocess.run([*argv, "-keyout", str(made[1])], check=True, capture_output=True, timeout=60)
    return made


def _server(handler: partial[_Quiet]) -> ThreadingHTTPServer:
    for port in _PORTS:
        with suppress(OSError):
            return ThreadingHTTPServer(("127.0.0.1", port), handler)
    raise AssertionError("no port is free")


@contextmanager
def serving(folder: Path, files: tuple[Path, Path]) -> Iterator[int]:
    """Serve the files of a folder while it is entered, with this certificate and key; the port."""
    server = _server(partial(_Quiet, directory=str(folder)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
