"""What the operating system keeps of a worker where the blueprint does not say. Pure."""

from __future__ import annotations

_CORES_OF_A_LARGE_SOCKET = 16  # below that a core is more than is given away unasked


def usual_cores(sockets: int, cores_per_socket: int) -> int:
    """Cores: one of each socket of 16 or more, none of smaller ones, of which one would be a large share.

    Source: CSCS Alps, one core of each module of 72 for system processes (eth-cscs/cscs-docs, docs/guides/gb2025.md).
    Slurm's own default is none (slurm.conf(5), CoreSpecCount).
    """
    return sockets if cores_per_socket >= _CORES_OF_A_LARGE_SOCKET else 0


def usual_memory_mib(memory_gib: int) -> int:
    """Memory, MiB: 400, and 30 for each GiB of the node.

    Linux itself takes about 16 MiB of each GiB before it shows any; the rest is for daemons. Source: the machine sizes
    of slurm-gcp (SchedMD and Google, `util.py`). Azure CycleCloud and AWS ParallelCluster keep 5 % (of 2 TiB 102 GiB
    instead of 60).
    """
    return 400 + 30 * memory_gib
