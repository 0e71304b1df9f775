"""The first day of an ordinary user: containers by three runtimes, MPI over two nodes, two versions of a module.

Everything of the user's comes in through Slurm: a command that is brought into a node from the host is outside what
holds the node's own processes, and succeeds where a job fails.
"""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.site import Site

pytestmark = pytest.mark.lab

BLUEPRINT = """
schema: 1
name: jobs
domain: jobs.example.org
inventory: {lab: nspawn}
access: {user: ops}
nodes:
  head: {functions: [head], hardware: rehearsal-node, addresses: 10.78.0.10}
  w[01-02]: {functions: [worker], hardware: rehearsal-node, gpus: {model: fake, count: 2}, addresses: "10.78.0.[11-12]"}
networks: {mgmt: {cidr: 10.78.0.0/23}}
services: {dns: {on: head}, time: {on: head}}
software:
  os: {name: debian, release: "12"}
  containers: {runtimes: [podman, charliecloud, oci]}
role_folders: [roles]
roles:
  podman: {shared_images: [/srv/images]}
  openmpi: {enabled: true, compilers: false}
  lmod: {enabled: true, defaults: [tool/1.0]}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: []
  partitions: {main: {nodes: all, default: true}}
users: {ada: {uid: 2001}, tests: {uid: 2003}}
acceptance:
  run_as: tests
  tests: {containers: {nodes: all}, mpi_allreduce: {nodes: all}, mpi_threads: {nodes: all}}
"""
TOOLS = """
description: Two versions of a tool, and another one that replaces it.
on: "'worker' in node.functions"
needs: [base]
contributes:
  modules:
    - {name: tool, version: "1.0", source: tool.lua}
    - {name: tool, version: "2.0", source: tool.lua}
    - {name: other, version: "1.0", source: other.lua}
"""
MODULES = {"tool.lua": 'setenv("TOOL", myModuleVersion())\nfamily("tool")\n', "other.lua": 'family("tool")\n'}
# An image from what is on the node, as the smoke test makes one: no registry is asked.
IMAGE = """\
rm -rf work && mkdir work && PYTHONPATH=/opt/hpcforge/smoke_tests python3 -c '
from pathlib import Path
import containers
containers.make_image(Path("work").absolute())' && tar -C work/image -cf work/image.tar .\
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("jobs")
    role = folder / "blueprints" / "roles" / "tools"
    role.mkdir(parents=True)
    (role / "role.yaml").write_text(TOOLS)
    for name, text in MODULES.items():
        (role / name).write_text(text)
    with applied(folder, "jobs", BLUEPRINT) as here:
        yield here


@contextmanager
def applied(folder: Path, name: str, blueprint: str) -> Iterator[Site]:
    """A rehearsal of a blueprint, applied."""
    (folder / "blueprints" / "rehearsal.yaml").write_text(blueprint)
    here = Site(folder, f"test-{name}-{os.getpid()}")
    try:
        assert here.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        assert here.cli("apply", "BLUEPRINT", "--yes").returncode == 0  # its smoke tests have passed, too
        yield here
    finally:
        here.cli("rehearse", "down")


def tried(site: Site, script: str, *options: str, user: str = "ada") -> tuple[int, str]:
    """Exit status and output of a script that a user runs by srun, on the first worker unless options name another."""
    home = "/tmp" if user == "dora" else f"/home/{user}"
    words = ["srun", "--quiet", f"--chdir={home}", *(options or ("--nodelist=w01",)), "--", "bash", "-c", script]
    quoted = shlex.join(["sudo", "-Hu", user, *words])
    done = site.ssh("head", f"cd /; {quoted} 2>&1; code=$?; echo; echo $code").rstrip().splitlines()
    return int(done[-1]), "\n".join(done[:-1]).strip()


def job(site: Site, script: str, *options: str, user: str = "ada") -> str:
    """What such a script prints; it must succeed."""
    code, said = tried(site, script, *options, user=user)
    assert code == 0, said
    return said


def slurm_is_up(site: Site) -> None:
    site.becomes("head", "sinfo -hN -o %T | sort -u", "idle\n")
    assert job(site, "hostname") == "w01"


def test_nothing_is_left_to_do(site: Site) -> None:
    assert "Nothing to do on 3 nodes" in site.cli("apply", "BLUEPRINT", "--yes").stderr


def test_podman_with_one_gpu(site: Site) -> None:
    job(site, f"{IMAGE} && podman import -q work/image.tar tiny")
    assert job(site, "podman run --rm --network=host tiny id -u") == "0"
    assert job(site, "podman info -f '{{.Store.GraphDriverName}} {{.Store.GraphRoot}}'") == (
        "overlay /var/lib/hpcforge-containers/2001"
    )
    device = "podman run --rm --network=none --device=nvidia.com/gpu=$SLURM_STEP_GPUS tiny ls /dev"
    seen = job(site, f"echo $SLURM_STEP_GPUS; {device}", "--nodelist=w01", "--gpus=1").split()
    assert [name for name in seen if name.startswith("fakegpu")] == [f"fakegpu{seen[0]}"]
    code, said = tried(site, "podman run --rm --device=nvidia.com/gpu=7 tiny id")
    assert (code != 0, "unresolvable CDI devices nvidia.com/gpu=7" in said) == (True, True)


def test_a_user_of_a_directory_has_numbers_too(site: Site) -> None:
    """Accounts of a directory have no line in /etc/subuid: here one that no program of the node's made."""
    for node in ("head", "w01", "w02"):
        site.ssh(node, "echo dora:x:5001:5001::/tmp:/bin/bash | sudo tee -a /etc/passwd > /dev/null")
        site.ssh(node, "echo dora:x:5001: | sudo tee -a /etc/group > /dev/null")
    image = f"cd $(mktemp -d); {IMAGE}"
    script = f"{image} && podman import -q work/image.tar tiny >&2 && podman run --rm --network=host tiny id -u"
    assert job(site, script, user="dora").splitlines()[-1] == "0"
    ranges = site.ssh("w01", "cat /etc/subuid").splitlines()
    firsts = sorted(int(line.split(":")[1]) for line in ranges)
    assert ranges[-1].startswith("5001:")
    assert all(later - first >= 65536 for first, later in itertools.pairwise(firsts))


def test_shared_images_are_run_by_everyone_and_changed_by_nobody(site: Site) -> None:
    store = "sudo podman --root /srv/images --storage-driver overlay"
    site.ssh("w01", f"sudo cp ~ada/work/image.tar /srv/image.tar && {store} import -q /srv/image.tar shared >&2")
    site.ssh("w01", "sudo chmod -R a+rX /srv/images")
    assert job(site, "podman run --rm --network=none localhost/shared id -u") == "0"
    code, _ = tried(
        site, "podman rmi localhost/shared && podman run --rm localhost/shared id || touch /srv/images/mine"
    )
    assert code != 0


def test_charliecloud_from_a_folder_and_a_file(site: Site) -> None:
    assert job(site, "ch-run work/image -- /bin/id -u") == "2001"
    job(site, "mksquashfs work/image work/image.sqfs -quiet -no-progress")
    assert job(site, "ch-run work/image.sqfs -- /bin/id -u") == "2001"


def test_a_container_of_slurm(site: Site) -> None:
    job(site, "mkdir work/bundle && cp -a work/image work/bundle/rootfs && cd work/bundle && crun spec --rootless")
    container = "srun --nodelist=w01 --container=/home/ada/work/bundle /bin/id -u"
    assert site.ssh("head", f"cd /; sudo -iu ada {container}").strip() == "0"


def test_mpi_over_two_nodes_is_one_program(site: Site) -> None:
    program = "from mpi4py import MPI; c = MPI.COMM_WORLD; print(c.allreduce(c.rank + 1), c.size)"
    assert job(site, f"python3 -c {shlex.quote(program)}", "-N2", "-n2").splitlines() == ["3 2", "3 2"]


def test_two_versions_of_a_module_in_a_batch_script(site: Site) -> None:
    script = "#!/bin/bash\nmodule load tool; echo $TOOL; module load tool/2.0 2>/dev/null; echo $TOOL\n"
    script += "module load other 2>/dev/null; echo ${TOOL:-none}; module load openmpi && module -t list 2>&1\n"
    options = "--nodelist=w01 --wait --output=/home/ada/module.out"
    site.ssh("head", f"cd /; printf %s {shlex.quote(script)} | sudo -iu ada sbatch {options}")
    assert job(site, "cat module.out").splitlines() == ["1.0", "2.0", "none", "other/1.0", "openmpi/debian-12"]
    assert job(site, "module load nosuch 2>&1 | grep -o 'module(s) are unknown'") == "module(s) are unknown"


WRONG = {
    "podman run --rm --pull=never localhost/nosuch id": "localhost/nosuch",
    "podman run --rm --network=none tiny nosuch": "nosuch",
    "echo none > none.tar; podman load -i none.tar": "none.tar",
    "ch-run work/nosuch -- /bin/id": "nosuch",
    "ch-run work/image -- /bin/nosuch": "can't execve(2): /bin/nosuch: No such file or directory",
    "echo none > none.sqfs; ch-run none.sqfs -- /bin/id": "none.sqfs",
    "apptainer exec image.sif id": "apptainer: command not found",
}


def test_what_is_not_there_is_named_and_slurm_stays_up(site: Site) -> None:
    for script, words in WRONG.items():
        code, said = tried(site, script)
        assert (code != 0, words in said) == (True, True), said
    with pytest.raises(AssertionError, match=r"Task launch for .* failed on node w01: No such file"):
        site.ssh("head", "cd /; sudo -iu ada srun --nodelist=w01 --container=/home/ada/nosuch /bin/id")
    slurm_is_up(site)


def test_a_full_store_is_named_and_slurm_stays_up(site: Site) -> None:
    store = "/var/lib/hpcforge-containers/2003"
    site.ssh("w01", f"sudo mount -t tmpfs -o size=1m,uid=2003,gid=2003,mode=0700 tmpfs {store}")
    try:
        image = f"cd $(mktemp -d); {IMAGE}"
        code, said = tried(site, f"{image} && podman import -q work/image.tar tiny", user="tests")
        assert (code != 0, "no space left on device" in said) == (True, True), said
    finally:
        site.ssh("w01", f"sudo umount {store}")
    slurm_is_up(site)
