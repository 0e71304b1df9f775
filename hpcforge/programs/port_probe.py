"""A probe of other hosts' ports. Its text is sent to a node and run there: standard library, Python 3.9 syntax.

Each argument is ADDRESS:PORT, or ADDRESS:PORT/udp for a time server. It prints a line for each that does not answer:
the argument, and the reason. A port is tried twice. All of it takes 10 s at most; untried ports have no line.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
import time

TRY_S = 2.0  # a lost first packet is sent again after 1 s
PAUSE_S = 1.0  # before the second try, for a restarting daemon
LIMIT_S = 10.0
AT_ONCE = 256  # connections
_NTP_REQUEST = b"\x1b" + 47 * b"\0"  # version 3, mode 3 (client): RFC 5905


def unanswered(targets: list[str], try_s: float = TRY_S) -> dict[str, str]:
    """Return the reason for each target that does not answer."""
    until_s = time.monotonic() + LIMIT_S
    failures: dict[str, str] = {}
    for first in range(0, len(targets), AT_ONCE):
        if time.monotonic() + 2 * try_s + PAUSE_S > until_s:
            break
        failed = _attempt(targets[first : first + AT_ONCE], try_s)
        if failed:
            time.sleep(PAUSE_S)
            failures.update(_attempt(list(failed), try_s))
    return failures


def _attempt(targets: list[str], try_s: float) -> dict[str, str]:
    failures: dict[str, str] = {}
    until_s = time.monotonic() + try_s
    with selectors.DefaultSelector() as selector:
        for target in targets:
            try:
                _begin(selector, target)
            except OSError as error:
                failures[target] = _reason(error)
        while selector.get_map():
            left_s = until_s - time.monotonic()
            ready = selector.select(left_s) if left_s > 0 else []
            for key in [key for key, _ in ready] or list(selector.get_map().values()):
                connection: socket.socket = key.fileobj  # type: ignore[assignment]
                error_number = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if not ready:
                    failures[key.data] = f"no answer within {try_s:g} s"
                elif error_number:
                    failures[key.data] = os.strerror(error_number).lower()
                selector.unregister(connection)
                connection.close()
    return failures


def _begin(selector: selectors.BaseSelector, target: str) -> None:
    """Start a connection, or send a request to a time server."""
    address, _, port = target.rpartition(":")
    number, _, protocol = port.partition("/")
    udp = protocol == "udp"
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        connection.connect((address.strip("[]"), int(number)))
        if udp:
            connection.send(_NTP_REQUEST)
    except BlockingIOError:
        pass
    except OSError:
        connection.close()
        raise
    selector.register(connection, selectors.EVENT_READ if udp else selectors.EVENT_WRITE, target)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


if __name__ == "__main__":
    for name, reason in unanswered(sys.argv[1:]).items():
        sys.stdout.write(f"{name} {reason}\n")
