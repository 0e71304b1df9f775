"""A server of files over TLS on this machine's loopback, for tests, with a certificate that nobody else signed."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_PORTS = range(21400, 21500)  # apt-cacher-ng 3.7 connects to none above 32767


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def certificate(folder: Path, ends: timedelta = timedelta(days=2)) -> tuple[Path, Path]:
    """Make a certificate of `localhost` that signs itself, and its key: their files. It ends so long after now."""
    made = folder / "localhost.pem", folder / "localhost.key"
    key, begin = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(begin - timedelta(days=9)).not_valid_after(begin + ends)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    made[0].write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    made[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
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
