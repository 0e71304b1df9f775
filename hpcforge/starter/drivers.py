"""The driver and the PyTorch of a first blueprint: the first offered that its GPUs run with. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hpcforge.blueprint.hardware import Gpu
from hpcforge.blueprint.reader import Loc
from hpcforge.catalog import Catalog
from hpcforge.catalog.compatibility import Component, load_compatibility
from hpcforge.catalog.nvidia import archive_name
from hpcforge.software.solve import MATCHED, StatedComponent, is_error, judge
from hpcforge.starter.hardware import HardwareChoice

System = tuple[str, str]  # name and release of a distribution
_NO_PLACE: Loc = ()  # rules are judged before there is a blueprint


def pytorch_version(hardware: Sequence[HardwareChoice], system: System, catalog: Catalog) -> str | None:
    """Return the first build of PyTorch that the catalog pins for a distribution and its GPUs.

    Without GPUs, a distribution that has no pinned build brings its own package in place of Debian 12's version. None:
    there is neither.
    """
    vendors = {gpu.vendor for gpu in _models(hardware)}
    device = "cuda" if "nvidia" in vendors else "rocm" if "amd" in vendors else "cpu"
    systems = catalog.distributions
    builds = catalog.pytorch_builds(device, systems[system])
    if not builds and device == "cpu" and systems[system].pytorch:
        builds = catalog.pytorch_builds("cpu", systems["debian", "12"])
    return builds[0].version if builds else None


def present_driver(hardware: Sequence[HardwareChoice], system: System, catalog: Catalog) -> str | None:
    """Return `software.preinstalled` for these nodes: the oldest driver offered that all their GPUs run with.

    None: they have no GPUs of NVIDIA, or no driver is for all of them.
    """
    return _driver(hardware, _facts(hardware, system, catalog), ("", "open"))


def installed_driver(hardware: Sequence[HardwareChoice], system: System, catalog: Catalog) -> str | None:
    """Return `software.nvidia` for these nodes: the oldest driver that the distribution has for all their GPUs."""
    source = StatedComponent("source", archive_name(*system, nvidias=False), _NO_PLACE, installed=True)
    if any(each.nvswitch for each in hardware):
        return None  # the distribution has no Fabric Manager
    return _driver(hardware, [*_facts(hardware, system, catalog), source], ("open", "closed"))


def _models(hardware: Iterable[HardwareChoice]) -> Iterator[Gpu]:
    yield from (each.choice.gpu for each in hardware if each.choice)


def _facts(hardware: Sequence[HardwareChoice], system: System, catalog: Catalog) -> list[StatedComponent]:
    """What no choice of a driver changes: GPUs, NVSwitches, and the CUDA of the pinned PyTorch."""
    facts: list[tuple[Component, str]] = [
        ("gpu", gpu.architecture) for gpu in _models(hardware) if gpu.vendor == "nvidia" and gpu.architecture
    ]
    version = pytorch_version(hardware, system, catalog)
    build = catalog.pytorch_build(version, "cuda", catalog.distributions[system]) if version else None
    if build and build.cuda:
        facts.append(("pytorch_cuda", build.cuda))
    if any(each.nvswitch for each in hardware):
        facts += [("nvswitch", "true"), ("fabric_manager", MATCHED)]
    return [StatedComponent(component, value, _NO_PLACE, fixed=True) for component, value in facts]


def _driver(hardware: Sequence[HardwareChoice], facts: Sequence[StatedComponent], modules: Sequence[str]) -> str | None:
    if not any(gpu.vendor == "nvidia" for gpu in _models(hardware)):
        return None
    table = load_compatibility()
    installed = any(fact.installed for fact in facts)
    matched = any(fact.component == "fabric_manager" for fact in facts)
    for version in table.offered["driver"]:
        for kind in modules:
            stated: list[tuple[Component, str]] = [("driver", version)]
            stated += [("modules", kind)] if kind else []
            chosen = [StatedComponent(name, value, _NO_PLACE, installed=installed) for name, value in stated]
            if not any(is_error(broken) for broken in judge([*facts, *chosen], table.rules)):
                text = f'driver: "{version}"' + (f", modules: {kind}" if kind else "")
                return f"{{{text}{', fabric_manager: matched' if matched else ''}}}"
    return None
