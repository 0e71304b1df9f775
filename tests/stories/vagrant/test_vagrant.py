"""Machines that Vagrant starts, from who types it and from hpcforge, and nothing left: `make test-vagrant`."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcforge.lab import lab as labs
from hpcforge.host import processes
from hpcforge.lab.vagrant import machines
from tests.support.vm_rehearsal import REPOSITORY, Rehearsal, blueprint, environment, took, with_image

pytestmark = pytest.mark.vagrant

NODES = ("head", "w01", "w02")
NAME = f"test-vagrant-{os.getpid()}"
BLUEPRINT = blueprint(
    "machines",
    """\
inventory: {lab: vagrant}
nodes:
  head: {functions: [head],   hardware: rehearsal-node, addresses: 10.77.0.10}
  w[01-02]: {functions: [worker], hardware: rehearsal-node, gpus: {model: fake, count: 2}, addresses: "10.77.0.[11-12]"}
slurm:
  enforce: []
  partitions:
    main: {nodes: "w[01-02]", default: true}
users:
  ada: {uid: 2001}
""",
)


class Typed:
    """Vagrant, as somebody types it in `vagrant/`, who keeps what it knows somewhere else."""

    def __init__(self, rehearsal: Rehearsal, state: Path) -> None:
        self.rehearsal, self.state = rehearsal, state

    def __call__(self, *words: str, expect: int = 0) -> str:
        began = time.monotonic()
        done = subprocess.run(
            ["vagrant", *words],
            cwd=REPOSITORY / "vagrant",
            env={
                **environment(),
                "HPCFORGE_BLUEPRINT": str(self.rehearsal.blueprint),
                "HPCFORGE_LAB": NAME,
                "VAGRANT_DOTFILE_PATH": str(self.state),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        took(began, "vagrant", *words[:2])
        assert done.returncode == expect, done.stderr + done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """A blueprint with an image, and no machine; none is left when this ends."""
    os.environ.setdefault("HPCFORGE_VAGRANT_DRIVER", "qemu")  # there are hosts on which KVM opens, and boots nothing
    with with_image(NAME, tmp_path_factory.mktemp("site"), BLUEPRINT) as one:
        yield one


@pytest.fixture(scope="module")
def vagrant(rehearsal: Rehearsal, tmp_path_factory: pytest.TempPathFactory) -> Typed:
    return Typed(rehearsal, tmp_path_factory.mktemp("state"))


def domains() -> list[str]:
    """The machines of libvirt's that run, by their processes."""
    return sorted(machines.domain_in(processes.arguments(pid)) for pid in processes.find(_is_domain))


def _is_domain(argv: list[str]) -> bool:
    return bool(machines.domain_in(argv))


def test_who_knows_vagrant_has_the_machines_up(vagrant: Typed) -> None:
    assert "validated successfully" in vagrant("validate")
    vagrant("up")
    lab = labs.load(NAME)
    assert lab is not None
    assert domains() == [f"{lab.tag}-head", f"{lab.tag}-w01", f"{lab.tag}-w02"]
    assert vagrant("status").count("running (libvirt)") == 3
    assert vagrant("ssh", "w01", "-c", "hostname").strip() == "w01"


def test_they_are_machines_of_the_image_with_an_identity_of_their_own(rehearsal: Rehearsal) -> None:
    ids = {rehearsal.on(node, "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub") for node in NODES}
    assert len({line for text in ids for line in text.splitlines()}) == 2 * len(NODES)
    assert "default" not in rehearsal.on("w01", "/sbin/ip route")  # no way out but the lab's proxy
    assert "linux-image-cloud-amd64" in rehearsal.on("w01", "dpkg --get-selections 'linux-image-*'")
    assert int(rehearsal.on("w01", "df --output=size / | tail -n 1")) > 18 << 20


def test_a_plan_reads_them_like_any_node(rehearsal: Rehearsal) -> None:
    assert "3 nodes to change: head,w[01-02]." in rehearsal.run("plan", rehearsal.blueprint, expect=2)


def test_saves_are_refused_and_nothing_is_stopped(rehearsal: Rehearsal) -> None:
    rehearsal.run("rehearse", "save", rehearsal.blueprint, "one", expect=1)
    assert len(domains()) == 3


def test_a_machine_that_was_halted_is_the_same_again(vagrant: Typed, rehearsal: Rehearsal) -> None:
    before = rehearsal.on("w01", "cat /etc/machine-id")
    vagrant("halt", "w01")
    assert "w01" in rehearsal.run("rehearse", "status", rehearsal.blueprint)
    assert len(domains()) == 2
    rehearsal.run("rehearse", "up", rehearsal.blueprint)  # hpcforge starts what somebody has halted by hand
    assert rehearsal.on("w01", "cat /etc/machine-id") == before


def test_vagrant_destroys_them(vagrant: Typed) -> None:
    vagrant("destroy", "-f")
    assert domains() == []
    assert "not created" in vagrant("status")


def test_hpcforge_has_vagrant_make_them_anew(rehearsal: Rehearsal) -> None:
    rehearsal.run("rehearse", "up", "--on", "vagrant", rehearsal.blueprint)
    assert len(domains()) == 3
    assert rehearsal.on("head", "hostname") == "head\n"


def test_an_apply_makes_a_cluster_of_them(rehearsal: Rehearsal) -> None:
    rehearsal.run("apply", rehearsal.blueprint, "--yes")
    assert "Nothing to do on 3 nodes" in rehearsal.run("plan", rehearsal.blueprint)


def test_a_job_runs_on_both_workers(rehearsal: Rehearsal) -> None:
    lines = rehearsal.user("ada", "srun", "-N2", "--mem=200M", "--gpus-per-node=2", "hostname").splitlines()
    assert sorted(lines) == ["w01", "w02"]


def test_nothing_is_left_behind(rehearsal: Rehearsal) -> None:
    lab = labs.load(NAME)
    assert lab is not None
    rehearsal.run("rehearse", "down", rehearsal.blueprint)
    assert domains() == []
    for place in ("/sys/class/net", "/run/hpcforge", "/var/lib/libvirt/images", "/etc/libvirt/qemu"):
        assert [path.name for path in Path(place).iterdir() if lab.tag in path.name] == []
    boxes = Path(os.environ.get("VAGRANT_HOME", Path.home() / ".vagrant.d"), "boxes")
    assert [path.name for path in boxes.glob("*") if lab.tag in path.name] == []
    assert not Path("/var/lib/libvirt/hpcforge", lab.tag).exists()
    assert not Path("/etc/libvirt/qemu/networks/hpcforge.xml").exists()  # nobody else has machines here
    assert not lab.directory.exists()
    assert not list(Path("/run/hpcforge").glob("*-is-ours"))  # daemons that hpcforge started have ended
