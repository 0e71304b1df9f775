"""What is in the way on a node, or on the operator host: it is found, named, and nothing half done is left."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.stories.faults.conftest import REPOSITORY, Site

pytestmark = pytest.mark.lab


@contextmanager
def over(site: Site, node: str, path: str, options: str, fill: str = "true") -> Iterator[None]:
    """A small file system over a folder of a node, with what was in it; `fill` is run in it."""
    site.inside(
        node,
        f"cp -a {path} /root/kept && mount -t tmpfs -o {options} tmpfs {path} && cp -a /root/kept/. {path}/"
        f" && cd {path} && {{ {fill}; }}",
    )
    try:
        yield
    finally:
        site.inside(node, f"cd / && umount {path} && rm -rf /root/kept")


_FULL = {
    "disk": ("size=32k", "dd if=/dev/zero of=filler bs=1k count=64 2>/dev/null || true"),
    "inodes": ("nr_inodes=8", "for n in 1 2 3 4 5 6 7 8; do touch $n 2>/dev/null || true; done"),
    "read-only": ("size=64k", "mount -o remount,ro /etc/faults"),
}
_WHY = {
    "disk": r"/etc/faults/ground.conf is full: [0-9.]+ KiB needed, [0-9.]+ KiB free",
    "inodes": r"/etc/faults/ground.conf has too few inodes: 1 needed, 0 free",
    "read-only": r"/etc/faults/ground.conf is read-only",
}


@pytest.mark.parametrize("kind", _FULL)
def test_where_nothing_can_be_written_nothing_is_changed(site: Site, kind: str) -> None:
    site.apply()
    line = site.revise("ground", "ground.conf.j2")
    options, fill = _FULL[kind]
    with over(site, "n02", "/etc/faults", options, fill):
        before = site.inside("n02", "ls -lA /etc/faults; cat /etc/faults/ground.conf")
        done = site.apply(code=5)
        assert re.search(_WHY[kind], done.stderr)
        assert site.inside("n02", "ls -lA /etc/faults; cat /etc/faults/ground.conf") == before
        assert line in site.inside("n01", "cat /etc/faults/ground.conf")
    site.apply()
    assert line in site.inside("n02", "cat /etc/faults/ground.conf")


# Both folders full, but for the site and this checkout, should they lie there. A file system of its own has /run.
_FULL_TMP = """
set -e
mkdir -p /run/hpcforge-faults && mount -t tmpfs -o size=64k tmpfs /run/hpcforge-faults
cd /run/hpcforge-faults && mkdir site checkout
mount --bind {site} site && mount --bind {checkout} checkout
for folder in /tmp /var/tmp; do
  mount -t tmpfs -o size=64k tmpfs $folder
  mkdir -p {site} {checkout}
  dd if=/dev/zero of=$folder/filler bs=4k 2>/dev/null || true
done
mount --bind site {site} && mount --bind checkout {checkout}
cd /proc
exec "$@"
"""


def test_the_operator_hosts_disk_is_full(site: Site) -> None:
    site.apply()
    site.revise("ground", "ground.conf.j2")
    before = site.state()
    within = ["unshare", "--mount", "sh", "-c", _FULL_TMP.format(site=site.folder, checkout=REPOSITORY), "sh"]
    done = site.run("apply", "--yes", within=within, env={"TMPDIR": "/tmp"})
    assert done.returncode == 1, done.stderr
    assert "No space left" in done.stderr or "No usable temporary directory" in done.stderr
    assert "Traceback" not in done.stderr
    assert site.state() == before
    site.apply()


_RUNS = "wc -l </var/lib/hpcforge/history.jsonl"


def test_no_room_for_the_operators_copy_of_the_history_is_said(site: Site, tmp_path: Path) -> None:
    """The history itself is on the head, so this costs nothing."""
    site.apply()
    line = site.revise("ground", "ground.conf.j2")
    runs = int(site.inside("n01", _RUNS))
    full = tmp_path / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(full)], check=True)
    try:
        (full / "filler").write_bytes(b"x" * 4096)
        done = site.run("apply", "--yes", env={"XDG_STATE_HOME": str(full)})
    finally:
        subprocess.run(["umount", str(full)], check=True)
    assert done.returncode == 0, done.stderr
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr
    assert line in site.inside("n02", "cat /etc/faults/ground.conf")
    assert int(site.inside("n01", _RUNS)) == runs + 1


def test_what_somebody_changed_by_hand_is_shown_before_it_is_mended(site: Site) -> None:
    site.apply()
    wanted = site.state()
    started = site.inside("n01", "systemctl show -P ExecMainStartTimestampMonotonic client relay")
    site.inside("n02", "echo 'by hand' >> /etc/faults/client.conf; systemctl stop client")
    planned = site.run("plan")
    assert planned.returncode == 2
    assert "-by hand" in planned.stdout
    assert "drifted" in planned.stdout
    assert "by hand" in site.inside("n02", "cat /etc/faults/client.conf"), "a plan changes nothing"
    done = site.apply()
    assert "1 node to change: n02" in done.stderr
    assert site.state() == wanted
    assert site.inside("n01", "systemctl show -P ExecMainStartTimestampMonotonic client relay") == started


def test_dpkgs_lock_is_waited_for_and_its_holder_named(site: Site) -> None:
    site.fresh()
    site.hold_dpkg("n02")
    run = site.start()
    held = run.until("progress", node="n02")
    while "lock" not in held["detail"]:
        held = run.until("progress", node="n02")
    assert "python3" in held["detail"]
    assert site.inside("n02", "dpkg-query -W -f '${Status}' tree 2>/dev/null || true") == ""
    site.release_dpkg("n02")
    assert run.end() == 0, run.said()
    assert site.run("plan").returncode == 0
