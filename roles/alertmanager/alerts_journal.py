#!/usr/bin/python3 -BIS
"""Write the alerts that Alertmanager posts to standard output, a line each. Standard library, Python 3.9."""

import http.server
import json
import sys
from collections.abc import Iterator
from typing import Any

PORT = 9094
MOST_BYTES = 8 << 20
LIMIT_S = 10  # for a request


def lines(message: bytes) -> Iterator[str]:
    """Yield a line for each alert of a message. Raises ValueError, TypeError, KeyError or AttributeError if invalid."""
    for alert in json.loads(message)["alerts"]:
        labels, notes = alert["labels"], alert["annotations"]
        words = (alert["status"], labels.get("severity", "-"), labels["alertname"], labels.get("node", "-"))
        text = f"{' '.join(words)}: {notes.get('summary', '')}; what to do: {notes.get('next', '')}"
        yield "".join(letter if letter.isprintable() else "?" for letter in text)


class Receiver(http.server.BaseHTTPRequestHandler):
    """Takes what Alertmanager posts (its documentation, webhook_config)."""

    timeout = LIMIT_S

    def do_POST(self) -> None:
        """Write the alerts of a message."""
        status = 200
        try:
            size = int(self.headers["Content-Length"])
            if not 0 <= size <= MOST_BYTES:
                raise ValueError("size")
            text = "".join(f"{line}\n" for line in lines(self.rfile.read(size)))
            sys.stdout.write(text)
            sys.stdout.flush()
        except (ValueError, TypeError, KeyError, AttributeError):
            status = 400
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Write nothing for a request itself."""


def server(port: int = PORT) -> http.server.ThreadingHTTPServer:
    """Return the server, on loopback."""
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), Receiver)


if __name__ == "__main__":
    server().serve_forever()
