"""Artifacts by their address: the operator host from a server that is not always well, and a node from the depot."""

from __future__ import annotations

import hashlib
import io
import os
import re
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hpcforge.downloads import artifacts
from hpcforge.downloads.artifacts import FetchError, fetch
from hpcforge.kinds.downloads import Download
from hpcforge.node.events import EventReporter, NodeError
from hpcforge.node.kinds import downloads as on_node
from hpcforge.plan.desired import Artifact
from hpcforge.report.progress import Progress

CONTENT = os.urandom(300_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Server:
    """A server on the loopback: what it has, how much of it comes before the connection is lost, what it was asked."""

    port: int = 0
    content: bytes = CONTENT
    cut_after: list[int] = field(default_factory=list)  # bytes of each of the next answers
    status: int = 200
    ranges: list[str | None] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/tool.bin"


@pytest.fixture
def server() -> Iterator[Server]:
    has = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            has.ranges.append(asked)
            begin = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
            if begin and begin >= len(has.content):
                self.send_response(416)
                self.end_headers()
                return
            self.send_response(206 if asked and has.status == 200 else has.status)
            if has.status == 302:
                self.send_header("Location", has.url)
            body = has.content[begin:]
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: has.cut_after.pop(0)] if has.cut_after else body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is said."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    has.port = listening.server_port
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield has
    listening.shutdown()
    listening.server_close()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "_PAUSE_S", 0.01)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)


def quiet(_: str) -> None:
    """Progress that nobody looks at."""


def test_it_is_fetched_once_and_gone_on_with_after_the_connection_was_lost(server: Server, tmp_path: Path) -> None:
    server.cut_after = [100_000, 50_000]
    artifact, said = Artifact("tools/tool.bin", server.url, DIGEST), list[str]()
    out = io.StringIO()
    with Progress(out) as progress:
        fetch([artifact], tmp_path, said.append, progress.tally)
        fetch([artifact], tmp_path, said.append, progress.tally)  # nothing is missing: nothing is counted
    assert out.getvalue().count("fetching files: 1 of 1") == 1
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-"]
    assert (tmp_path / DIGEST).read_bytes() == CONTENT
    assert any("connection was lost" in line for line in said)
    fetch([artifact], tmp_path, quiet)
    assert len(server.ranges) == 3
    assert [path.name for path in tmp_path.iterdir()] == [DIGEST]


def test_what_a_killed_run_left_is_gone_on_with_and_doubted_where_it_does_not_fit(
    server: Server, tmp_path: Path
) -> None:
    artifact, arriving = Artifact("tools/tool.bin", server.url, DIGEST), tmp_path / f".{DIGEST}.arriving"
    for left, asked in ((CONTENT[:1000], ["bytes=1000-"]), (b"x" * 1000, ["bytes=1000-", None])):
        server.ranges.clear()
        (tmp_path / DIGEST).unlink(missing_ok=True)
        arriving.write_bytes(left)
        fetch([artifact], tmp_path, quiet)
        assert server.ranges == asked
        assert (tmp_path / DIGEST).read_bytes() == CONTENT
    arriving.write_bytes(b"y" * len(CONTENT) * 2)  # more than there is: the server cannot go on
    (tmp_path / DIGEST).unlink()
    fetch([artifact], tmp_path, quiet)
    assert (tmp_path / DIGEST).read_bytes() == CONTENT


def test_another_file_than_pinned_is_refused_with_both_digests(server: Server, tmp_path: Path) -> None:
    server.content = b"something else"
    other = hashlib.sha256(server.content).hexdigest()
    with pytest.raises(FetchError, match=f"its SHA-256 is {other}, but {DIGEST} is pinned"):
        fetch([Artifact("tools/tool.bin", server.url, DIGEST)], tmp_path, quiet)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FetchError, match="it has 14 bytes there, the limit is 9"):
        fetch([Artifact("tools/tool.bin", server.url, DIGEST, 9)], tmp_path, quiet)


def test_what_cannot_be_had_is_named_with_its_address(server: Server, tmp_path: Path) -> None:
    server.status = 404
    with pytest.raises(FetchError, match=f"could not be fetched from {re.escape(server.url)}: 404 Not Found") as error:
        fetch([Artifact("tools/tool.bin", server.url, DIGEST)], tmp_path, quiet)
    assert len(server.ranges) == 1  # asking again would not help
    assert "https_proxy" in str(error.value.hint)
    server.status = 503
    with pytest.raises(FetchError, match="503"):
        fetch([Artifact("tools/tool.bin", server.url, DIGEST)], tmp_path, quiet)
    assert len(server.ranges) == 5
    with pytest.raises(FetchError, match="No such file"):
        fetch([Artifact("tools/tool.bin", f"file://{tmp_path}/gone", DIGEST)], tmp_path, quiet)


def test_a_server_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(artifacts, "_PATIENCE_S", 0.2)
    over = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        for _ in range(4):
            there, _address = listening.accept()
            with there, suppress(OSError):
                there.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n")
                while not over.wait(0.05):
                    there.sendall(b"x")

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        with pytest.raises(FetchError, match="fewer than 1000 bytes a second came"):
            fetch([Artifact("tool", f"http://127.0.0.1:{listening.getsockname()[1]}/tool", DIGEST)], tmp_path, quiet)
    finally:
        over.set()
        dripping.join(10)
        listening.close()


def test_a_file_of_this_host_is_as_good(tmp_path: Path) -> None:
    (tmp_path / "tool.bin").write_bytes(CONTENT)
    fetch([Artifact("tools/tool.bin", f"file://{tmp_path}/tool.bin", DIGEST)], tmp_path / "cache", quiet)
    assert (tmp_path / "cache" / DIGEST).read_bytes() == CONTENT


def wanted(server: Server, path: Path, **more: Any) -> Download:
    return replace(Download(str(path), server.url, DIGEST, None, "0755"), **more)


@pytest.mark.skipif(os.geteuid() != 0, reason="what a node downloads is root's")
def test_a_node_downloads_it_mends_it_and_gives_it_back(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "opt" / "tool"
    want = wanted(server, path)
    found = on_node.compare(want)
    assert found is not None
    assert not found["exists"]
    known = on_node.own(str(path), want, set())
    assert on_node.put(want) == "downloaded"
    assert path.read_bytes() == CONTENT
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert on_node.compare(want) is None
    path.chmod(0o600)
    assert on_node.put(want) == "mode 0600 -> 0755"
    assert len(server.ranges) == 1  # rights need no download
    path.write_bytes(b"hers")
    found = on_node.compare(want)
    assert found is not None
    assert found["digest"] == hashlib.sha256(b"hers").hexdigest()
    assert on_node.put(want) == "downloaded again"
    assert known is not None
    assert on_node.restore(str(path), {**known, "digest": DIGEST}, EventReporter(quiet)) == "removed"  # type: ignore[arg-type]
    assert not path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="what a node downloads is root's")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("digest", f"has SHA-256 [0-9a-f]{{64}}, but {DIGEST} is pinned"),
        ("size", "has 300000 bytes, expected 9"),
        ("redirect", "302 Found"),
        ("gone", "404 Not Found"),
        ("cut", "connection was lost after 1000 bytes of 300000"),
        ("nobody", "Connection refused"),
        ("scheme", "invalid download address"),
    ],
)
def test_what_goes_wrong_on_a_node_leaves_what_is_there(server: Server, tmp_path: Path, wrong: str, said: str) -> None:
    path = tmp_path / "tool"
    path.write_bytes(b"as it was")
    more: dict[str, Any] = {"size": {"size_bytes": 9}, "nobody": {"url": "http://127.0.0.1:9/x"}}.get(wrong, {})
    more = {"url": "file:///etc/passwd"} if wrong == "scheme" else more
    server.content = b"else" if wrong == "digest" else CONTENT
    server.status = {"redirect": 302, "gone": 404}.get(wrong, 200)
    server.cut_after = [1000] if wrong == "cut" else []
    with pytest.raises(NodeError, match=said):
        on_node.put(wanted(server, path, **more))
    assert path.read_bytes() == b"as it was"
    assert [path.name for path in tmp_path.iterdir()] == ["tool"]
