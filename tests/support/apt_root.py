"""An apt of its own for a test: a repository that is served, its lists, and a dpkg that has nothing."""

from __future__ import annotations

import hashlib
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

_PACKAGE = "Package: {}\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b.example>\nDescription: x\n{}"
_INDEXED = (
    "Filename: ./{}_1_all.deb\nSize: 4\nSHA256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n"
)


class AptRoot(NamedTuple):
    """`configuration`: for APT_CONFIG; `status`: dpkg's file; `repository`: the folder that is served at `uri`."""

    configuration: Path
    status: Path
    repository: Path
    uri: str

    @property
    def sources(self) -> Path:
        """The file of its package sources."""
        return self.configuration.parent / "sources.list"

    @property
    def preferences(self) -> Path:
        """The folder of its pins."""
        return self.configuration.parent / "preferences.d"

    def environment(self) -> dict[str, str]:
        """Return the environment in which apt and dpkg use it."""
        return {"APT_CONFIG": str(self.configuration), "DPKG_ADMINDIR": str(self.status.parent)}

    def have(self, name: str, status: str, more: str = "") -> None:
        """Add a package to dpkg's file."""
        with self.status.open("a") as file:
            file.write(_PACKAGE.format(name, f"Status: {status}\n{more}\n"))

    def read_lists(self) -> None:
        """Run apt-get update."""
        subprocess.run(["apt-get", "-qq", "update"], check=True, env={"PATH": "/usr/bin:/bin", **self.environment()})


@contextmanager
def apt_root(folder: Path, packages: dict[str, str]) -> Iterator[AptRoot]:
    """Serve a repository of these packages (name: further fields) and read its list."""
    repository, dpkg, etc = folder / "repository", folder / "dpkg", folder / "etc"
    for path in (repository, dpkg / "updates", dpkg / "info", etc / "preferences.d", etc / "conf.d", folder / "lists"):
        path.mkdir(parents=True)
    index = [_PACKAGE.format(name, more + _INDEXED.format(name)) for name, more in packages.items()]
    text = "\n".join(index)
    (repository / "Packages").write_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    release = f"Date: Sat, 01 Jan 2022 00:00:00 UTC\nSHA256:\n {digest} {len(text)} Packages\n"
    (repository / "Release").write_text(release)
    for name in packages:
        (repository / f"{name}_1_all.deb").write_text("test")
    (dpkg / "status").touch()
    (etc / "apt.conf").write_text(
        f'Dir::State "{folder}"; Dir::State::status "{dpkg}/status"; Dir::Cache "{folder}/cache";\n'
        f'Dir::Etc::sourcelist "{etc}/sources.list"; Dir::Etc::sourceparts "/dev/null"; APT::Sandbox::User "root";\n'
        f'Dir::Etc::preferences "/dev/null"; Dir::Etc::preferencesparts "{etc}/preferences.d";\n'
        'APT::Architecture "amd64"; Acquire::Languages "none"; #clear Acquire::http::Proxy;\n'
        f'Dir::Etc::Parts "{etc}/conf.d";\n'
    )
    handler = partial(_Quiet, directory=str(repository))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        root = AptRoot(etc / "apt.conf", dpkg / "status", repository, f"http://127.0.0.1:{server.server_port}")
        root.sources.write_text(f"deb [trusted=yes] {root.uri} ./\n")
        root.read_lists()
        yield root
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        pass
