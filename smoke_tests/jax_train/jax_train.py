"""Training by JAX over all tasks of a job, with a psum over their devices; weights as numpy computes them.

    srun -N2 /opt/hpcforge/jax/bin/python smoke_tests/jax_train/jax_train.py

Each task is a process of jax.distributed, with one device: the GPU of its number on its node where a driver of NVIDIA
is loaded and JAX has its plugin for CUDA, else the CPU. The result says which. Python 3.11.
"""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path

import least_squares
import numpy as np
from least_squares import COLUMNS, RATE, Place, rows_of

DRIVER = Path("/proc/driver/nvidia/version")


def platform(driver: Path = DRIVER) -> str:
    """Return cuda or cpu, as JAX calls them."""
    plugins = metadata.entry_points(group="jax_plugins")
    return "cuda" if driver.exists() and any("cuda" in plugin.name for plugin in plugins) else "cpu"


def train(place: Place, steps: int) -> tuple[np.ndarray, str]:
    """Gradient descent in which each step averages the gradients of all devices."""
    import jax  # noqa: PLC0415
    from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)
    on = platform()
    jax.config.update("jax_platforms", on)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    own = {"local_device_ids": [int(os.environ.get("SLURM_LOCALID", "0"))]} if on == "cuda" else {}
    jax.distributed.initialize(place.addresses[0], place.ranks, place.rank, **own)
    if (jax.process_count(), jax.device_count()) != (place.ranks, place.ranks):
        raise RuntimeError(
            f"JAX has {jax.device_count()} devices in {jax.process_count()} processes, not {place.ranks}"
        )
    mesh = Mesh(np.array(jax.devices()), ("ranks",))  # make_mesh refuses devices of several hosts
    by_rank = NamedSharding(mesh, PartitionSpec("ranks"))
    inputs, targets = (jax.make_array_from_process_local_data(by_rank, part) for part in rows_of(place.rank))

    def descend(inputs: jax.Array, targets: jax.Array) -> jax.Array:
        def step(_: int, weights: jax.Array) -> jax.Array:
            mine = inputs.T @ (inputs @ weights - targets) / len(targets)
            return weights - RATE * jax.lax.psum(mine, "ranks") / place.ranks

        return jax.lax.fori_loop(0, steps, step, jax.numpy.zeros(COLUMNS))

    whole = PartitionSpec()
    split = jax.shard_map(descend, mesh=mesh, in_specs=(PartitionSpec("ranks"),) * 2, out_specs=whole)
    weights = np.asarray(jax.jit(split)(inputs, targets))
    device = jax.local_devices()[0].device_kind if on == "cuda" else on
    jax.distributed.shutdown()
    return weights, device


if __name__ == "__main__":
    sys.exit(least_squares.main("JAX", train))
