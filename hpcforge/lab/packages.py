"""The caching package proxy of a lab: apt-cacher-ng, only on the lab's bridge address.

Each running lab has its own proxy and cache directory, since two proxies cannot share one: the first lab on a host gets
cache 0, a second lab at the same time cache 1. So the usual single lab always has the warm one.

TLS connections pass through it unread, only to the hosts and ports of the lab's package sources.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from hpcforge.atomic import write_atomically
from hpcforge.host import processes
from hpcforge.host.commands import daemon, run
from hpcforge.host.paths import RUN, cache
from hpcforge.lab.errors import LabError
from hpcforge.lab.state import Lab

_USER = "apt-cacher-ng"  # made by the package; the proxy needs no root
_FILE = "acng.conf"
_PORTS = range(3177, 3200)  # not apt-cacher-ng's default 3142, which a host may serve on all its addresses
_HTTP, _HTTPS = "80", "443"
_REACH_S = 20  # limit for the proxy's answer about a package source
_AT_ONCE = 8  # sources that are tested at the same time


def choose_cache(used: Collection[str]) -> str:
    """Return the first cache directory that no other lab has."""
    candidates = (str(cache() / "apt" / str(number)) for number in range(len(used) + 1))
    return next(path for path in candidates if path not in used)


def served_caches() -> set[str]:
    """Return the cache directories of configured proxies, also of labs that cannot be read."""
    texts = [path.read_text() for path in RUN.glob(f"{_configuration('*').name}/{_FILE}")]
    return {match[1] for text in texts if (match := re.search(r"^CacheDir: (.+)$", text, re.MULTILINE))}


def choose_port() -> int:
    """Return a port that is free on all addresses of the host now."""
    for port in _PORTS:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", port))  # noqa: S104  (a probe: closed at once, never listens)
            except OSError:
                continue
            return port
    raise LabError(f"no free port for the package proxy between {_PORTS[0]} and {_PORTS[-1]}")


def ensure_proxy(lab: Lab) -> bool:
    """Start the lab's proxy with its package sources; return true if it was started now."""
    text = _text(lab)
    if _running(lab.name):
        path = _configuration(lab.name) / _FILE
        if path.is_file() and path.read_text() == text:
            return False
        stop_proxy(lab.name)
    configuration = _configure(lab, text)
    log = lab.directory / "packages.log"
    argv = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups", "--no-new-privs"]
    daemon([*argv, "apt-cacher-ng", "-c", str(configuration), "ForeGround=1"], log)
    if not processes.wait_until(lambda: _answers(lab), timeout_s=60):
        lines = log.read_text(errors="replace").strip().splitlines()[-5:]
        raise LabError(
            f"the package proxy does not answer on {lab.gateway}:{lab.packages_port}", "\n".join(lines) or f"see {log}"
        )
    return True


def reached(lab: Lab) -> dict[str, bool]:
    """Return which package sources of the lab answer through its proxy, as for its nodes."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return dict(zip(lab.sources, pool.map(partial(_reaches, lab), lab.sources), strict=True))


def _reaches(lab: Lab, source: str) -> bool:
    asks = f"CONNECT {_host_and_port(source)}" if _secure(source) else f"HEAD {source}/InRelease"
    request = f"{asks} HTTP/1.1\r\nHost: {_host_and_port(source)}\r\nConnection: close\r\n\r\n"
    try:
        with socket.create_connection((lab.gateway, lab.packages_port), timeout=_REACH_S) as proxy:
            proxy.sendall(request.encode())
            with proxy.makefile("rb") as answer:
                status_line = answer.readline(200)
    except OSError:
        return False
    status = re.match(rb"HTTP/1\.[01] ([1-5][0-9]{2})\b", status_line)
    if status is None:
        return False
    return status[1] == b"200" if _secure(source) else status[1] < b"500"


def _secure(source: str) -> bool:
    return source.startswith("https:")


def _host_and_port(source: str) -> str:
    scheme, _, host = source.partition("://")
    usual = _HTTPS if scheme == "https" else _HTTP
    return host if re.search(r":[0-9]+$", host) else f"{host}:{usual}"


def allowed(sources: Collection[str]) -> Iterator[str]:
    """Yield lines of configuration: the allowed HOST:PORT of TLS connections, and ports of plain http."""
    places = {source: _host_and_port(source) for source in sources}
    secure = sorted({re.sub(r"[][.]", r"\\\g<0>", place) for source, place in places.items() if _secure(source)})
    if secure:
        yield f"PassThroughPattern: ^({'|'.join(secure)})$"
    ports = sorted({place.rpartition(":")[2] for source, place in places.items() if not _secure(source)} - {_HTTP})
    if ports:
        yield f"AllowUserPorts: {' '.join([_HTTP, *ports])}"


def stop_proxy(name: str) -> None:
    """End a lab's proxy and remove its configuration."""
    for pid in _running(name):
        processes.end(pid, partial(_still_proxy, pid, name), (signal.SIGTERM, 3), (signal.SIGKILL, 3))
    shutil.rmtree(_configuration(name), ignore_errors=True)


def _running(name: str) -> list[int]:
    return processes.find(lambda argv: _is_proxy(argv, name))


def _is_proxy(argv: list[str], name: str) -> bool:
    started = "apt-cacher-ng" in (Path(word).name for word in argv)  # also a program that executes it
    return started and str(_configuration(name)) in argv


def _still_proxy(pid: int, name: str) -> bool:
    return _is_proxy(processes.arguments(pid), name)


def _configuration(name: str) -> Path:
    return RUN / f"packages-{name}"


def _text(lab: Lab) -> str:
    store, upstream = Path(lab.packages_cache), _upstream_proxy()
    lines = [
        f"CacheDir: {store}",
        f"LogDir: {store / 'log'}",
        "SupportDir: /usr/lib/apt-cacher-ng",
        f"SocketPath: {store / 'socket'}",
        f"BindAddress: {lab.gateway}",
        f"Port: {lab.packages_port}",
        "ExThreshold: 30",
        *([f"Proxy: {upstream}"] if upstream else []),
        *allowed(lab.sources),
    ]
    return "\n".join(lines) + "\n"


def _configure(lab: Lab, text: str) -> Path:
    store = Path(lab.packages_cache)
    for directory in (store, store / "log"):
        directory.mkdir(parents=True, exist_ok=True)
        shutil.chown(directory, _USER, _USER)
    for directory in (store.parent, cache()):
        directory.chmod(0o755)
    configuration = _configuration(lab.name)
    configuration.mkdir(parents=True, exist_ok=True)
    # The upstream proxy's address may have a password: the folder gets its mode before the file exists.
    shutil.chown(configuration, "root", _USER)
    configuration.chmod(0o750)
    write_atomically(configuration / _FILE, text, mode=0o640)
    shutil.chown(configuration / _FILE, "root", _USER)
    return configuration


def _upstream_proxy() -> str:
    """Return this host's own proxy for package archives, if any."""
    match = re.search(
        r'^Acquire::http::Proxy "(http.*)";$', run("apt-config", "dump", "Acquire::http::Proxy"), re.MULTILINE
    )
    return match[1] if match else os.environ.get("http_proxy", "")


def _answers(lab: Lab) -> bool:
    try:
        with socket.create_connection((lab.gateway, lab.packages_port), timeout=1):
            return True
    except OSError:
        return False
