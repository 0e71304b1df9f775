"""MPI over all nodes of a job: as many ranks as Slurm started, their sum is right, and latency and bandwidth.

    srun --mpi=pmix -N2 python3 smoke_tests/mpi_allreduce/mpi_allreduce.py

Where Slurm and MPI do not understand each other, each rank is a program by itself that ends well: so the number of
ranks is compared with Slurm's. Contribution of rank r to element i is r + 1 + i modulo 251; the sum over n ranks is
compared with n(n + 1)/2 + n (i modulo 251), exactly. Latency is half of a round trip of one byte between the first and
the last rank, bandwidth that of a large message; of the repeats the median counts. Where HPCFORGE_MPI_TRANSPORT is set,
each rank compares it with the component that OpenMPI selected to carry messages. Python 3.9, mpi4py, no numpy.
"""

from __future__ import annotations

import argparse
import array
import ctypes
import importlib
import json
import os
import statistics
import sys
import time
from types import ModuleType

ELEMENTS = 1009  # a prime, more than the table's period
PERIOD = 251
PLANNED = "HPCFORGE_MPI_TRANSPORT"  # ob1 or ucx: the transport that the blueprint implies


class Component(ctypes.Structure):
    """The beginning of a component of OpenMPI 1.7 to 5.0 (opal/mca/mca.h, mca_base_component_2_1_0_t)."""

    _fields_ = (
        ("mca_version", ctypes.c_int * 3),
        ("project", ctypes.c_char * 16),
        ("project_version", ctypes.c_int * 3),
        ("type", ctypes.c_char * 32),
        ("type_version", ctypes.c_int * 3),
        ("name", ctypes.c_char * 64),
    )


def transport(library: ctypes.CDLL) -> str:
    """Return what OpenMPI selected to carry messages: `ob1` (TCP, shared memory), `ucx`, `cm/ofi` (libfabric).

    "" where the library has no such names: it is another MPI. Its parameters would only tell what was configured.
    """
    try:
        pml = Component.in_dll(library, "mca_pml_base_selected_component")
        mtl = ctypes.POINTER(Component).in_dll(library, "ompi_mtl_base_selected_component")
    except ValueError:
        return ""
    parts = [part for part in (pml, mtl.contents if mtl else None) if part is not None]
    if [part.type for part in parts] != [b"pml", b"mtl"][: len(parts)]:
        return ""
    return "/".join(part.name.decode() for part in parts)


def say(as_json: bool, text: str, **event: object) -> None:
    """One event, as a line of JSON or of text."""
    line = json.dumps(event) if as_json else text
    if line:
        os.write(1, (line + "\n").encode())


def say_wrong(as_json: bool, where: str, want: object, got: object) -> None:
    """Report a wrong result."""
    text = f"wrong: {where}: expected {want}, got {got}"
    say(as_json, text, event="wrong", where=where, expected=str(want), got=str(got))


def contribution(rank: int) -> array.array[int]:
    """What a rank adds."""
    return array.array("q", (rank + 1 + index % PERIOD for index in range(ELEMENTS)))


def expected(ranks: int) -> array.array[int]:
    """The sum over all ranks."""
    return array.array("q", (ranks * (ranks + 1) // 2 + ranks * (index % PERIOD) for index in range(ELEMENTS)))


def one_way_s(mpi: ModuleType, size: int, repeats: int) -> float:
    """Seconds of a message from the first to the last rank: half of the median round trip; of other ranks 0."""
    comm = mpi.COMM_WORLD
    last, buffer, seconds = comm.size - 1, bytearray(size), []
    for _ in range(repeats + 2):
        comm.Barrier()
        begin = time.perf_counter()
        if comm.rank == 0:
            comm.Send([buffer, mpi.BYTE], dest=last)
            comm.Recv([buffer, mpi.BYTE], source=last)
        elif comm.rank == last:
            comm.Recv([buffer, mpi.BYTE], source=0)
            comm.Send([buffer, mpi.BYTE], dest=0)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[2:]) / 2


def planned_transport(mpi: ModuleType, as_json: bool) -> str:
    """Return the transport that this rank uses; abort if it is not the planned one."""
    planned, used = os.environ.get(PLANNED, ""), transport(ctypes.CDLL(mpi.__file__))
    if planned and used != planned:
        say_wrong(as_json, f"transport of rank {mpi.COMM_WORLD.rank}", planned, used or "none that OpenMPI names")
        mpi.COMM_WORLD.Abort(3)
    return used


def main() -> int:
    """Compare and measure; 0 if all was right, 3 if not."""
    options = argparse.ArgumentParser(description="All-reduce over the ranks of MPI, and the speed of messages.")
    options.add_argument("--json", action="store_true", help="one JSON object a line instead of text")
    options.add_argument("--size-kib", type=int, default=4096, help="message of the bandwidth, KiB (default: 4096)")
    options.add_argument("--repeats", type=int, default=20, help="how often (default: 20)")
    options.add_argument("--falsify", action="store_true", help="for testing whoever judges this test")
    asked = options.parse_args()
    mpi = importlib.import_module("mpi4py.MPI")  # it starts MPI
    comm = mpi.COMM_WORLD
    rank, started = comm.rank, int(os.environ.get("SLURM_NTASKS") or comm.size)
    if comm.size != started:
        say_wrong(asked.json, "number of ranks: Slurm and MPI do not share PMIx", started, comm.size)
        return 3
    used = planned_transport(mpi, asked.json)
    total = array.array("q", bytes(8 * ELEMENTS))
    comm.Allreduce([contribution(rank), mpi.INT64_T], [total, mpi.INT64_T], op=mpi.SUM)
    if asked.falsify and rank == 0:
        total[17] += 1
    right = expected(comm.size)
    if total != right:
        index = next(place for place in range(ELEMENTS) if total[place] != right[place])
        say_wrong(asked.json, f"element {index} of the sum on rank {rank}", right[index], total[index])
        comm.Abort(3)
    hosts = comm.gather(mpi.Get_processor_name())
    latency = one_way_s(mpi, 1, asked.repeats) if comm.size > 1 else 0.0
    large = one_way_s(mpi, asked.size_kib * 1024, asked.repeats) if comm.size > 1 else 0.0
    if rank == 0:
        rate = asked.size_kib * 1024 / large / 1e9 if large else 0.0
        hosts_by = f"{len(set(hosts or ()))} hosts by {used or 'an unknown transport'}"
        text = f"{comm.size} ranks on {hosts_by}: {latency * 1e6:.1f} us, {rate:.3f} GB/s"
        measured = {"ranks": comm.size, "latency_us": round(latency * 1e6, 3), "bandwidth_gb_per_s": round(rate, 4)}
        version = mpi.Get_library_version().split(",")[0]
        say(asked.json, text, event="measurement", **measured, mpi=version, transport=used)
        say(asked.json, "", event="result")
    return 0


if __name__ == "__main__":
    sys.exit(main())
