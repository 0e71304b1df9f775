"""How fast this machine is: limits in seconds are for one machine, and tests run on others, too."""

from __future__ import annotations

import time
from functools import cache

_RUNS = 5
_REFERENCE_S = 0.016  # of the work below, where `hpcforge validate blueprints/rehearsal.yaml` takes 0.3 CPU s


def _work() -> int:
    """What reading files is made of: short texts, dictionaries, calls."""
    names: dict[str, tuple[str, int]] = {}
    for number in range(30_000):
        name = f"node{number:05d}"
        names[name] = (name.upper(), len(names))
    return sum(at for name, (upper, at) in sorted(names.items()) if upper.endswith("7") and name.isalnum())


def works_s(runs: int = _RUNS) -> list[float]:
    """Return the CPU seconds of each run of the work."""
    took_s = []
    for _ in range(runs):
        began_s = time.process_time()
        _work()
        took_s.append(time.process_time() - began_s)
    return took_s


def work_s() -> float:
    """Return the CPU seconds of the work, the least of some runs."""
    return min(works_s())


@cache
def slowness() -> float:
    """How many times longer than the machine that limits are for this one takes for the same work; 1.0 if less."""
    return max(1.0, work_s() / _REFERENCE_S)
