"""A GPU's name in a site's file as a model of the catalog, or as a model of the blueprint's own. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hpcforge.blueprint.sections.hardware import FormFactor, Gpu
from hpcforge.catalog import Catalog

_BRANDS = {"nvidia", "tesla", "quadro", "geforce", "amd", "instinct", "radeon", "gpu"}
_MEMORY = re.compile(r"([0-9]{2,3})(?:g|gb|gib)?")
_FORMS: dict[str, tuple[FormFactor, ...]] = {
    "sxm": ("sxm2", "sxm3", "sxm4", "sxm5", "sxm6"),
    "sxm2": ("sxm2",), "sxm3": ("sxm3",), "sxm4": ("sxm4",), "sxm5": ("sxm5",), "sxm6": ("sxm6",),
    "pcie": ("pcie",), "pci": ("pcie",), "oam": ("oam",),
}  # fmt: skip
_NO_VARIANT = {"hbm2", "hbm2e", "hbm3", "hbm3e"}  # words that do not distinguish models of the catalog
_LONGEST = 40  # length of a model's name, which is part of other names


@dataclass(frozen=True)
class GpuChoice:
    """A model for a GPU's name. `entry`: what `parts.gpus` has of a model that the catalog lacks."""

    model: str
    gpu: Gpu
    entry: str = ""
    sure: bool = True


def gpu_choices(name: str, catalog: Catalog) -> list[GpuChoice]:
    """Return the models with a name, in the catalog's order; those without liquid cooling, if there are any.

    The name is a type of Slurm (`a100`, `nvidia_a100-pcie-40gb`) or a driver's. If the catalog has no such model, the
    one choice is a model of the blueprint: the numbers of another would be wrong.
    """
    slug = _slug(name).removesuffix("null")  # YAML reads it as an empty value
    words = [word for word in slug.split("-") if word not in _BRANDS]
    bare = "-".join(words)
    if model := _by_driver_name(catalog).get(bare):
        return [GpuChoice(model, catalog.gpus[model], sure=catalog.gpus[model].vendor != "amd")]
    if bare in catalog.gpus:
        return [GpuChoice(bare, catalog.gpus[bare])]
    family, memory_gb, forms, variant = _qualifiers(words, catalog)
    fitting = [] if variant else [
        model for model in family
        if _memory_fits(catalog.gpus[model], memory_gb) and (not forms or catalog.gpus[model].form_factor in forms)
    ]  # fmt: skip
    by_air = [model for model in fitting if catalog.gpus[model].cooling != "liquid"] or fitting
    if by_air:
        return [GpuChoice(model, catalog.gpus[model], sure=len(by_air) == 1) for model in by_air]
    return [_own_model(slug.strip("-.") or "gpu", words, [catalog.gpus[model] for model in family], memory_gb, forms)]


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")


def _by_driver_name(catalog: Catalog) -> dict[str, str]:
    """Models by the names that drivers have for them, as Slurm's AutoDetect writes these, without the brand."""
    names = ((name, called) for name, gpu in catalog.gpus.items() for called in gpu.driver_names or ())
    return {"-".join(word for word in _slug(called).split("-") if word not in _BRANDS): name for name, called in names}


def _qualifiers(words: list[str], catalog: Catalog) -> tuple[list[str], float | None, tuple[FormFactor, ...], bool]:
    """Models of the family that the first word names, then memory and form factors, and whether it is a variant."""
    families = sorted({name.split("-")[0] for name in catalog.gpus}, key=len, reverse=True)
    family = next((family for family in families if words and words[0].startswith(family)), None)
    if family is None:
        return [], None, (), False
    memory_gb: float | None = None
    forms: tuple[FormFactor, ...] = ()
    variant = False
    for word in (words[0].removeprefix(family), *words[1:]):
        if match := _MEMORY.fullmatch(word):
            memory_gb = float(match[1])
        elif word in _FORMS:
            forms = _FORMS[word]
        elif word and word not in _NO_VARIANT:
            variant = True
    models = [name for name in catalog.gpus if name.split("-")[0] == family]
    return models, memory_gb, forms, variant


def _memory_fits(gpu: Gpu, memory_gb: float | None) -> bool:
    return memory_gb is None or gpu.memory_gb is None or abs(gpu.memory_gb - memory_gb) <= 0.05 * memory_gb


def _own_model(
    slug: str, words: list[str], family: list[Gpu], memory_gb: float | None, forms: tuple[FormFactor, ...]
) -> GpuChoice:
    """Make a model of the facts in its name; the architecture is the family's."""
    first = words[0] if words else ""
    amd = "amd" in slug or "radeon" in slug or "instinct" in slug or bool(re.match(r"mi[0-9]|gfx", first))
    facts = {
        "vendor": "amd" if amd else "nvidia",
        "architecture": _common(gpu.architecture for gpu in family),
        "memory_gb": memory_gb,
        "form_factor": forms[0] if len(forms) == 1 else None,
    }
    stated = {fact: value for fact, value in facts.items() if value is not None}
    text = ", ".join(f"{fact}: {f'{value:g}' if fact == 'memory_gb' else value}" for fact, value in stated.items())
    return GpuChoice(slug[:_LONGEST].strip("-."), Gpu.model_validate(stated), f"{{{text}}}", sure=False)


def _common(values: Iterable[str | None]) -> str | None:
    """Return the value that all have, if there is one."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def own_models(choices: Iterable[GpuChoice]) -> Iterator[tuple[str, str]]:
    """Yield name and entry of each model that `parts.gpus` needs."""
    yield from {choice.model: choice.entry for choice in choices if choice.entry}.items()
