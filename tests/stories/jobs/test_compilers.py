"""What users compile and bring along: CUDA without a GPU, MPI, and an image that comes from no registry.

The CUDA toolkit is Debian's: 1.6 GB are fetched, so this runs on demand.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.real_site import Rehearsal, configured

pytestmark = [pytest.mark.lab, pytest.mark.nvidia]

BLUEPRINT = """\
schema: 1
name: compilers
domain: compilers.example.org
access: {user: ops, become: sudo}
nodes:
  head: {functions: [head, login], hardware: plain, addresses: 10.79.1.10}
  g01: {functions: [worker], hardware: plain, gpus: {model: l40s, count: 2}, addresses: 10.79.1.11}
  w02: {functions: [worker], hardware: plain, addresses: 10.79.1.12}
hardware: {plain: {memory_gib: 64, sockets: 2, cores_per_socket: 16, threads_per_core: 2}}
networks: {cluster: {cidr: 10.79.1.0/24}}
services: {dns: {on: head}, time: {on: head}, accounting: {on: head}}
software:
  os: {name: debian, release: "12"}
  nvidia: {driver: "535.261.03", modules: open, cuda: ["11.8"]}
  containers: {runtimes: [charliecloud]}
roles: {lmod: {enabled: true}, openmpi: {enabled: true}}
slurm:
  controller: head
  partitions: {main: {nodes: all, default: true}}
  accounts: {research: {users: {ada: {}}}}
users: {ada: {uid: 2001}}
acceptance: {run_as: ada, tests: {mpi_allreduce: {nodes: all}}}
"""
PROGRAM = """\
#include <cstdio>
__global__ void add(int *a) { a[threadIdx.x] += 1; }
int main() { int n = 0; cudaError_t e = cudaGetDeviceCount(&n); std::printf("%d %s\\n", n, cudaGetErrorName(e)); }
"""
ADDS = "from mpi4py import MPI; c = MPI.COMM_WORLD; print(c.allreduce(c.rank + 1), c.size)"
# As docs/jobs.md has it.
IMAGE = "mmdebstrap --variant=minbase --skip=output/dev --include=python3-mpi4py,openmpi-bin bookworm"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    folder = tmp_path_factory.mktemp("compilers")
    (folder / "site.yaml").write_text(BLUEPRINT)
    with configured(folder, "compilers", folder / "site.yaml", "g01,w02") as here:
        yield here


def as_user(site: Rehearsal, options: str, command: str) -> str:
    """What a command of an ordinary user prints in a job."""
    return site.inside("head", f"cd /; sudo -Hu ada srun --chdir=/home/ada {options} {command} 2>&1")


def test_a_job_compiles_with_the_toolkit_that_its_module_names(site: Rehearsal) -> None:
    site.inside("g01", f"printf '%s' '{PROGRAM}' | sudo -u ada tee /home/ada/add.cu")
    job = "module load cuda; module list; echo $CUDA_HOME; nvcc --version; nvcc -o add add.cu; ./add"
    said = as_user(site, "-w g01", f"bash -c '{job}'")
    assert "cuda/11.8" in said and "\n/usr\n" in said and "release 11.8" in said
    assert said.splitlines()[-1] in ("0 cudaErrorNoDevice", "0 cudaErrorInsufficientDriver")
    assert "sm_" in site.inside("g01", "cuobjdump --list-elf /home/ada/add")
    assert "nvidia-cuda-toolkit\n" in site.inside("g01", "apt-mark showhold")


def test_the_tests_of_a_member_of_a_group_run_for_no_group(site: Rehearsal) -> None:
    site.cli("verify", str(site.folder / "site.yaml"))
    as_user(site, "-w g01", "true")
    ran = "sudo sacct -nPX -a -S now-1hours -o jobname,account | sort -u"
    site.becomes("head", ran, "bash|research\nhpcforge-mpi_allreduce|hpcforge_tests\ntrue|research\n")
    assert "Nothing to do on 3 nodes." in site.cli("apply", str(site.folder / "site.yaml"), "--yes")


def test_mpi4py_runs_on_nodes_and_in_an_image_that_is_a_file(site: Rehearsal, tmp_path: Path) -> None:
    assert as_user(site, "-N2 -n2", f"python3 -c '{ADDS}'").split("\n")[-3:] == ["3 2", "3 2", ""]
    image = tmp_path / "image.tar"
    subprocess.run([*IMAGE.split(), str(image)], check=True, capture_output=True)
    for node in ("g01", "w02"):
        with image.open("rb") as file:
            words = [sys.executable, "-m", "hpcforge", "rehearse", "ssh", node, "--lab", site.lab, "--"]
            subprocess.run([*words, "sudo -u ada tee /home/ada/image.tar > /dev/null"], stdin=file, check=True)
    as_user(site, "-N2", "bash -c 'mkdir -p image/dev && tar -C image -xf image.tar'")
    said = as_user(site, "-N2 -n2", f"env PMIX_MCA_gds=hash ch-run image -- python3 -c '{ADDS}'")
    assert said.split("\n")[-3:] == ["3 2", "3 2", ""]
