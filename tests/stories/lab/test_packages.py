"""The package proxy of a lab, as it runs: where its nodes may go over TLS, and where not."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPSConnection
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from hpcforge.host import processes
from hpcforge.lab import packages, target_state
from hpcforge.lab.state import Lab
from tests.support.tls_server import certificate, serving
from tests.unit.lab.test_target_state import REQUEST, TREES

PASSWORD = "of-ada-0815"


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """Of a proxy alone, on this machine's loopback; in a folder that the proxy's account can enter, unlike pytest's."""
    place = Path(tempfile.mkdtemp(prefix="hpcforge-test-proxy-"))
    place.chmod(0o755)
    monkeypatch.setenv("HPCFORGE_CACHE_DIR", str(place / "cache"))
    monkeypatch.setattr("hpcforge.lab.state.lab_directory", lambda name: place / name)
    (place / f"proxy-{os.getpid()}").mkdir()
    made = target_state.new_lab(
        replace(REQUEST, name=f"proxy-{os.getpid()}"),
        TREES,
        subnet=IPv4Network("10.77.3.0/24"),
        tag="hf0001",
        port=packages.choose_port(),
        packages_cache=packages.choose_cache([]),
    )
    made = replace(made, gateway="127.0.0.1")
    try:
        yield made
    finally:
        packages.stop_proxy(made.name)
        shutil.rmtree(place)


def fetched(lab: Lab, port: int, trusts: Path, host: str = "localhost") -> bytes:
    """A file of the server, through the lab's proxy, as apt asks. Raises OSError where the proxy refuses."""
    context = ssl.create_default_context(cafile=str(trusts))
    connection = HTTPSConnection(lab.gateway, lab.packages_port, timeout=20, context=context)
    connection.set_tunnel(host, port)
    connection.request("GET", "/InRelease")
    return connection.getresponse().read()


@pytest.mark.lab
def test_tls_passes_to_package_sources_and_nowhere_else(lab: Lab, tmp_path: Path) -> None:
    files, folder = certificate(tmp_path), tmp_path / "repository"
    folder.mkdir()
    (folder / "InRelease").write_text("signed\n")
    with serving(folder, files) as port, serving(folder, files) as other:
        lab = replace(lab, sources={f"https://localhost:{port}": False})
        assert packages.ensure_proxy(lab)
        assert fetched(lab, port, files[0]) == b"signed\n"
        for where, there in (("localhost", other), ("127.0.0.1", port), ("xlocalhost", port), ("localhost", port * 10)):
            with pytest.raises(OSError, match="Tunnel connection failed: 403"):
                fetched(lab, there, files[0], where)
        assert not packages.ensure_proxy(lab)
        lab = replace(lab, sources={f"https://localhost:{port}": False, f"https://localhost:{other}": False})
        assert packages.ensure_proxy(lab)  # begun again with the further one
        assert fetched(lab, other, files[0]) == b"signed\n"


@pytest.mark.lab
def test_a_source_is_reached_where_it_answers_through_the_proxy(lab: Lab, tmp_path: Path) -> None:
    files = certificate(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        closed = probe.getsockname()[1]
    with serving(tmp_path, files) as port:
        sources = {
            f"https://localhost:{port}": True,
            f"https://localhost:{closed}": False,
            "https://no-such-host.invalid": False,
            f"http://localhost:{closed}": False,
            "http://no-such-host.invalid": False,
        }
        lab = replace(lab, sources=dict.fromkeys(sources, False))
        packages.ensure_proxy(lab)
        assert packages.reached(lab) == sources
    assert packages.reached(lab) == dict.fromkeys(sources, False)


@pytest.mark.lab
def test_the_password_of_the_upstream_proxy_is_the_proxys_alone(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"http://ada:{PASSWORD}@proxy.invalid:3128"
    monkeypatch.setattr(packages, "run", lambda *_: f'Acquire::http::Proxy "{address}";\n')  # this host's apt
    assert packages.ensure_proxy(lab)  # it answers where this file says
    with socket.create_connection((lab.gateway, lab.packages_port), timeout=20) as client:
        client.sendall(b"GET http://archive.example.org/debian/InRelease HTTP/1.1\r\nHost: archive.example.org\r\n\r\n")
        answer = client.recv(65536).decode(errors="replace")
    assert answer.startswith("HTTP/1.1 50")

    file = packages._configuration(lab.name) / "acng.conf"
    assert PASSWORD in file.read_text()
    modes = [(one.stat().st_mode & 0o777, one.owner(), one.group()) for one in (file, file.parent)]
    assert modes == [(0o640, "root", "apt-cacher-ng"), (0o750, "root", "apt-cacher-ng")]
    as_another = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cat", str(file)]
    assert subprocess.run(as_another, capture_output=True, check=False).returncode != 0
    assert PASSWORD not in answer
    assert PASSWORD not in "".join(" ".join(processes.arguments(pid)) for pid in packages._running(lab.name))
    logs = [lab.directory / "packages.log", *Path(lab.packages_cache, "log").rglob("*")]
    assert [log for log in logs if log.is_file() and PASSWORD in log.read_text(errors="replace")] == []
