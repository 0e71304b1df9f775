#!/usr/bin/python3
"""Stands in for Grafana's server on a node, where its package cannot be had.

It reads grafana.ini and the provisioned data source when it starts, and dashboards again and again, as Grafana's
documentation says, `$__file{...}` too. It asks the data source itself, and answers GET / with what it found, over TLS,
to the user admin alone.
"""

from __future__ import annotations

import base64
import configparser
import http.server
import json
import re
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path("/etc/grafana")


def expanded(text: str) -> str:
    """A value with what the files have that it names."""
    return re.sub(r"\$__file\{([^}]*)\}", lambda match: Path(match[1]).read_text().strip(), text)


def basic(user: str, password: str) -> str:
    """The header that proves a user."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def provisioned(kind: str) -> Any:
    """What the only file of a kind lists; nothing before there is one: the role starts Grafana, then writes more."""
    texts = [path.read_text() for path in (FOLDER / "provisioning" / kind).glob("*.y*ml")]
    return yaml.safe_load(texts[0]) if len(texts) == 1 else {}


settings = configparser.RawConfigParser()
settings.read_string("[DEFAULT]\n" + (FOLDER / "grafana.ini").read_text())
own, security = settings["server"], settings["security"]
assert own["protocol"] == "https" and len(expanded(security["secret_key"])) == 32
admin = basic(security["admin_user"], expanded(security["admin_password"]))
source = provisioned("datasources").get("datasources", [{}])[0]
secrets = {name: expanded(text) for name, text in source.get("secureJsonData", {}).items()}
(provider,) = provisioned("dashboards")["providers"]


def asked() -> list[str]:
    """How many node exporters answer, by the data source: its certificate is checked, its password shown."""
    request = urllib.request.Request(source["url"] + "/api/v1/query", data=b"query=sum(up{job='node'})")
    request.add_header("Authorization", basic(source["basicAuthUser"], secrets["basicAuthPassword"]))
    trusted = ssl.create_default_context(cadata=secrets["tlsCACert"])
    with urllib.request.urlopen(request, context=trusted, timeout=20) as answer:
        return [row["value"][1] for row in json.load(answer)["data"]["result"]]


class Grafana(http.server.BaseHTTPRequestHandler):
    """Answers GET / alone."""

    def do_GET(self) -> None:
        """What it found."""
        if self.headers["Authorization"] != admin:
            self.send_error(401)
            return
        files = Path(provider["options"]["path"]).glob("*.json")
        titles = sorted(json.loads(path.read_text())["title"] for path in files)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"source": source["name"], "up": asked(), "dashboards": titles}).encode())


server = http.server.ThreadingHTTPServer((own["http_addr"], int(own["http_port"])), Grafana)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(own["cert_file"], own["cert_key"])
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
