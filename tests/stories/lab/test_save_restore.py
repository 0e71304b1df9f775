"""Real nodes saved, broken and restored. The tests build on each other, in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hpcforge.lab import lab as labs
from hpcforge.lab import state
from hpcforge.lab.nspawn import disks, machines
from tests.stories.lab.conftest import NODES, Rehearsal

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]


def save(here: Rehearsal, name: str, *, replace: bool = False) -> None:
    here.said.clear()
    here.lab = labs.save(here.name, name, here.said.append, replace=replace)


def restore(here: Rehearsal, name: str, nodes: list[str] | None = None) -> None:
    here.said.clear()
    here.lab = labs.restore(here.name, name, here.said.append, nodes=nodes)


def root(here: Rehearsal, node: str, script: str) -> str:
    done = here.ssh(node, "sudo", "-n", "sh", "-c", script)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def states(here: Rehearsal) -> dict[str, str]:
    return {node.name: node.state for node in labs.status(here.name).nodes}


def kept(here: Rehearsal) -> set[tuple[str, int]]:
    """The disks that are there."""
    assert here.lab is not None
    found = here.lab.directory.glob("nodes/*/disks/*")
    return {(disk.parents[1].name, int(disk.name)) for disk in found}


def wanted(here: Rehearsal) -> set[tuple[str, int]]:
    lab = labs.load(here.name)
    assert lab is not None
    return state.wanted_disks(lab)


def test_a_broken_lab_is_what_it_was(rehearsal: Rehearsal) -> None:
    rehearsal.up()
    root(rehearsal, "head", "apt-get install -y -qq hello; mkdir /srv/x; chmod 750 /srv/x; echo one >/srv/x/f; sync")
    root(rehearsal, "w01", "rm -r /etc/sudoers.d/README; chmod 711 /; touch /etc/marked")
    ids = [root(rehearsal, node, "cat /etc/machine-id") for node in ("head", "w01")]
    keys = rehearsal.lab.known_hosts.read_text() if rehearsal.lab else ""
    save(rehearsal, "good")
    assert root(rehearsal, "head", "hello; cat /srv/x/f") == "Hello, world!\none\n"  # the save took nothing away
    assert (
        root(rehearsal, "w01", "stat -c %a /; ls /etc/sudoers.d /etc/marked")
        == "711\n/etc/marked\n\n/etc/sudoers.d:\nops\n"
    )

    root(rehearsal, "head", "rm -rf /etc/apt /srv/x /usr/bin/hello; mkdir /srv/x; echo two >/srv/x/other")
    root(rehearsal, "w01", "touch /etc/sudoers.d/README; chmod 755 /; rm -rf /var/lib/dpkg; rm /etc/ssh/ssh_host_*")
    restore(rehearsal, "good")
    assert states(rehearsal) == {"head": "running", "w01": "running"}
    assert root(rehearsal, "head", "hello; ls /srv/x; cat /srv/x/f; stat -c %a /srv/x; apt-get -qq check") == (
        "Hello, world!\nf\none\n750\n"
    )
    assert root(rehearsal, "w01", "stat -c %a /; ls /etc/sudoers.d /etc/marked; dpkg --audit").startswith("711\n")
    assert [root(rehearsal, node, "cat /etc/machine-id") for node in ("head", "w01")] == ids
    assert rehearsal.lab is not None
    assert rehearsal.lab.known_hosts.read_text() == keys
    for node in ("head", "w01"):
        assert rehearsal.ssh(node, "systemctl", "is-system-running", "--wait").stdout == "running\n"
    assert kept(rehearsal) == wanted(rehearsal)  # what was broken is gone


def test_a_save_is_not_changed_by_what_lies_on_it(rehearsal: Rehearsal) -> None:
    lab = rehearsal.lab
    assert lab is not None

    def listing() -> str:
        argv = ["find", *(str(lab.node_directory(node.name) / f"disks/{node.disks[0]}/upper") for node in good.nodes)]
        return subprocess.run(
            [*argv, "-printf", "%p %s %m %T@ %l\n"], capture_output=True, text=True, check=True
        ).stdout

    good = lab.save("good")
    before = listing()
    root(rehearsal, "head", "echo more >>/srv/x/f; rm -r /etc/apt; chmod 700 /srv")
    restore(rehearsal, "good")
    assert listing() == before
    assert root(rehearsal, "head", "cat /srv/x/f") == "one\n"


def test_a_save_of_that_name_is_replaced_only_if_one_says_so(rehearsal: Rehearsal) -> None:
    root(rehearsal, "head", "echo kept >/srv/kept")
    with pytest.raises(labs.LabError, match="has a save 'good' already"):
        save(rehearsal, "good")
    assert states(rehearsal) == {"head": "running", "w01": "running"}
    save(rehearsal, "good", replace=True)
    root(rehearsal, "head", "rm /srv/kept")
    restore(rehearsal, "good")
    assert root(rehearsal, "head", "cat /srv/kept /srv/x/f") == "kept\none\n"  # of both disks


def test_a_stopped_node_is_stopped_again_and_one_node_alone_is_restored(rehearsal: Rehearsal) -> None:
    rehearsal.down("w01")
    save(rehearsal, "w01-off")
    assert states(rehearsal) == {"head": "running", "w01": "stopped"}
    rehearsal.up()
    for node in ("head", "w01"):
        root(rehearsal, node, "touch /srv/new")
    restore(rehearsal, "good", ["w01"])
    assert root(rehearsal, "head", "ls /srv/new") == "/srv/new\n"
    assert rehearsal.ssh("w01", "ls", "/srv/new").returncode != 0
    restore(rehearsal, "w01-off")
    assert states(rehearsal) == {"head": "running", "w01": "stopped"}
    assert rehearsal.ssh("head", "ls", "/srv/new").returncode != 0


def test_a_node_that_came_later_goes_and_comes_back(rehearsal: Rehearsal) -> None:
    rehearsal.up((*NODES, labs.LabNode("w02", "10.77.0.12")))
    root(rehearsal, "w02", "touch /srv/of-w02")
    save(rehearsal, "grown")
    restore(rehearsal, "good")
    assert "w02: is not in save good, and was removed" in rehearsal.said
    assert states(rehearsal) == {"head": "running", "w01": "running"}
    assert rehearsal.lab is not None
    assert "w02" not in rehearsal.lab.known_hosts.read_text() + rehearsal.lab.inventory.read_text()
    rehearsal.up((*NODES, labs.LabNode("w02", "10.77.0.12")))  # another machine of that name
    assert rehearsal.ssh("w02", "ls", "/srv/of-w02").returncode != 0
    restore(rehearsal, "grown")
    assert root(rehearsal, "w02", "ls /srv") == "of-w02\n"
    assert kept(rehearsal) == wanted(rehearsal)


def test_a_new_disk_leaves_the_save_its_own(rehearsal: Rehearsal) -> None:
    assert rehearsal.lab is not None
    key = disks.host_key(rehearsal.lab, rehearsal.lab.node("w02"))
    labs.down(rehearsal.name, ["w02"], rehearsal.said.append, disks_too=True)
    with pytest.raises(labs.LabError, match="w02 was never started"):
        save(rehearsal, "without")
    lab = rehearsal.up((*NODES, labs.LabNode("w02", "10.77.0.12")))
    assert disks.host_key(lab, lab.node("w02")) != key
    assert rehearsal.ssh("w02", "ls", "/srv/of-w02").returncode != 0
    restore(rehearsal, "grown")
    assert rehearsal.lab is not None
    assert disks.host_key(rehearsal.lab, rehearsal.lab.node("w02")) == key
    assert root(rehearsal, "w02", "ls /srv") == "of-w02\n"


def test_what_is_forgotten_goes_and_what_others_lie_on_stays(rehearsal: Rehearsal) -> None:
    status = {save.name: save for save in labs.status(rehearsal.name).saves}
    assert set(status) == {"good", "w01-off", "grown"}
    assert status["grown"].nodes == ("head", "w01", "w02")
    assert (status["w01-off"].running, status["good"].size_mib >= 1) == (("head",), True)
    labs.forget(rehearsal.name, "grown", rehearsal.said.append)  # the nodes lie on it
    assert "some of its disks stay" in rehearsal.said[-1]
    assert root(rehearsal, "w02", "ls /srv") == "of-w02\n"
    assert kept(rehearsal) == wanted(rehearsal)
    before = len(kept(rehearsal))
    restore(rehearsal, "good")
    assert len(kept(rehearsal)) < before
    labs.forget(rehearsal.name, "w01-off", rehearsal.said.append)
    with pytest.raises(labs.LabError, match=r"no save 'grown' \(there are: good\)"):
        restore(rehearsal, "grown")
    assert root(rehearsal, "head", "cat /srv/kept") == "kept\n"
    assert kept(rehearsal) == wanted(rehearsal)


# Runs what stands last on its command line, and is killed right after the so-manieth thing that it has done.
_CUT_OFF = """
import os, signal, sys
from hpcforge.lab import nspawn, state
from hpcforge.lab import lab as labs
from hpcforge.lab.nspawn import disks, machines

count = 0

def counted(module, name):
    work = getattr(module, name)
    def then_killed(*arguments, **options):
        global count
        done = work(*arguments, **options)
        count += 1
        if count == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)
        return done
    setattr(module, name, then_killed)

counted(state, "save")
for name in ("stop", "written", "start", "remove_other_disks"):
    counted(nspawn, name)
counted(machines, "stop")  # of its own accord
counted(disks, "written")
eval(sys.argv[2])
"""


def cut_off(here: Rehearsal, after: int, work: str) -> bool:
    """Whether it was killed before it came to its end."""
    done = subprocess.run(
        [sys.executable, "-c", _CUT_OFF, str(after), f"labs.{work}"], capture_output=True, check=False
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


def test_a_save_cut_off_anywhere_is_run_again(rehearsal: Rehearsal) -> None:
    rehearsal.down("w01")
    after = 1
    while cut_off(rehearsal, after, f"save({rehearsal.name!r}, 'cut-{after}', print)"):
        lab = labs.load(rehearsal.name)
        assert lab is not None
        save(rehearsal, f"cut-{after}", replace=lab.under_way is None)  # none: it was killed when all was done
        assert states(rehearsal) == {"head": "running", "w01": "stopped"}, after
        lab = labs.load(rehearsal.name)
        assert lab is not None
        assert lab.under_way is None
        assert lab.save(f"cut-{after}").running == ("head",), after
        assert root(rehearsal, "head", "cat /srv/kept") == "kept\n", after
        assert kept(rehearsal) - wanted(rehearsal) == set(), after
        after += 1
    assert after > 9, "was anything killed?"


def test_a_restore_cut_off_anywhere_is_run_again(rehearsal: Rehearsal) -> None:
    after = 1
    root(rehearsal, "head", "rm /srv/kept")
    while cut_off(rehearsal, after, f"restore({rehearsal.name!r}, 'cut-1', print)"):
        restore(rehearsal, "cut-1")
        assert states(rehearsal) == {"head": "running", "w01": "stopped"}, after
        assert root(rehearsal, "head", "cat /srv/kept; rm /srv/kept") == "kept\n", after
        assert kept(rehearsal) - wanted(rehearsal) == set(), after
        after += 1
    assert after > 5, "was anything killed?"


def test_up_starts_what_a_save_that_was_cut_off_has_stopped(rehearsal: Rehearsal) -> None:
    assert cut_off(rehearsal, 3, f"save({rehearsal.name!r}, 'half', print)")
    assert states(rehearsal)["head"] == "stopped"
    lab = rehearsal.up()
    assert lab.under_way is None
    assert states(rehearsal)["head"] == "running"


def test_as_many_disks_as_a_lab_may_have_fit_into_a_mount(rehearsal: Rehearsal) -> None:
    rehearsal.down("head", "w01")
    lab = labs.load(rehearsal.name)
    assert lab is not None
    while max(len(node.disks) for node in lab.nodes) < state.MOST_DISKS:
        for node in lab.nodes:
            disks.written(lab, node)
        lab = state.ended(state.saved(lab, "deep", saved_s=0.0, running=()))
    state.save(lab)
    with pytest.raises(labs.LabError, match=r"already uses the disks of 99 saves, the highest number"):
        save(rehearsal, "deeper")
    rehearsal.up()
    root(rehearsal, "head", "touch /srv/here && hello")


def test_down_removes_all_whatever_was_cut_off(rehearsal: Rehearsal) -> None:
    assert cut_off(rehearsal, 3, f"restore({rehearsal.name!r}, 'good', print)")
    rehearsal.down()
    assert rehearsal.left() == []
    assert labs.load(rehearsal.name) is None


def test_a_node_that_does_not_power_off_is_killed_and_that_is_said(
    rehearsal: Rehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "_POWER_OFF_S", 1)
    rehearsal.up((labs.LabNode("head"),))
    unit = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=true\nExecStop=sleep 60\n"
    root(rehearsal, "head", f"printf '{unit}' >/run/systemd/system/slow.service; systemctl start slow")
    save(rehearsal, "slow")
    assert any("head: did not power off, and was killed after" in line for line in rehearsal.said)
    assert Path(f"/proc/{machines._init(rehearsal.lab.machine('head'))}").exists() if rehearsal.lab else False
    rehearsal.down()
