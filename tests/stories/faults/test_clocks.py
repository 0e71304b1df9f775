"""A node whose clock is not the time server's is told so, before MUNGE would call it an authentication failure."""

from __future__ import annotations

import shutil
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.stories.faults.conftest import NODES, REPOSITORY, Site

pytestmark = pytest.mark.lab

_NTP_EPOCH_S = 2_208_988_800  # from 1900 to 1970
_SKEWS_S = (2.0, 90.0, 400.0)


@dataclass
class TimeServer:
    """Answers NTP on the lab's gateway with a time that is wrong by `skew_s`: to the nodes, as if theirs were."""

    connection: socket.socket
    skew_s: float = 0.0

    def serve(self) -> None:
        """Answer until the socket is closed."""
        while True:
            try:
                asked, sender = self.connection.recvfrom(512)
                self.connection.sendto(self._answer(asked), sender)
            except TimeoutError:
                continue
            except OSError:
                return

    def _answer(self, asked: bytes) -> bytes:
        now = int((time.time() + self.skew_s + _NTP_EPOCH_S) * 2**32)
        head = struct.pack("!BBbb II4s", 0x24, 2, asked[2], -20, 0, 0x100, b"TEST")  # version 4, a server, stratum 2
        return head + struct.pack("!Q8sQQ", now - 2**32, asked[40:48], now, now)


@pytest.fixture
def time_server(site: Site) -> Iterator[TimeServer]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.bind((site.lab.gateway, 123))
        connection.settimeout(0.5)
        server = TimeServer(connection)
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield server
        finally:
            connection.close()
            thread.join()


def test_wrong_clocks_are_called_wrong_clocks(site: Site, time_server: TimeServer) -> None:
    shutil.rmtree(site.roles)
    for role in ("base", "time", "time_server", "munge"):
        shutil.copytree(REPOSITORY / "roles" / role, site.roles / role)
    # A text of another shipped role's, which a role of a site has in its own folder.
    shutil.copytree(REPOSITORY / "roles" / "time", site.roles / "time_server" / "roles" / "time")
    site.blueprint.write_text(site.blueprint.read_text().replace("192.0.2.3", site.lab.gateway))
    site.fresh()
    for skew_s in _SKEWS_S:
        time_server.skew_s = skew_s
        for node in NODES:
            site.inside(node, "systemctl try-restart chrony || true")
        done = site.apply(code=5)
        for node in NODES:
            assert f"{node}: time FAILED: the clock is within 1 s of the time server's" in done.stderr
            assert "munge FAILED" not in done.stderr
            assert site.inside(node, "systemctl is-active munge || true") == "inactive\n"
    time_server.skew_s = 0.0
    for node in NODES:
        site.inside(node, "systemctl restart chrony")
    site.apply()
    for node in NODES:
        assert site.inside(node, "systemctl is-active munge") == "active\n"
