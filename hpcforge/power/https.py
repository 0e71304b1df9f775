"""JSON over HTTPS with one machine that may lie, hang, or be another one.

The certificate is compared before anything is sent, so that a password goes to the controller that is meant and to no
other. A `Login` without a password sends none, which is enough for the service root. Sizes and times are bounded: a
whole exchange ends within `EXCHANGE_S`. Redirects are not followed.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass

from hpcforge.power import BmcError, JsonObject, Login

EXCHANGE_S = 30.0  # controllers are slow: some take 10 s for a list of systems
_CONNECT_S = 10.0
LARGEST = 1024 * 1024  # bytes of an answer


@dataclass(frozen=True)
class HttpAnswer:
    """Status, the JSON object in the body ({} without one), and the ETag."""

    status: int
    data: JsonObject
    etag: str | None


def exchange(
    access: Login, method: str, path: str, body: JsonObject | None = None, etag: str | None = None
) -> HttpAnswer:
    """Send one request and return the answer, of whatever status. Raises `BmcError`."""
    headers = {"Accept": "application/json", "OData-Version": "4.0"}
    if access.password:
        login = base64.b64encode(f"{access.user}:{access.password}".encode()).decode()
        headers["Authorization"] = f"Basic {login}"
    if etag is not None:
        headers["If-Match"] = etag
    sent = None if body is None else json.dumps(body).encode()
    if sent is not None:
        headers["Content-Type"] = "application/json"
    connection = _connect(access)
    over = threading.Event()
    late = threading.Timer(EXCHANGE_S, _cut_off, (connection.sock, over))
    late.daemon = True
    late.start()
    try:
        connection.request(method, path, sent, headers)
        response = connection.getresponse()
        raw = response.read(LARGEST + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = f"no whole answer within {EXCHANGE_S:g} s" if over.is_set() else f"not an HTTP answer: {_words(error)}"
        raise BmcError(f"{access.address}: {why}", "unreachable") from None
    finally:
        late.cancel()
        connection.close()
    return HttpAnswer(response.status, _object(access, raw, response.status), response.getheader("ETag"))


def certificate(access: Login) -> str:
    """Return the SHA-256 of the certificate that the machine shows now; nothing is sent. Raises `BmcError`."""
    connection = _open(access)
    try:
        return _shown(connection)
    finally:
        connection.close()


def _connect(access: Login) -> http.client.HTTPSConnection:
    connection = _open(access)
    if access.verified and (shown := _shown(connection)) != access.certificate:
        connection.close()
        if access.certificate is None:
            raise BmcError(f"{access.address}: its certificate is not recorded; it shows {shown}", "certificate")
        raise BmcError(
            f"{access.address}: shows another certificate ({shown}) than the inventory has; no password was sent",
            "certificate",
        )
    return connection


def _open(access: Login) -> http.client.HTTPSConnection:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it is compared as a whole, in `_connect`
    connection = http.client.HTTPSConnection(access.address, access.port, timeout=_CONNECT_S, context=context)
    try:
        connection.connect()
    except (OSError, ValueError) as error:
        raise BmcError(
            f"{access.address}: no connection to port {access.port}: {_words(error)}", "unreachable"
        ) from None
    connection.sock.settimeout(EXCHANGE_S)
    return connection


def _shown(connection: http.client.HTTPSConnection) -> str:
    return hashlib.sha256(connection.sock.getpeercert(binary_form=True) or b"").hexdigest()


def _cut_off(sock: socket.socket, over: threading.Event) -> None:
    over.set()
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _words(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (text or type(error).__name__)[:200]


def _object(access: Login, raw: bytes, status: int) -> JsonObject:
    if len(raw) > LARGEST:
        raise BmcError(f"{access.address}: an answer of more than {LARGEST} bytes", "answer")
    if not raw.strip():
        return {}
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        if status >= 400:
            return {}
        raise BmcError(f"{access.address}: the answer is not JSON", "answer") from None
    return data if isinstance(data, dict) else {}
