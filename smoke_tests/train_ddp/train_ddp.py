"""Train a small model with DistributedDataParallel; asserts loss and gradients against a single-process reference.

    PYTHONPATH=smoke_tests torchrun --standalone --nproc_per_node 2 smoke_tests/train_ddp/train_ddp.py

Task: regression on what a fixed random network says of random inputs. Every batch is a function of (step, rank), so
each rank can make every rank's batch. At each checked step, each rank takes its own parameters, computes loss and
gradients of the concatenated batch of all ranks in float64 by itself, and compares with what DDP gave in float32. All
shards have the same size, so the mean of the shards' mean losses is the mean over the concatenated batch, and the same
holds for gradients: the two differ by float32 rounding alone.

Tolerance. A float32 inner product of k terms has a relative error (against the sum of magnitudes) of about
lambda sqrt(k) u, u = 2^-24: rounding errors behave as independent, and lambda = 8 is exceeded with negligible
probability (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019; the worst case is k u). The longest chain of inner
products from inputs to a gradient has, in all, k = inputs + 2 hidden (forward) + outputs + 2 hidden (backward) + global
batch + ranks (averaging) terms. tanh is smooth with slope at most 1, so errors are passed on, not amplified (a ReLU
could flip); what amplifies is cancellation in prediction - target, by the ratio of their size to the residual's, for
which 8 is allowed. Hence, for the relative error in the 2-norm over all gradients, and for the loss::

    tolerance = 64 sqrt(k) u        9e-5 for two ranks on CPUs

Losing or doubling one of n ranks' contributions changes the gradient by about 1/n. TF32 (u = 2^-11) is switched off.

The loss on a batch that is never trained on must end below half of where it began. Throughput is
global batch * steps / time of the slowest rank, over steps that are not checked.
"""

from __future__ import annotations

import argparse
import copy
import math
import time

import torch
import torch.distributed as dist
from ranks import Job, Turn, collective, main, options_parser
from torch import nn
from torch.nn.parallel import DistributedDataParallel

INPUTS, OUTPUTS = 32, 8
RATE = 0.2  # of gradient descent
CHECKED_STEPS = 4
HELD_OUT = 10**6  # a step number that training never reaches
_ROUNDOFF = 2.0**-24


def network(hidden: int, seed: int) -> nn.Sequential:
    """A perceptron with two hidden layers whose weights are a function of the seed."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(INPUTS, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, OUTPUTS)
    )


def batch(step: int, rank: int, size: int, device: torch.device) -> torch.Tensor:
    """Inputs of one rank at one step; made on the CPU, so that they are the same for every device."""
    generator = torch.Generator().manual_seed(step * 100_003 + rank)
    return torch.randn(size, INPUTS, generator=generator).to(device)


def tolerance(hidden: int, global_batch: int, world_size: int) -> float:
    """The largest relative error that rounding explains; derived in the module's docstring."""
    terms = INPUTS + 2 * hidden + OUTPUTS + 2 * hidden + global_batch + world_size
    return 64 * math.sqrt(terms) * _ROUNDOFF


def flat_gradients(model: nn.Module) -> torch.Tensor:
    """All gradients in one float64 vector."""
    return torch.cat([parameter.grad.reshape(-1).double() for parameter in model.parameters()])


def relative_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """2-norm of the difference over the 2-norm of what is expected; infinite where anything is not finite."""
    error = float((got - expected).norm() / expected.norm())
    return error if math.isfinite(error) else math.inf


class Training:
    """A student that learns from a teacher under DDP, with a float64 twin of the student as reference."""

    def __init__(self, job: Job, hidden: int, batch_size: int) -> None:
        self.job, self.batch_size = job, batch_size
        torch.backends.cuda.matmul.allow_tf32 = False
        self.loss = torch.nn.MSELoss()
        self.teacher = network(hidden, seed=1).to(job.device)
        with torch.no_grad():
            self.teacher[-1].weight.mul_(4)  # targets of about unit size
        self.student = network(hidden, seed=2).to(job.device)
        self.optimizer = torch.optim.SGD(self.student.parameters(), lr=RATE)
        self.reference = copy.deepcopy(self.student).double()
        with collective("the making of DDP"):
            self.ddp = DistributedDataParallel(
                self.student, device_ids=[job.device] if job.device.type == "cuda" else None
            )

    def targets(self, inputs: torch.Tensor) -> torch.Tensor:
        """What the teacher says, in the precision of training."""
        with torch.no_grad():
            return self.teacher(inputs)

    def forward_backward(self, step: int) -> float:
        """One step on this rank's shard under DDP, up to averaged gradients; returns the shard's loss."""
        inputs = batch(step, self.job.rank, self.batch_size, self.job.device)
        self.student.zero_grad(set_to_none=True)
        targets = self.targets(inputs)
        with collective(f"step {step}"):  # forward too: after the first backward pass, DDP agrees on its buckets there
            loss = self.loss(self.ddp(inputs), targets)
            loss.backward()
            self.job.synchronize()
        return float(loss.detach())

    def expected(self, step: int) -> tuple[float, torch.Tensor]:
        """Loss and gradients of the concatenated batch, computed by this rank alone in float64."""
        ranks = range(self.job.world_size)
        inputs = torch.cat([batch(step, rank, self.batch_size, self.job.device) for rank in ranks])
        with torch.no_grad():
            for twin, parameter in zip(self.reference.parameters(), self.student.parameters()):  # noqa: B905  (Python 3.9)
                twin.copy_(parameter)
        self.reference.zero_grad(set_to_none=True)
        loss = self.loss(self.reference(inputs.double()), self.targets(inputs).double())
        loss.backward()
        return float(loss.detach()), flat_gradients(self.reference)

    def held_out_loss(self) -> float:
        """Loss on a batch that is never trained on."""
        inputs = batch(HELD_OUT, 0, 256, self.job.device)
        with torch.no_grad():
            return float(self.loss(self.student(inputs), self.targets(inputs)))


def mean_over_ranks(job: Job, value: float) -> float:
    """The mean of one number a rank."""
    tensor = torch.tensor([value], dtype=torch.float64, device=job.device)
    with collective("the mean over ranks"):
        dist.all_reduce(tensor)
        return float(tensor[0]) / job.world_size


def checked_step(job: Job, training: Training, step: int, limit: float) -> float:
    """One training step that is compared with the reference; returns the larger of the two relative errors."""
    loss = mean_over_ranks(job, training.forward_backward(step))
    gradients = flat_gradients(training.student)
    if job.fault.falsifies(job.rank) and step == 1:
        gradients = gradients * 1.001
    expected_loss, expected_gradients = training.expected(step)
    error = relative_error(gradients, expected_gradients)
    loss_error = relative_error(torch.tensor(loss), torch.tensor(expected_loss))
    if error > limit:
        job.wrong(f"2-norm of the gradients at step {step}", float(expected_gradients.norm()), float(gradients.norm()))
    elif loss_error > limit:
        job.wrong(f"loss at step {step}", expected_loss, loss)
    job.agree(max(error, loss_error) <= limit)
    training.optimizer.step()
    return max(error, loss_error)


def timed_steps(job: Job, training: Training, first: int, steps: int) -> float:
    """Seconds for some steps that are not checked, as long as the slowest rank takes."""
    with collective("a barrier before timed steps"):
        dist.barrier()
    job.synchronize()
    start = time.perf_counter()
    for step in range(first, first + steps):
        training.forward_backward(step)
        training.optimizer.step()
    job.synchronize()
    return job.slowest([time.perf_counter() - start])[0]


def run(job: Job, options: argparse.Namespace) -> None:
    """Checked steps, timed steps, one more checked step; then the loss must have fallen."""
    gpu = job.device.type == "cuda"
    hidden, size = options.hidden or (1024 if gpu else 128), options.batch or (256 if gpu else 32)
    header, began = job.header(), time.perf_counter()
    training = Training(job, hidden, size)
    limit = tolerance(hidden, size * job.world_size, job.world_size)
    loss_first, worst = training.held_out_loss(), 0.0
    for step in range(CHECKED_STEPS):
        if step == 1:
            job.fault.strike(job.rank)
        worst = max(worst, checked_step(job, training, step, limit))
    seconds = timed_steps(job, training, CHECKED_STEPS, options.steps)
    worst = max(worst, checked_step(job, training, CHECKED_STEPS + options.steps, limit))
    loss_last = training.held_out_loss()
    if not loss_last < loss_first / 2:
        job.wrong("held-out loss at the end (must be below this)", loss_first / 2, loss_last)
    job.agree(loss_last < loss_first / 2)
    worst = job.slowest([worst])[0]
    if job.rank == 0:
        rate = size * job.world_size * options.steps / seconds
        measured = {
            "samples_per_s": round(rate, 1),
            "global_batch": size * job.world_size,
            "steps": options.steps,
            "loss_first": round(loss_first, 6),
            "loss_last": round(loss_last, 6),
            "error_max": float(f"{worst:.3g}"),
            "tolerance": float(f"{limit:.3g}"),
        }
        elapsed = round(time.perf_counter() - began, 3)
        text = (
            f"DDP over {job.world_size} ranks on {len(header['hosts'])} hosts, {job.backend} on {header['device']}, "
            f"torch {header['torch']}\n{rate:.0f} samples/s; held-out loss {loss_first:.4f} -> {loss_last:.4f}; "
            f"largest relative error {worst:.2g} of {limit:.2g} allowed ({elapsed} s)"
        )
        job.say("", event="measurement", **measured)
        job.say(text, event="result", **header, seconds=elapsed)


def parser() -> argparse.ArgumentParser:
    """The options of this test."""
    options = options_parser("DDP training: loss and gradients as a single process computes them; samples/s.")
    options.add_argument("--steps", type=int, default=30, help="timed steps (default: 30)")
    options.add_argument("--hidden", type=int, default=0, help="width of the model (default: 128, with GPUs 1024)")
    options.add_argument("--batch", type=int, default=0, help="samples a rank and step (default: 32, with GPUs 256)")
    return options


if __name__ == "__main__":
    alone = parser().parse_args()
    main([Turn("train_ddp", alone.json, lambda: (alone, run))])
