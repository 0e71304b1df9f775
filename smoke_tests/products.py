"""Products of fixed matrices, each with a checksum of all its bits: a device that computes another bit is named.

The same product in the same way has the same bits on every device of one make: order and threads are fixed, and
PyTorch's sources of other orders (TF32, several threads) are off. So bits are compared, not numbers: one flipped bit
changes a norm or the sum of a row by less than rounding does.

The checksum is the sum of all elements' bits, each times an odd number of its place, modulo 2^52. One flipped bit
changes an element's bits by 2^k, k < 32, and the sum by an odd multiple of it, which is no multiple of 2^52. Float64
holds every checksum, so ranks exchange them.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from ranks import Job

MASK = (1 << 52) - 1
SEED = 11
CPU_SIZE, GPU_SIZE = 768, 8192  # rows and columns
LEAST = 3  # products, however short the time
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
BITS = {4: torch.int32, 2: torch.int16}  # by bytes of an element


def place_factors(size: int, device: torch.device) -> torch.Tensor:
    """An odd number for each element of a square matrix."""
    return torch.arange(size * size, dtype=torch.int64, device=device).mul_(2 * 2_654_435_761).add_(1)


def checksum(matrix: torch.Tensor, factors: torch.Tensor) -> int:
    """The checksum of all bits of a matrix."""
    bits = matrix.view(BITS[matrix.element_size()]).flatten().to(torch.int64)
    return int((bits * factors).sum().item()) & MASK  # 64 bits wrap around


@dataclass
class Series:
    """Products that a device computed: their checksums in order, and the seconds that each took."""

    sums: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def usual(self) -> int:
        """The most frequent checksum."""
        return Counter(self.sums).most_common(1)[0][0]


class Products:
    """The same product again and again, on this rank's device; of a CPU on one core."""

    def __init__(self, job: Job, dtype: str, size: int = 0) -> None:
        self.job, self.gpu = job, job.device.type == "cuda"
        self.size = size or (GPU_SIZE if self.gpu else CPU_SIZE)
        torch.set_num_threads(1)
        generator = torch.Generator().manual_seed(SEED)
        self.left, self.right = (
            torch.rand(self.size, self.size, generator=generator).sub_(0.5).to(job.device, DTYPES[dtype])
            for _ in range(2)
        )
        self.result = torch.empty_like(self.left)
        self.factors = place_factors(self.size, job.device)

    @property
    def operations(self) -> float:
        """Floating-point operations of one product: n^2 results, n multiplications and additions each."""
        return 2.0 * self.size**3

    def once(self) -> float:
        """Compute one product; gives its seconds, on a CPU those of this thread: other processes may use the core."""
        if not self.gpu:
            began = time.thread_time()
            torch.mm(self.left, self.right, out=self.result)
            return time.thread_time() - began
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        torch.mm(self.left, self.right, out=self.result)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    def run(self, seconds: float, series: Series, flip_at: int = -1) -> Series:
        """Compute products for some seconds. `flip_at`: the number of one of which a bit is flipped, for tests."""
        until, number = time.perf_counter() + seconds, 0
        while number < LEAST or time.perf_counter() < until:
            series.seconds.append(self.once())
            if number == flip_at:
                self.result.view(BITS[self.result.element_size()])[self.size // 2, 17] ^= 1
            series.sums.append(checksum(self.result, self.factors))
            number += 1
        return series


def make(job: Job) -> str:
    """What a device's bits depend on: the GPU's name, or the CPU's model and the instructions that it has."""
    if job.device.type == "cuda":
        return torch.cuda.get_device_name(job.device)
    lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    told = {line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in reversed(lines)}
    return " ".join(told.get(key, "") for key in ("model name", "flags", "Features"))


def device_name(job: Job) -> str:
    """A device as people find it."""
    return f"GPU {job.local_rank}" if job.device.type == "cuda" else "the CPU"


def expected(makes: Sequence[float], sums: Sequence[float]) -> list[float | None]:
    """For each device the checksum of most devices of its make; None where no checksum is that of more than half."""
    found: dict[float, float | None] = {}
    for kind in dict.fromkeys(makes):
        alike = [of for made, of in zip(makes, sums) if made == kind]  # noqa: B905  (Python 3.9)
        usual, count = Counter(alike).most_common(1)[0]
        found[kind] = usual if 2 * count > len(alike) else None
    return [found[kind] for kind in makes]


def compare(job: Job, what: str, series: Series | None) -> bool:
    """Whether every product has the bits that most devices of its make computed; this rank reports the first other.

    All ranks must call it, those without products with None.
    """
    mine = zlib.crc32(make(job).encode())
    every = job.of_all([float(mine), float(series.usual)] if series else [-1.0, 0.0])
    if series is None:
        return True
    right = expected([of[0] for of in every], [of[1] for of in every])[job.rank]
    number = next((number for number, of in enumerate(series.sums) if of != right), None)
    if number is None:
        return True
    device, differ = device_name(job), sum(of != right for of in series.sums)
    most = "that of most devices of this make" if right is None else f"{int(right):013x}"
    where = f"checksum of product {number} on {device}, {what} ({differ} of {len(series.sums)} differ)"
    job.wrong(where, most, f"{series.sums[number]:013x}")
    return False
