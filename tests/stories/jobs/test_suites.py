"""Public suites on three nodes, as an ordinary user: OSU, mpi4py's tests, Slurm's own tests, ReFrame's detection.

On demand, never in CI: `make test-suites SUITES=FOLDER`. Their sources are fetched by hand (tests/support/suites.py).
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcforge.lab.names import lab_directory
from hpcforge.rehearsal.lab_facts import SHARED_FOLDER as SHARED
from tests.support import suites
from tests.support.site import Site

pytestmark = [pytest.mark.lab, pytest.mark.suites]

BLUEPRINT = """
schema: 1
name: suites
domain: suites.example.org
inventory: {lab: nspawn}
access: {user: ops}
nodes:
  head: {functions: [head], hardware: rehearsal-node, addresses: 10.78.4.10}
  w[01-02]: {functions: [worker], hardware: rehearsal-node, gpus: {model: fake, count: 2}, addresses: "10.78.4.[11-12]"}
networks: {mgmt: {cidr: 10.78.4.0/23}}
services: {dns: {on: head}, time: {on: head}, accounting: {on: head}}
software: {os: {name: debian, release: "12"}}
role_folders: [roles]
roles: {openmpi: {enabled: true}}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: []
  partitions: {main: {nodes: all, default: true}}
  accounts: {people: {users: {ada: {}, tests: {}}}}
users: {ada: {uid: 2001}, tests: {uid: 2003}}
acceptance:
  run_as: tests
  tests: {mpi_allreduce: {nodes: all}}
"""
ROLE = """
description: What the suites need.
on: 'true'
needs: [base]
packages: [expect, file, libslurm-dev, python3-distutils]
"""
USER = "ada"
TEST_S = 300  # for one program of OSU, or one test of Slurm's
MPI4PY_S = 1500  # for its whole suite
# No autotools: the generated files of the repository are newer or older than their sources by chance.
BUILD_OSU = "./configure --quiet CC=mpicc CXX=mpicxx && make -s -C mpi ACLOCAL=: AUTOCONF=: AUTOMAKE=: AUTOHEADER=:"
# Slurm's tests look for a few programs elsewhere.
SLURM_LOCAL = 'set slurm_dir "/usr"\nset mpicc "/usr/bin/mpicc"\nset testsuite_colorize false\n'


@pytest.fixture(scope="module")
def sources(request: pytest.FixtureRequest) -> Path:
    folder: Path | None = request.config.getoption("--suite-sources")
    if needed := suites.sources_needed(folder):
        where = f"{folder} has not all sources" if folder else "--suite-sources FOLDER names none (make: SUITES=FOLDER)"
        pytest.exit("\n".join((f"{where}; in that folder:", *needed)), returncode=2)
    assert folder is not None
    return folder


@pytest.fixture(scope="module")
def site(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("suites")
    role = folder / "blueprints" / "roles" / "suites"
    role.mkdir(parents=True)
    (role / "role.yaml").write_text(ROLE)
    (folder / "blueprints" / "rehearsal.yaml").write_text(BLUEPRINT)
    here = Site(folder, f"test-suites-{os.getpid()}")
    try:
        assert here.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        assert here.cli("apply", "BLUEPRINT", "--yes").returncode == 0
        bring(here, sources)
        yield here
    finally:
        here.cli("rehearse", "down")


def bring(site: Site, sources: Path) -> None:
    """Copy the sources to the storage that all nodes share, as the user's own."""
    shared = lab_directory(site.lab) / "shared"
    for name in suites.SOURCES:
        shutil.copytree(sources / name, shared / name, ignore=shutil.ignore_patterns(".git"), symlinks=True)
        subprocess.run(["chown", "-R", site.ssh("head", f"id -u {USER}").strip(), str(shared / name)], check=True)


def as_user(site: Site, script: str) -> str:
    return site.ssh("head", suites.user_script(USER, script))


def test_osu_over_two_nodes(site: Site) -> None:
    built = as_user(site, f"cd {SHARED}/osu && {BUILD_OSU} && find mpi -type f -perm -u+x -name 'osu_*' | sort")
    programs = [line for line in built.splitlines() if line.startswith("mpi/")]
    kinds = {Path(name).parts[1] for name in programs}
    assert (suites.status_of(built), kinds >= {"pt2pt", "collective", "one-sided"}) == (0, True), built
    failed = []
    for program in programs:
        few = "" if program.startswith("mpi/startup") else "-i 3 -x 1"
        run = as_user(site, f"cd {SHARED}/osu && timeout {TEST_S} srun -N2 -n2 --mpi=pmix {program} {few}")
        failed += [f"{program}:\n{run}"] if suites.status_of(run) else []
    print(f"OSU: {len(programs) - len(failed)} of {len(programs)}")
    assert failed == []


# Windows of memory that two nodes share; and in OpenMPI 4.1 windows between nodes of programs with MPI_THREAD_MULTIPLE.
REFUSED = {"TestWinAllocateSharedWorld", "TestWinAllocateWorld"}


def test_mpi4py_over_two_nodes(site: Site) -> None:
    # The suite of Debian's mpi4py. Slurm starts no further ranks for a program, as spawn and dynproc ask.
    # Its files are opened by both ranks: in /tmp, which nodes have each for themselves, that waits for ever.
    run = f"TMPDIR={SHARED}/mpi4py timeout {MPI4PY_S} srun -N2 -n2 --mpi=pmix python3 runtests.py -e spawn -e dynproc"
    output = as_user(site, f"cd {SHARED}/mpi4py/test && {run}")
    passed, failed = suites.unittest_results(output)
    print(f"mpi4py: {passed} tests passed, {len(failed)} failed")
    assert (passed >= 968, {name.split(".")[1] for name in failed} <= REFUSED) == (True, True), output


def test_reframe_detects_the_topology_of_a_worker(site: Site) -> None:
    script = f"PYTHONPATH={SHARED}/reframe srun -w w01 python3 {SHARED}/reframe/bin/reframe --detect-host-topology"
    output = as_user(site, script)
    assert suites.status_of(output) == 0, output
    topology = json.loads(output[output.index("{") : output.rindex("}") + 1])
    assert topology["num_cpus"] >= 1


def test_slurms_own_tests(site: Site, sources: Path) -> None:
    expected, expect = suites.read_expected(), "testsuite/expect"
    # Else nearly all of family 21 is skipped.
    site.ssh("head", f"sudo sacctmgr -i modify user where name={USER} set adminlevel=administrator")
    as_user(site, f"cd {SHARED}/slurm/{expect} && printf %s {shlex.quote(SLURM_LOCAL)} > globals.local")
    as_user(site, f"touch {SHARED}/slurm/config.h")  # of the build; two tests compile with it
    results = {}
    for test in suites.slurm_tests(sources / "slurm" / expect, expected.families):
        site.becomes("head", "sinfo -hN -o %T | sort -u", "idle\n")  # else a test is skipped
        run = f"cd {SHARED}/slurm/{expect} && timeout -k 15 {TEST_S} ./test{test} > {SHARED}/slurm/{test}.log 2>&1"
        why = f"[ $code -eq 0 ] || grep -E '] (Fatal|Error|Warning)' {SHARED}/slurm/{test}.log | tail -n 4"
        output = as_user(site, f"{run}; code=$?; scancel --me; {why}; exit $code")
        results[test] = suites.status_of(output)
        print(f"test{test}: {output}", flush=True)
    print("\n".join(suites.table(results, expected)))
    assert suites.unexpected(results, expected) == []
