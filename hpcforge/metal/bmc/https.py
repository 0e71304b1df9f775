"""JSON over HTTPS with one machine that may lie, hang, or be another one.

The certificate is compared before anything is sent, so that a password goes to the controller that is meant and to no
other. A `Login` without a password sends none, which is enough for the service root. Sizes and times are bounded: a
whole exchange ends within `EXCHANGE_S`. Redirects are not followed here: `hpcforge.metal.bmc.service` decides.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import math
import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509

from hpcforge.metal.bmc import BmcError, JsonObject, Login, LostAnswerError

EXCHANGE_S = 30.0  # controllers are slow: some take 10 s for a list of systems
_CONNECT_S = 10.0
LARGEST = 1024 * 1024  # bytes of an answer
# What OpenSSL calls a server that has no protocol in common with ours, and one that does not speak TLS at all.
_NO_TLS: Mapping[str, str] = {
    **dict.fromkeys(
        ("UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_SSL_VERSION", "VERSION_TOO_LOW"),
        "it has no TLS 1.2 or later, and older ones are not safe: update its firmware",
    ),
    **dict.fromkeys(
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "SSL/TLS_ALERT_HANDSHAKE_FAILURE", "TLSV1_ALERT_INSUFFICIENT_SECURITY"),
        "it has no safe cipher of TLS, as with RSA key exchange alone: update its firmware or its TLS settings",
    ),
    **dict.fromkeys(("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"), "the answer is not TLS"),
}


@dataclass(frozen=True)
class HttpAnswer:
    """Status, the JSON object in the body ({} without one), and headers."""

    status: int
    data: JsonObject
    etag: str | None
    location: str = ""
    retry_after: str = ""
    expired: bool = False  # the certificate


def exchange(
    access: Login,
    method: str,
    path: str,
    body: JsonObject | None = None,
    etag: str | None = None,
    within_s: float = math.inf,
) -> HttpAnswer:
    """Send one request and return the answer, of whatever status. Raises `BmcError`."""
    began_s = time.monotonic()
    sent = None if body is None else json.dumps(body).encode()
    headers = _headers(access, etag, with_body=sent is not None)
    connection = _connect(access, within_s)
    limit_s = max(0.01, min(EXCHANGE_S, within_s - (time.monotonic() - began_s)))
    expired = _expired(connection)
    over = threading.Event()
    late = threading.Timer(limit_s, _cut_off, (connection.sock, over))
    late.daemon = True
    late.start()
    try:
        connection.request(method, path, sent, headers)
        with connection.getresponse() as response:  # it holds the connection, too, until it is closed
            raw = _body(access, response)
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, TimeoutError):  # the socket's own limit, which may be over a moment sooner
            over.set()
        if not over.is_set():
            raise _broken(access, error) from None
    finally:
        late.cancel()
        connection.close()
    if over.is_set():
        raise LostAnswerError(f"{access.address}: no whole answer within {limit_s:.3g} s", "unreachable")
    etag, location, retry_after = (response.getheader(name) for name in ("ETag", "Location", "Retry-After"))
    data = _object(access, raw, response)
    return HttpAnswer(response.status, data, etag, location or "", retry_after or "", expired)


def _headers(access: Login, etag: str | None, *, with_body: bool) -> dict[str, str]:
    headers = {"Accept": "application/json", "OData-Version": "4.0"}
    if access.password:
        login = base64.b64encode(f"{access.user}:{access.password}".encode()).decode()
        headers["Authorization"] = f"Basic {login}"
    if etag is not None:
        headers["If-Match"] = etag
    if with_body:
        headers["Content-Type"] = "application/json"
    return headers


def certificate(access: Login) -> str:
    """Return the SHA-256 of the certificate that the machine shows now; nothing is sent. Raises `BmcError`."""
    connection = _open(access)
    try:
        return _shown(connection)
    finally:
        connection.close()


def _connect(access: Login, within_s: float) -> http.client.HTTPSConnection:
    connection = _open(access, within_s)
    if access.verified and (shown := _shown(connection)) != access.certificate:
        connection.close()
        if access.certificate is None:
            raise BmcError(f"{access.address}: its certificate is not recorded; it shows {shown}", "certificate")
        raise BmcError(
            f"{access.address}: shows another certificate ({shown}) than the inventory has; no password was sent",
            "certificate",
        )
    return connection


def _open(access: Login, within_s: float = math.inf) -> http.client.HTTPSConnection:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it is compared as a whole, in `_connect`
    limit_s = max(0.01, min(_CONNECT_S, within_s))
    connection = http.client.HTTPSConnection(access.address, access.port, timeout=limit_s, context=context)
    try:
        connection.connect()
    except (OSError, ValueError) as error:
        if isinstance(error, ssl.SSLError) and (why := _NO_TLS.get(error.reason or "")):
            raise BmcError(f"{access.address}: port {access.port}: {why}", "service") from None
        raise BmcError(
            f"{access.address}: no connection to port {access.port}: {_words(error)}", "unreachable"
        ) from None
    connection.sock.settimeout(EXCHANGE_S)
    return connection


def _expired(connection: http.client.HTTPSConnection) -> bool:
    """Whether the certificate's time is over: it is compared as a whole, so that this alone refuses nothing."""
    try:
        shown = x509.load_der_x509_certificate(connection.sock.getpeercert(binary_form=True) or b"")
        return shown.not_valid_after_utc < datetime.now(UTC)
    except ValueError:  # one that no library reads has no time either
        return False


def _shown(connection: http.client.HTTPSConnection) -> str:
    return hashlib.sha256(connection.sock.getpeercert(binary_form=True) or b"").hexdigest()


def _cut_off(sock: socket.socket, over: threading.Event) -> None:
    over.set()
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _words(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    # OpenSSL's errors have the place in the program: `[SSL: X] words (_ssl.c:989)`, `_ssl.c:989: words`.
    text = re.sub(r"\[\w+: \w+\] |_ssl\.c:\d+: | ?\(_ssl\.c:\d+\)", "", text)
    return (text or type(error).__name__)[:200]


def _body(access: Login, response: http.client.HTTPResponse) -> bytes:
    """Read it, if it is not too large. Raises `BmcError`."""
    if (response.length or 0) > LARGEST:
        why = f"an answer of {response.length} bytes: more than {LARGEST} bytes are not read"
        raise LostAnswerError(f"{access.address}: {why}", "answer")
    raw = response.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise LostAnswerError(f"{access.address}: an answer without an end: more than {LARGEST} bytes", "answer")
    if response.getheader("Content-Encoding", "").strip().lower() not in ("gzip", "x-gzip"):
        return raw
    try:  # not asked for, and sent all the same
        plain = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(raw, LARGEST + 1)
    except zlib.error:
        raise LostAnswerError(f"{access.address}: the answer is compressed, and cannot be read", "answer") from None
    if len(plain) > LARGEST:
        raise LostAnswerError(f"{access.address}: an answer of more than {LARGEST} bytes", "answer")
    return plain


def _broken(access: Login, error: Exception) -> LostAnswerError:
    if isinstance(error, http.client.IncompleteRead):
        return LostAnswerError(f"{access.address}: the answer is cut off in its middle", "answer")
    if isinstance(error, http.client.RemoteDisconnected | ConnectionError | ssl.SSLEOFError):
        return LostAnswerError(f"{access.address}: it closed the connection without a whole answer", "unreachable")
    return LostAnswerError(f"{access.address}: not an HTTP answer: {_words(error)}", "unreachable")


def _text(raw: bytes) -> str | bytes:
    """Return what JSON is read from: UTF-8 as it should be, else Latin-1, as older controllers send."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return raw if b"\0" in raw else raw.decode("latin-1")
    return raw


def _object(access: Login, raw: bytes, response: http.client.HTTPResponse) -> JsonObject:
    if not raw.strip() and not response.length:
        return {}
    try:
        data = json.loads(_text(raw))
    except (ValueError, RecursionError) as error:
        if response.status >= 300:
            return {}
        why = "not JSON"
        if response.length:
            why = f"cut off after {len(raw)} of {len(raw) + response.length} bytes"
        elif raw.lstrip()[:1] == b"<":
            why = "a web page (HTML), not JSON"
        elif isinstance(error, ValueError) and raw.lstrip()[:1] == b"{" and raw.rstrip()[-1:] != b"}":
            why = f"cut off after {len(raw)} bytes: not JSON"
        raise LostAnswerError(f"{access.address}: the answer is {why}", "answer") from None
    return data if isinstance(data, dict) else {}
