"""What tests of frameworks share: tasks meet at HPCFORGE_MEETING, and train the same small problem.

The task on the node that has the meeting's address listens there, and is rank 0. The others tell it the address at
which their own framework will listen, in the order of SLURM_PROCID; each gets the list of all. Each rank is answered
before any framework starts, so a rank that never comes is named by Slurm's time limit, not by a framework's.

The problem: least squares by gradient descent, in 64-bit numbers. Each rank has its own rows. The framework averages
the gradients of all ranks; numpy computes the same with all rows at once. The two differ by rounding alone: of sums of
at most `rows` terms in another order, over `STEPS` steps that contract. TOLERANCE allows 1000 times the unit roundoff.
Standard library and numpy, Python 3.9.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

ROWS, COLUMNS = 64, 8  # rows of each rank
RATE = 0.05
TOLERANCE = 1000 * 2.0**-53
WAIT_S = 120.0  # for the other tasks

Gradients = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Place:
    """A task among all: its rank, and at which ADDRESS:PORT each rank's framework can listen."""

    rank: int
    addresses: tuple[str, ...]

    @property
    def ranks(self) -> int:
        """How many there are."""
        return len(self.addresses)


def own_port(address: str) -> str:
    """ADDRESS:PORT with a port that is free now, below those that the kernel hands out by itself."""
    first = 20000 + (os.getpid() * 31) % 9000
    for port in range(first, first + 1000):
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return f"{address}:{port}"
    raise OSError(f"no port from {first} to {first + 999} is free on {address}")


def meet() -> Place:
    """Meet the other tasks. Raises OSError if they do not come."""
    tasks, task = int(os.environ.get("SLURM_NTASKS", "1")), int(os.environ.get("SLURM_PROCID", "0"))
    address, _, port = os.environ.get("HPCFORGE_MEETING", "127.0.0.1:0").rpartition(":")
    if tasks == 1:
        return Place(0, (own_port(address),))
    if int(os.environ.get("SLURM_LOCALID", "0")) == 0:
        try:
            listening = socket.create_server((address, int(port)))
        except OSError:
            pass  # another node has this address
        else:
            with listening:
                return receive(listening, tasks, own_port(address))
    return tell((address, int(port)), task)


def receive(listening: socket.socket, tasks: int, own: str) -> Place:
    """Rank 0: hear of all others, then answer each."""
    listening.settimeout(WAIT_S)
    found = []
    while len(found) < tasks - 1:
        peer, _ = listening.accept()
        peer.settimeout(WAIT_S)
        lines = peer.makefile("rw", encoding="utf-8", newline="\n")
        task, address = json.loads(lines.readline())
        found.append((int(task), str(address), lines))
    found.sort(key=lambda each: each[0])
    addresses = (own, *(address for _, address, _ in found))
    for rank, (_, _, lines) in enumerate(found, 1):
        lines.write(json.dumps([rank, addresses]) + "\n")
        lines.close()
    return Place(0, addresses)


def tell(meeting: tuple[str, int], task: int) -> Place:
    """Another rank: tell rank 0 of this one."""
    ends = time.monotonic() + WAIT_S
    while True:
        try:
            peer = socket.create_connection(meeting, timeout=WAIT_S)
            break
        except ConnectionRefusedError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.1)
    with peer, peer.makefile("rw", encoding="utf-8", newline="\n") as lines:
        lines.write(json.dumps([task, own_port(peer.getsockname()[0])]) + "\n")
        lines.flush()
        rank, addresses = json.loads(lines.readline())
    return Place(rank, tuple(addresses))


def rows_of(rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of a rank."""
    dice = np.random.default_rng(rank)
    inputs = dice.standard_normal((ROWS, COLUMNS))
    return inputs, inputs @ np.arange(1.0, COLUMNS + 1) + 0.1 * dice.standard_normal(ROWS)


def gradient(weights: np.ndarray, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Of half the mean squared error."""
    return inputs.T @ (inputs @ weights - targets) / len(targets)


def all_rows(ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of all ranks."""
    inputs, targets = zip(*map(rows_of, range(ranks)))  # noqa: B905  (Python 3.9)
    return np.concatenate(inputs), np.concatenate(targets)


def loss(weights: np.ndarray, ranks: int) -> float:
    """Half the mean squared error over all rows."""
    inputs, targets = all_rows(ranks)
    return float(np.mean((inputs @ weights - targets) ** 2) / 2)


def expected(ranks: int, steps: int) -> np.ndarray:
    """The weights after some steps over all rows, by numpy."""
    inputs, targets = all_rows(ranks)
    weights = np.zeros(COLUMNS)
    for _ in range(steps):
        weights = weights - RATE * gradient(weights, inputs, targets)
    return weights


def say(as_json: bool, text: str, **event: object) -> None:
    """One event, as a line of JSON or of text."""
    line = json.dumps(event) if as_json else text
    if line:
        os.write(1, (line + "\n").encode())


def main(framework: str, train: Callable[[Place, int], tuple[np.ndarray, str]]) -> int:
    """Train with a framework and compare; 0 if each rank's weights are numpy's, 3 if not.

    `train` gives the weights and the device: cpu, or a GPU's name; "" for a framework that has only builds for CPUs.
    """
    options = argparse.ArgumentParser(description=f"Training by {framework} over all ranks, compared with numpy's.")
    options.add_argument("--json", action="store_true", help="one JSON object a line instead of text")
    options.add_argument("--steps", type=int, default=50, help="steps of gradient descent (default: 50)")
    options.add_argument("--falsify", action="store_true", help="alter the weights of rank 0: the test must fail")
    asked = options.parse_args()
    try:
        place = meet()
        began = time.perf_counter()
        trained, device = train(place, asked.steps)
        weights = np.asarray(trained, dtype=np.float64)
        seconds = time.perf_counter() - began
    except Exception as error:
        say(asked.json, f"failed: {error}", event="failed", error=f"{type(error).__name__}: {error}"[:500])
        return 1
    if asked.falsify and place.rank == 0:
        weights = weights * 1.001
    right = expected(place.ranks, asked.steps)
    error = float(np.linalg.norm(weights - right) / np.linalg.norm(right))
    what = f"weights after {asked.steps} steps on rank {place.rank} of {place.ranks}"
    numbers = {"expected": float(right[0]), "got": float(weights[0])}
    say(asked.json, "", event="assertion", what=what, error=error, tolerance=TOLERANCE, **numbers)
    if not error <= TOLERANCE:
        shown = {name: str(number) for name, number in numbers.items()}
        say(asked.json, f"wrong: {what}: relative error {error:.3g}", event="wrong", where=what, **shown)
        return 3
    if place.rank == 0:
        first, last = loss(np.zeros(COLUMNS), place.ranks), loss(weights, place.ranks)
        measured = {"ranks": place.ranks, "seconds": round(seconds, 2), "loss_first": first, "loss_last": last}
        where = f" on {device}" if device else ""
        text = f"{framework} over {place.ranks} ranks{where}: loss {first:.4f} -> {last:.4f} ({seconds:.1f} s)"
        say(asked.json, text, event="measurement", **measured)
        say(asked.json, "", event="result", **({"device": device} if device else {}))
    sys.stdout.flush()
    return 0
