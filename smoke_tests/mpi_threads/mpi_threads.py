"""MPI with OpenMP: where Slurm and OpenMP place ranks and threads.

    OMP_NUM_THREADS=2 srun --mpi=pmix --cpus-per-task=2 --cpu-bind=cores python3 smoke_tests/mpi_threads/mpi_threads.py

A program without a binding runs at a part of its speed and says nothing. Each rank starts a parallel region of the
real OpenMP runtime (libgomp) through its C interface; each thread says which CPUs it may use. There have to be as many
threads as OMP_NUM_THREADS, each with one place of its own, and CPUs of one rank may be no other's on the same node.
Python 3.9, mpi4py.
"""

from __future__ import annotations

import os

# libgomp reads them when it is loaded.
os.environ.setdefault("OMP_PLACES", "threads")
os.environ.setdefault("OMP_PROC_BIND", "close")

import argparse
import ctypes
import importlib
import json
import sys
import threading


def say(as_json: bool, text: str, **event: object) -> None:
    """One event, as a line of JSON or of text."""
    line = json.dumps(event) if as_json else text
    if line:
        os.write(1, (line + "\n").encode())


def region(threads: int) -> dict[int, frozenset[int]]:
    """The CPUs that each thread of a parallel region of so many may use, by the thread's number."""
    gomp = ctypes.CDLL("libgomp.so.1")
    found: dict[int, frozenset[int]] = {}
    lock = threading.Lock()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def body(_: int) -> None:
        with lock:
            found[gomp.omp_get_thread_num()] = frozenset(os.sched_getaffinity(0))

    gomp.GOMP_parallel(body, None, threads, 0)
    return found


def faults(threads: int, allowed: frozenset[int], found: dict[int, frozenset[int]]) -> str:
    """What is wrong with the threads of one rank, which may use the CPUs `allowed`; "" if nothing is."""
    if len(found) != threads:
        return f"{len(found)} threads instead of {threads}"
    if len(allowed) < threads:
        return f"{threads} threads share {len(allowed)} CPUs"
    if any(not cpus <= allowed for cpus in found.values()):
        return f"a thread is on CPUs other than {sorted(allowed)}"
    if sum(len(cpus) for cpus in found.values()) != len(frozenset().union(*found.values())):
        return "threads share CPUs"
    return ""


def shared(ranks: list[tuple[str, frozenset[int]]]) -> str:
    """Which node has CPUs that two of its ranks use; "" if none has."""
    taken: dict[str, set[int]] = {}
    for host, cpus in ranks:
        if taken.setdefault(host, set()) & cpus:
            return f"two ranks on {host} share CPUs"
        taken[host] |= cpus
    return ""


def main() -> int:
    """Compare; 0 if all was right, 3 if not."""
    options = argparse.ArgumentParser(description="Placement of ranks of MPI and threads of OpenMP.")
    options.add_argument("--json", action="store_true", help="one JSON object a line instead of text")
    asked = options.parse_args()
    mpi = importlib.import_module("mpi4py.MPI")  # it starts MPI
    comm = mpi.COMM_WORLD
    threads, started = int(os.environ.get("OMP_NUM_THREADS") or 1), int(os.environ.get("SLURM_NTASKS") or comm.size)
    allowed = frozenset(os.sched_getaffinity(0))
    fault = faults(threads, allowed, region(threads))
    if comm.size != started:
        fault = f"{comm.size} ranks instead of {started}: Slurm and MPI do not share PMIx"
    every = comm.allgather((mpi.Get_processor_name(), allowed, fault))
    if wrong := fault or shared([(host, cpus) for host, cpus, _ in every]):
        where = f"placement of rank {comm.rank}"
        say(asked.json, f"wrong: {where}: {wrong}", event="wrong", where=where, expected="cores of its own", got=wrong)
    elif comm.rank == 0 and not any(other for _, _, other in every):
        text = f"{comm.size} ranks with {threads} threads, each on cores of its own"
        say(asked.json, text, event="measurement", ranks=comm.size, threads=threads)
        say(asked.json, "", event="result")
    return 3 if any(other for _, _, other in every) or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
