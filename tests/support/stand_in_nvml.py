"""A library that stands in for NVML, built of `tests/support/nvml`; its answers follow NVIDIA's documents."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import yaml

from hpcforge.node.gpus import nvml

_FOLDER = Path(__file__).parent / "nvml"
ANSWERS: dict[str, Any] = yaml.safe_load((_FOLDER / "answers.yaml").read_text())
CASES: dict[str, dict[str, Any]] = ANSWERS["cases"]


def build(case: str, folder: Path) -> Path:
    """The library for a case of answers.yaml, in a folder of its own there."""
    return compiled(CASES[case], folder / case)


def compiled(case: dict[str, Any], place: Path) -> Path:
    """The library with a case's answers, in a new folder. Use and power: only with `metrics: 1`."""
    place.mkdir()
    (place / "answers.h").write_text(_answers(case))
    library = place / "libnvidia-ml.so.1"
    source = _FOLDER / "stand_in.c"
    warnings = ["-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", "-shared", "-fPIC", *warnings, f"-I{place}", "-o", library, source], check=True, timeout=300)
    return library


def hung(library: Path, on_bus: list[str]) -> Any:
    """What is told of a library that hangs, once it does, as if the time were up then."""
    reading = nvml.begin(str(library), 600.0)
    deadline = time.monotonic() + 300
    while Path(f"/proc/{reading.pid}/comm").read_text() != "hangs\n":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return nvml.end(reading._replace(until_s=time.monotonic()), on_bus)


def _answers(case: dict[str, Any]) -> str:
    names = ("init", "lost", "hang", "crash", "garbage", "metrics", "fabric", "gpus")
    defaults = {"lost": -2, "hang": -2, "crash": -2, "fabric": 3, "gpus": ANSWERS["gpus"]}
    numbers = {**dict.fromkeys(names, 0), **defaults} | case
    lines = [f"#define {name.upper()} {numbers[name]}" for name in names]
    lines += [f'#define DRIVER "{ANSWERS["driver"]}"', "static const Gpu gpus[GPUS] = {"]
    for index in range(numbers["gpus"]):
        facts = {**ANSWERS["gpu"], **case.get("each", {}).get(index, {})}
        values = (f'"{value}"' if isinstance(value, str) else value for value in facts.values())
        pairs = (f".{name} = {value}" for name, value in zip(facts, values, strict=True))
        lines.append(f"    {{{', '.join(pairs)}}},")
    return "\n".join([*lines, "};", ""])
