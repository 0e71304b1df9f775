"""Training by JAX over all tasks of a job, with a psum over their devices; weights as numpy computes them.

    srun -N2 /opt/hpcforge/jax/bin/python smoke_tests/jax_train/jax_train.py

Each task is a process of jax.distributed, with one device. Python 3.11.
"""

from __future__ import annotations

import sys

import least_squares
import numpy as np
from least_squares import COLUMNS, RATE, Place, rows_of


def train(place: Place, steps: int) -> np.ndarray:
    """Gradient descent in which each step averages the gradients of all devices."""
    import jax  # noqa: PLC0415
    from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(place.addresses[0], place.ranks, place.rank)
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
    jax.distributed.shutdown()
    return weights


if __name__ == "__main__":
    sys.exit(least_squares.main("JAX", train))
