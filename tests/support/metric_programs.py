"""The programs of roles that collect metrics, loaded into this process, and commands that stand in for a node's."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from hpcforge import bundled

ROLES = bundled.root() / "roles"
# What a line of Prometheus' text format may be: a comment, or a name with labels and a number.
LINE = re.compile(r'#.*|[a-z_]+(?:\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\})? [-0-9.e+]+')


def load(path: str) -> ModuleType:
    """Load a file of a role; it imports `metric_sources` as on a node."""
    sys.modules["metric_sources"] = sys.modules.get("metric_sources") or _load("node_exporter/metric_sources.py")
    return _load(path)


def _load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROLES / path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    before = [*sys.path]
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


def sources(folder: Path, patch: pytest.MonkeyPatch) -> ModuleType:
    """Return `metric_sources` with its locks, and first the commands, in this folder."""
    load("gpu_metrics/gpu_metrics.py")
    module = sys.modules["metric_sources"]
    patch.setattr(module, "LOCKS", str(folder))
    (folder / "bin").mkdir()
    patch.setitem(module.ENVIRONMENT, "PATH", f"{folder}/bin:/usr/bin:/bin")
    patch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")
    return module


def command(folder: Path, name: str, script: str) -> None:
    """Write a command of this node."""
    path = folder / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def missing(folder: Path, name: str, patch: pytest.MonkeyPatch) -> None:
    """Take a command from this node: only the commands of the folder are left."""
    (folder / "bin" / name).unlink(missing_ok=True)
    patch.setitem(sys.modules["metric_sources"].ENVIRONMENT, "PATH", f"{folder}/bin")
    patch.setenv("PATH", f"{folder}/bin")


def values(text: str) -> dict[str, float]:
    """Return each series with its value. Fails where a line is not of the text format, or a series is there twice."""
    lines = text.splitlines()
    assert all(LINE.fullmatch(line) for line in lines), lines
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    assert len(dict(pairs)) == len(pairs)
    return {series.replace("{}", ""): float(value) for series, value in pairs}


def up(text: str) -> dict[str, float]:
    """Return which sources answered."""
    name = re.compile(r'hpcforge_source_up\{collector="\w+",source="(.*)"\}')
    return {match[1]: value for series, value in values(text).items() if (match := name.fullmatch(series))}
