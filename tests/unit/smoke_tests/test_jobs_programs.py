"""The programs of MPI, HPL and containers: what they compute and judge. tests/stories/jobs runs them whole."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROGRAMS = Path(__file__).parents[3] / "smoke_tests"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PROGRAMS / name / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("ranks", [1, 2, 7])
def test_the_expected_sum_is_that_of_the_contributions(ranks: int) -> None:
    program = load("mpi_allreduce")
    parts = [program.contribution(rank) for rank in range(ranks)]
    assert list(program.expected(ranks)) == [sum(column) for column in zip(*parts, strict=True)]


# As opal/mca/mca.h of OpenMPI 4.1 and 5.0 has it; cm carries messages by an mtl, here libfabric's.
OPENMPI = """
struct component { int v[3]; char project[16]; int p[3]; char type[32]; int t[3]; char name[64]; long rest[9]; };
struct component mca_pml_base_selected_component = {{2, 1, 0}, "ompi", {4, 1, 4}, "%s", {2, 0, 0}, "%s", {7}};
static struct component mtl = {{2, 1, 0}, "ompi", {4, 1, 4}, "mtl", {2, 0, 0}, "ofi", {7}};
struct component *ompi_mtl_base_selected_component = %s;
"""
SELECTED = [
    (OPENMPI % ("pml", "ob1", "0"), "ob1"),
    (OPENMPI % ("pml", "ucx", "0"), "ucx"),
    (OPENMPI % ("pml", "cm", "&mtl"), "cm/ofi"),
    (OPENMPI % ("new", "ob1", "0"), ""),  # another layout
    ("int mpich;", ""),
]


@pytest.mark.parametrize(("source", "name"), SELECTED)
def test_the_transport_is_that_which_openmpi_selected(source: str, name: str, tmp_path: Path) -> None:
    library = tmp_path / "libmpi.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], input=source, text=True, check=True)
    assert load("mpi_allreduce").transport(ctypes.CDLL(str(library))) == name


def test_a_rank_outside_of_a_container_says_so() -> None:
    program = str(PROGRAMS / "mpi_container" / "mpi_container.py")
    environment = {"PYTHONPATH": str(PROGRAMS / "mpi_allreduce")}
    ran = subprocess.run(
        [sys.executable, program, "--json"], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode != 0  # 3, or 1 where there is no mpi4py
    said = json.loads(ran.stdout.splitlines()[0])
    assert (said["event"], said["expected"], said["got"]) == ("wrong", "an image", "the node's own")


def test_threads_of_the_real_runtime_are_seen() -> None:
    """In a process of its own: the runtime binds the thread that asks."""
    script = "import mpi_threads, os; c = os.sched_getaffinity(0); f = mpi_threads.region(2); "
    script += "print(sorted(f), all(cpus <= c for cpus in f.values()))"
    environment = {"PYTHONPATH": str(PROGRAMS / "mpi_threads")}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("[0, 1] True\n", "")


A, B, C = frozenset({0}), frozenset({1}), frozenset({0, 1})
FAULTS = [
    (2, C, {0: A, 1: B}, ""),
    (2, C, {0: A}, "1 threads instead of 2"),
    (2, A, {0: A, 1: A}, "2 threads share 1 CPUs"),
    (2, C, {0: A, 1: frozenset({5})}, "a thread is on CPUs other than [0, 1]"),
    (2, C, {0: C, 1: C}, "threads share CPUs"),
]


@pytest.mark.parametrize(("threads", "allowed", "found", "fault"), FAULTS)
def test_faults_of_placement(
    threads: int, allowed: frozenset[int], found: dict[int, frozenset[int]], fault: str
) -> None:
    assert load("mpi_threads").faults(threads, allowed, found) == fault


def test_ranks_of_a_node_have_cpus_of_their_own() -> None:
    shared = load("mpi_threads").shared
    assert shared([("w1", A), ("w1", B), ("w2", A)]) == ""
    assert shared([("w1", A), ("w2", A), ("w1", C)]) == "two ranks on w1 share CPUs"


@pytest.mark.parametrize(("ranks", "rows", "columns"), [(1, 1, 1), (2, 1, 2), (12, 3, 4), (16, 4, 4), (7, 1, 7)])
def test_the_grid_is_as_square_as_can_be(ranks: int, rows: int, columns: int) -> None:
    assert load("hpl").grid(ranks) == (rows, columns)


def test_the_summary_of_hpcc() -> None:
    text = "a=1\nBegin of Summary section.\nSuccess=1\nHPL_Tflops=0.0029\nEnd of Summary section.\nb=2\n"
    assert load("hpl").summary(text) == {"Success": "1", "HPL_Tflops": "0.0029"}


def test_a_node_without_a_runtime_is_named(tmp_path: Path) -> None:
    program = load("containers")
    if not Path(program.BUSYBOX).exists():
        pytest.skip("no busybox here")
    ran = subprocess.run(
        [sys.executable, str(PROGRAMS / "containers" / "containers.py"), "--json"],
        env={"PATH": "/nonexistent", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (1, "")
    assert json.loads(ran.stdout)["error"].startswith("no container runtime is installed")
