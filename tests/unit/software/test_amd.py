"""What is said of a blueprint that asks for ROCm: what Debian has, and which GPUs it knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.cluster import Loaded, load
from tests.support.shipped import ROOT

TEXT = (ROOT / "tests" / "unit" / "roles" / "blueprints" / "amd.yaml").read_text()
LINE = TEXT.splitlines().index('  amd: {rocm: "5.7.1"}') + 1
MI210 = (
    "  m[01-02]: {functions: [worker], hardware: oam-8u",
    "  m[01-02]: {functions: [worker], hardware: card-4u, gpus: {model: mi210, count: 2}",
)


def loaded(folder: Path, rocm: str, release: str = "13", *changes: tuple[str, str]) -> Loaded:
    text = TEXT.replace('rocm: "5.7.1"', f'rocm: "{rocm}"').replace('release: "13"', f'release: "{release}"')
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "blueprint.yaml"
    path.write_text(text)
    return load(path, judged=True)


# what is asked of which release, with or without MI300X; the code and the hint
NOT_THERE = {
    "the ROCm of the next release": (
        "5.7.1",
        "12",
        True,
        "SOFTWARE-121",
        "nearest set that works: software.amd.rocm: 5.2.3",
    ),
    "the ROCm of the release before": (
        "5.2.3",
        "13",
        True,
        "SOFTWARE-122",
        "nearest set that works: software.amd.rocm: 5.7.1",
    ),
    "one that AMD alone has": ("6.4.1", "13", True, "SOFTWARE-122", "nearest set that works: software.amd.rocm: 5.7.1"),
    "MI300X with a ROCm that is too old": ("5.2.3", "12", False, "SOFTWARE-124", "no set of versions"),
    "a distribution of which nothing is known": ("5.7.1", "24.04", True, "SOFTWARE-120", "no set of versions"),
}


@pytest.mark.parametrize("case", NOT_THERE)
def test_what_cannot_work_is_refused_with_the_nearest_that_can(case: str, tmp_path: Path) -> None:
    rocm, release, small, code, hint = NOT_THERE[case]
    changes = [MI210] if small else []
    changes += [("name: debian", "name: ubuntu")] if release == "24.04" else []
    with pytest.raises(InvalidInput) as refused:
        loaded(tmp_path, rocm, release, *changes)
    (found,) = (diagnostic for diagnostic in refused.value.diagnostics if diagnostic.severity == "error")
    assert found.message.startswith(code)
    assert found.line == LINE
    assert hint in (found.hint or "")


def test_what_debian_has_and_knows_is_accepted(tmp_path: Path) -> None:
    for rocm, release, changes in (("5.7.1", "13", []), ("5.2.3", "12", [MI210])):
        found = loaded(tmp_path, rocm, release, *changes)
        said = [one for one in (*found.diagnostics, *found.not_checked) if one.message.startswith("SOFTWARE-")]
        assert said == []


def test_what_is_of_no_use_is_refused(tmp_path: Path) -> None:
    none = ("    gpus: {model: mi210, count: 1}\n", "")
    bare = (MI210[0], "  m[01-02]: {functions: [worker], hardware: card-4u")
    with pytest.raises(InvalidInput, match="no node has an AMD GPU, so nothing would be installed"):
        loaded(tmp_path, "5.7.1", "13", none, bare)
    nvidias = ('  amd: {rocm: "5.7.1"}', '  nvidia: {driver: "550.163.01", modules: open}')
    with pytest.raises(InvalidInput, match="no node has an NVIDIA GPU"):
        loaded(tmp_path, "5.7.1", "13", nvidias)


def test_pytorch_for_amd_has_no_pinned_build_and_is_refused(tmp_path: Path) -> None:
    asked = ('  amd: {rocm: "5.7.1"}', '  amd: {rocm: "5.7.1"}\n  frameworks: {pytorch: "2.10.0"}')
    with pytest.raises(InvalidInput, match=r"no pinned build of PyTorch 2.10.0 for Python 3.13 and rocm"):
        loaded(tmp_path, "5.7.1", "13", asked)


def test_an_update_of_one_makers_says_nothing_of_the_others(tmp_path: Path) -> None:
    """NVIDIA's repository does not have ROCm, which comes from Debian all the same."""
    both = (
        ("gpus: {model: mi210, count: 1}", "gpus: {model: l40s, count: 1}"),
        ('  amd: {rocm: "5.7.1"}', '  amd: {rocm: "5.7.1"}\n  nvidia: {driver: "550.163.01", modules: open}'),
    )
    cluster = loaded(tmp_path, "5.7.1", "13", *both).cluster
    assert cluster.amd is not None
    assert cluster.nvidia is not None
    by_name = cluster.by_name
    assert [cluster.amd.on(by_name[name]) for name in ("head", "m01", "c01")] == [False, True, False]
    assert [cluster.nvidia.on(by_name[name]) for name in ("head", "m01", "c01")] == [False, False, True]
