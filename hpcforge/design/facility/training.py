"""How long a training run takes on a cluster, and the energy it takes. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hpcforge.design.facility.design import Power, Training
from hpcforge.design.facility.room import Room


@dataclass(frozen=True)
class TrainingRun:
    """A training run: a dense model's parameters, tokens, and the part of the peak that is reached."""

    parameters: float
    tokens: float
    utilisation: float
    price_per_kwh: float | None = None


def operations(parameters: float, tokens: float) -> float:
    """Floating-point operations of training a dense transformer: 6 N D.

    Two forward and four backward for each parameter and token; attention over the sequence is left out. Source:
    Kaplan et al., Scaling Laws for Neural Language Models, 2020, section 2.1.
    """
    return 6 * parameters * tokens


def days(run: TrainingRun, peak_tflops: float) -> float:
    """Time at a peak of all GPUs together, in days: 6 N D / (peak x utilisation)."""
    return operations(run.parameters, run.tokens) / (peak_tflops * 1e12 * run.utilisation) / 86_400


def training(room: Room, power: Power, run: TrainingRun) -> Training | None:
    """Estimate a run on all GPUs of the workers; None where a GPU's peak is not known, or there is none."""
    gpus = [(kind.gpus, len(kind.names)) for kind in room.kinds if kind.worker and kind.metal and kind.gpus]
    peaks = [room.catalog.gpus[gpu.model].bf16_dense_peak_tflops for gpu, _ in gpus]
    peak = sum((each or 0.0) * gpu.count * nodes for (gpu, nodes), each in zip(gpus, peaks, strict=True))
    if not peak or None in peaks:
        return None
    took = days(run, peak)
    energy = power.total_w * took * 24 / 1_000 if power.total_w is not None else None
    price = run.price_per_kwh
    return Training(
        parameters=run.parameters,
        tokens=run.tokens,
        utilisation=run.utilisation,
        gpus=sum(gpu.count * nodes for gpu, nodes in gpus),
        peak_tflops=peak,
        operations=operations(run.parameters, run.tokens),
        days=took,
        energy_kwh=energy,
        energy_cost=energy * price if energy is not None and price is not None else None,
        formula="6 x parameters x tokens / (GPUs x BF16 peak x utilisation); energy: the site's total all that time",
    )
