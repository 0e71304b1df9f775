"""A package source that refuses for a while, for ever, or is not signed: apt on a real node, a server that does so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.node_program import Events, Node, converge, details, of

pytestmark = pytest.mark.lab

# Refuses the first so many requests for a package, as a source that is overloaded does; keeps a line a request.
_SERVER = """\
import http.server, pathlib
asked = []
class Odd(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path.endswith(".deb"):
            asked.append(self.path)
            if len(asked) <= int(pathlib.Path("/srv/refuse").read_text()):
                return self.send_error(503)
        super().do_GET()
    def log_message(self, text, *values):
        with open("/srv/asked", "a") as log:
            log.write(text % values + "\\n")
http.server.ThreadingHTTPServer(("127.0.0.1", 8099), lambda *a: Odd(*a, directory="/srv/odd")).serve_forever()
"""
_SET_UP = """
set -e
mkdir -p /srv/odd /tmp/odd/DEBIAN
printf 'Package: odd\\nVersion: 1\\nArchitecture: all\\nMaintainer: none <none@example.org>\\n%s\\n%s\\n' \
  'Conflicts: even' 'Description: odd' \
  > /tmp/odd/DEBIAN/control
mkdir -p /tmp/even/DEBIAN
sed '/Conflicts/d; s/odd/even/' /tmp/odd/DEBIAN/control > /tmp/even/DEBIAN/control
dpkg-deb -b /tmp/even /srv/even.deb > /dev/null
dpkg-deb -b /tmp/odd /srv/odd/odd_1_all.deb > /dev/null
cd /srv/odd
{ cat /tmp/odd/DEBIAN/control; echo Filename: ./odd_1_all.deb; echo Size: $(stat -c %s odd_1_all.deb);
  echo SHA256: $(sha256sum < odd_1_all.deb | cut -d' ' -f1); } > Packages
printf 'Origin: odd\\nDate: %s\\nSHA256:\\n %s %s Packages\\n' "$(date -Ru | sed 's/+0000/UTC/')" \
  $(sha256sum < Packages | cut -d' ' -f1) $(stat -c %s Packages) > Release
echo 'Acquire::http::Proxy::127.0.0.1 "DIRECT";' > /etc/apt/apt.conf.d/99odd
cat > /srv/server.py
systemd-run -q --unit=odd python3 /srv/server.py
"""
_TAKE_DOWN = """
systemctl stop odd; systemctl reset-failed odd
dpkg --purge odd even
rm -rf /var/cache/apt/archives/odd_* /srv/odd /srv/server.py /srv/asked /srv/refuse /tmp/odd /tmp/even /srv/even.deb
rm -f /etc/apt/apt.conf.d/99odd
rm -f /etc/apt/sources.list.d/odd.list /var/lib/apt/lists/127.0.0.1*
true
"""


@pytest.fixture
def source(node: Node) -> Iterator[Node]:
    node.shell(f"sudo sh -c '{_TAKE_DOWN}'", check=False)
    try:
        node.shell("cat > /tmp/setup.sh", stdin=_SET_UP)
        node.shell("sudo sh /tmp/setup.sh", stdin=_SERVER)
        node.until("python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8099))'")
        yield node
    finally:
        node.shell(f"sudo sh -c '{_TAKE_DOWN}'", check=False)


def offer(node: Node, options: str, refuse: int) -> None:
    node.shell(f"echo {refuse} | sudo tee /srv/refuse; echo 'deb {options} http://127.0.0.1:8099 ./' | "
               "sudo tee /etc/apt/sources.list.d/odd.list")  # fmt: skip


def asked(node: Node, what: str) -> int:
    return int(node.shell(f"grep -c '{what}' /srv/asked", check=False))


WORK = [{"role": "one", "packages": ["odd"]}]


def test_one_that_refuses_for_a_while_is_tried_again(source: Node) -> None:
    offer(source, "[trusted=yes]", refuse=3)
    events = source.send(converge("prepare", WORK))
    assert details(events) == {"odd": "installed"}
    assert "trying again (1/2)" in " ".join(str(one.get("detail")) for one in of(events, "progress"))
    assert asked(source, "odd_1_all.deb") == 4


def test_one_that_refuses_for_ever_is_given_up(source: Node) -> None:
    offer(source, "[trusted=yes]", refuse=1000)
    [failed] = of(source.send(converge("prepare", WORK)), "failed")
    assert "503" in failed["error"], failed
    assert 3 <= asked(source, "odd_1_all.deb") <= 6  # three times apt, which asks again once by itself


def test_one_that_is_not_signed_is_asked_once_and_never_believed(source: Node) -> None:
    offer(source, "", refuse=0)
    [failed] = of(source.send(converge("prepare", WORK)), "failed")
    assert "is not signed" in failed["error"], failed
    assert asked(source, "GET /./InRelease") == 1
    assert asked(source, "odd_1_all.deb") == 0


LISTS = "/var/lib/apt/lists"


@pytest.mark.parametrize(("left_bytes", "name"), [(0, "Packages"), (60, "Packages"), (0, "Release")])
def test_lists_that_a_power_cut_emptied_are_fetched_anew(source: Node, left_bytes: int, name: str) -> None:
    offer(source, "[trusted=yes]", refuse=0)
    source.shell("sudo apt-get update -q")
    source.shell(f"sudo sh -c 'truncate -s {left_bytes} {LISTS}/127.0.0.1*_{name}'")
    events = source.send(converge("prepare", WORK))
    assert details(events) == {"odd": "installed"}
    assert f"fetching them anew: 127.0.0.1:8099_._{name}" in details_of_progress(events)


@pytest.mark.parametrize(("left_bytes", "name"), [(0, "Packages"), (0, "InRelease"), (9000, "InRelease")])
def test_lists_that_are_signed_are_fetched_anew_too(node: Node, left_bytes: int, name: str) -> None:
    node.shell("sudo apt-get update -q")
    try:
        node.shell(f"sudo sh -c 'truncate -s {left_bytes} {LISTS}/*_bookworm_*{name}'")
        events = node.send(converge("prepare", [{"role": "one", "packages": ["libpam-cap"]}]))
        assert details(events) == {"libpam-cap": "installed"}
        assert "fetching them anew: " in details_of_progress(events)
    finally:
        node.shell("sudo dpkg --purge libpam-cap")


def details_of_progress(events: Events) -> str:
    return " ".join(str(one["detail"]) for one in of(events, "progress"))


def test_what_apt_would_remove_is_told_and_nothing_else_goes(source: Node) -> None:
    """A site's own package that conflicts with one of ours: it goes if the plan showed it, and only then."""
    offer(source, "[trusted=yes]", refuse=0)
    source.shell("sudo dpkg -i /srv/even.deb")
    wanted = [{"role": "one", "packages": ["odd"], "replaces": ["even", "nosuch"]}]

    def told() -> tuple[object, object]:
        [seen] = of(source.send({"verb": "observe", "wanted": wanted}), "observed")
        (difference,) = seen["differs"]
        return difference["removes"], difference["unforeseen"]

    assert told() == ([{"name": "even", "by": ["odd"]}], ["odd"])  # by what the role says: the lists do not have it
    events = source.send(converge("prepare", WORK))  # which reads them
    (failed,) = of(events, "failed")
    assert failed["error"].startswith("apt would remove even to install odd, which the plan did not show: nothing was")
    assert installed(source) == "even"
    wanted[0]["replaces"] = []
    assert told() == ([{"name": "even", "by": ["odd"]}], [])
    events = source.send(converge("prepare", [{**WORK[0], "removes": ["even"]}]))
    assert details(events) == {"odd": "installed", "even": "removed"}
    assert installed(source) == "odd"


def installed(node: Node) -> str:
    query = "dpkg-query -W -f '${Package} ${Status}\\n' odd even | sed -n 's/ install ok installed//p'"
    return node.shell(query, check=False).strip()
