"""Training by TensorFlow's MultiWorkerMirroredStrategy over all tasks of a job; weights as numpy computes them.

    srun -N2 /opt/hpcforge/tensorflow/bin/python smoke_tests/tensorflow_train/tensorflow_train.py

Each task is a worker of TF_CONFIG, on CPUs: the pinned wheels have no other device. Python 3.11.
"""

from __future__ import annotations

import json
import os
import sys

import least_squares
import numpy as np
from least_squares import COLUMNS, RATE, Place, rows_of


def train(place: Place, steps: int) -> tuple[np.ndarray, str]:
    """Gradient descent in which the strategy averages the gradients of all workers."""
    cluster = {"worker": list(place.addresses)}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": place.rank}})
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf  # noqa: PLC0415  it reads TF_CONFIG

    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    if strategy.num_replicas_in_sync != place.ranks:
        raise RuntimeError(f"TensorFlow has {strategy.num_replicas_in_sync} workers, and the job {place.ranks}")
    inputs, targets = (tf.constant(part) for part in rows_of(place.rank))
    with strategy.scope():
        weights = tf.Variable(tf.zeros(COLUMNS, tf.float64), aggregation=tf.VariableAggregation.MEAN)

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.linalg.matvec(inputs, weights) - targets) ** 2) / 2
        mine = tape.gradient(loss, weights)
        context = tf.distribute.get_replica_context()
        weights.assign_sub(RATE * context.all_reduce(tf.distribute.ReduceOp.MEAN, mine))

    @tf.function
    def all_steps() -> None:
        for _ in tf.range(steps):
            strategy.run(step)

    all_steps()
    return np.asarray(weights.numpy()), ""


if __name__ == "__main__":
    sys.exit(least_squares.main("TensorFlow", train))
