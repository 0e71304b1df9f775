"""What the training tests share: a small transformer, its data, and the losses and gradients that are right.

The reference is the same training in one process, in float64: the losses of all steps and the gradients of the last.
Rank 0 computes it and sends it to the others, so it costs the same for any number of ranks.

Tolerances are relative. Measured on CPUs in float32, every mode differs by 1e-7 to 3e-7 (loss, and 2-norm of all
gradients), so `FLOAT32` has a margin of 30. A lost or doubled share of one of n ranks changes gradients by about 1/n.
In bfloat16 they differ by 3e-3 to 5e-3: a lost rank of more than 50 would pass, hence at most eight ranks
are compared at once. An error below `at_least` is wrong, too: then something else was measured than was to be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.distributed as dist
from ranks import Job, collective
from torch import nn

BLOCKS, WIDTH, HEADS, TOKENS, VOCABULARY = 4, 64, 4, 16, 64
GLOBAL_BATCH = 16
RATE = 0.2  # of gradient descent
SEED = 7


@dataclass(frozen=True)
class Tolerance:
    """Bounds of relative errors: of each loss, and of all gradients in the 2-norm."""

    loss: float
    gradients: float
    at_least: float  # of the error of gradients


FLOAT32 = Tolerance(1e-5, 1e-5, 1e-9)
BFLOAT16 = Tolerance(1e-3, 2e-2, 1e-4)


class Attention(nn.Module):
    """Causal attention; the number of heads follows from the input, since a tensor-parallel rank has some of them."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix tokens with those before them."""
        batch, tokens, _ = x.shape
        q, k, v = (
            layer(x).view(batch, tokens, -1, WIDTH // HEADS).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, -1))


class Block(nn.Module):
    """Attention, then two layers, each added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What came in, with what the two parts say of it."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class TinyGpt(nn.Module):
    """A transformer, or a stage of one: `stage` of `stages` has as many blocks as each other one, under their names."""

    def __init__(self, stage: int = 0, stages: int = 1) -> None:
        super().__init__()
        generator_state = torch.random.get_rng_state()
        torch.manual_seed(SEED)  # all is made, also what this stage does not keep: weights depend on the seed alone
        self.tokens: nn.Module | None = nn.Embedding(VOCABULARY, WIDTH)
        self.places: nn.Module | None = nn.Embedding(TOKENS, WIDTH)
        blocks = [Block() for _ in range(BLOCKS)]
        self.head: nn.Module | None = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False))
        torch.random.set_rng_state(generator_state)
        each = BLOCKS // stages
        self.blocks = nn.ModuleDict(
            {str(number): blocks[number] for number in range(stage * each, stage * each + each)}
        )
        if stage > 0:
            self.tokens = self.places = None
        if stage < stages - 1:
            self.head = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the next token; of a stage what the next stage takes."""
        if self.tokens is not None and self.places is not None:
            x = self.tokens(x) + self.places(torch.arange(TOKENS, device=x.device))
        for block in self.blocks.values():
            x = block(x)
        return self.head(x) if self.head is not None else x


def loss_of(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean cross entropy over all tokens; of bfloat16 scores in float32, as users have it."""
    scores = scores.float() if scores.dtype == torch.bfloat16 else scores
    return nn.functional.cross_entropy(scores.reshape(-1, VOCABULARY), targets.reshape(-1))


def batch(step: int, size: int = GLOBAL_BATCH) -> tuple[torch.Tensor, torch.Tensor]:
    """The inputs and targets of a step, a function of its number: each token follows from the one before it."""
    generator = torch.Generator().manual_seed(1_000_003 + step)
    tokens = [torch.randint(VOCABULARY, (size,), generator=generator)]
    for _ in range(TOKENS):
        tokens.append((5 * tokens[-1] + 3) % VOCABULARY)
    every = torch.stack(tokens, dim=1)
    return every[:, :-1].contiguous(), every[:, 1:].contiguous()


@dataclass(frozen=True)
class Reference:
    """The losses of every step, and the gradients of the last by the names of parameters, in float64."""

    losses: tuple[float, ...]
    gradients: Mapping[str, torch.Tensor]


def trained_alone(steps: int, rate: float = RATE) -> Reference:
    """The training in this process alone, in float64 on the CPU."""
    model = TinyGpt().double()
    losses = []
    for step in range(steps):
        inputs, targets = batch(step)
        model.zero_grad(set_to_none=True)
        loss = loss_of(model(inputs), targets)
        loss.backward()
        losses.append(float(loss.detach()))
        if step < steps - 1:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.sub_(rate * parameter.grad)
    return Reference(tuple(losses), {name: one.grad.detach() for name, one in model.named_parameters()})


def shared_reference(job: Job, steps: int) -> Reference:
    """The reference on every rank, computed on rank 0 alone."""
    shapes = {name: one.shape for name, one in TinyGpt().named_parameters()}
    flat = torch.zeros(steps + sum(math.prod(shape) for shape in shapes.values()), dtype=torch.float64)
    if job.rank == 0:
        alone = trained_alone(steps)
        parts = [torch.tensor(alone.losses, dtype=torch.float64), *(alone.gradients[name].flatten() for name in shapes)]
        flat = torch.cat(parts)
    flat = flat.to(job.device)
    with collective("sharing the reference"):
        dist.broadcast(flat, 0)
    losses, *parts = flat.cpu().split([steps, *(math.prod(shape) for shape in shapes.values())])
    named = zip(shapes, parts)  # noqa: B905  (Python 3.9)
    return Reference(tuple(losses.tolist()), {name: part.reshape(shapes[name]) for name, part in named})


def relative(got: float, expected: float) -> float:
    """The relative error; infinite where anything is not finite."""
    error = abs(got - expected) / abs(expected)
    return error if math.isfinite(error) else math.inf
