"""MIG layouts: which fit on a GPU and where, and their resources in Slurm."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from hpcforge.catalog import load_catalog
from hpcforge.cluster import load
from hpcforge.cluster.mig import MigInstance, mig_findings, placed
from tests.support.shipped import ROOT
from tests.unit.blueprint.drafts import draft, errors, places

GPUS = load_catalog().gpus


H100 = GPUS["h100-sxm"].mig or {}


SLICES = load(ROOT / "tests/unit/roles/blueprints/mig.yaml").cluster


@pytest.mark.parametrize("model", [name for name, gpu in GPUS.items() if gpu.mig])
def test_the_catalogs_profiles_are_as_many_as_nvidia_says(model: str) -> None:
    """Alone on a GPU: 7, 1 with media extensions, 4 with twice the memory, 3, 2, 1 and 1."""
    shapes = GPUS[model].mig or {}
    most = [max(count for count in range(1, 9) if placed({name: count}, shapes)) for name in shapes]
    assert most == [7, 1, 4, 3, 2, 1, 1]
    memory_gb = GPUS[model].memory_gb or 0
    whole = next(name for name in shapes if name.startswith("7g."))
    assert whole == f"7g.{memory_gb:g}gb"


def test_no_two_instances_take_the_same_slice_and_none_computes_with_what_there_is_not() -> None:
    """All that fits of an H100, of six profiles."""
    names = [name for name in H100 if not name.endswith("+me")]
    fits = 0
    for counts in product(*(range(len(H100[name].placements) + 1) for name in names)):
        asked = {name: count for name, count in zip(names, counts, strict=True) if count}
        found = placed(asked, H100)
        if not asked or found is None:
            continue
        fits += 1
        assert Counter(one.profile for one in found) == asked
        assert all(one.start in H100[one.profile].placements for one in found)
        taken = [one.start + slice_ for one in found for slice_ in range(H100[one.profile].size)]
        assert len(taken) == len(set(taken)) and max(taken) < 8
        assert sum(int(one.profile[0]) for one in found) <= 7
    assert fits > 50


def test_the_order_of_a_blueprint_does_not_matter() -> None:
    """NVIDIA's guide: 1g, 1g, 2g, 3g in this order is refused by the driver, and 3g first is not."""
    one = placed({"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}, H100)
    assert one == placed({"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}, H100)
    assert one == (
        MigInstance("3g.40gb", 4), MigInstance("2g.20gb", 0), MigInstance("1g.10gb", 2), MigInstance("1g.10gb", 3),
    )  # fmt: skip


def test_slurm_is_told_of_every_instance_by_profile_and_of_whole_gpus_beside_them() -> None:
    gpus = SLICES.by_name["b01"].gpus
    assert gpus and gpus.types == (
        ("h100-sxm_3g.40gb", 5), ("h100-sxm_2g.20gb", 1), ("h100-sxm_1g.10gb", 1), ("h100-sxm_1g.10gb.me", 1),
        ("h100-sxm", 1),
    )  # fmt: skip
    assert sum(count for _, count in gpus.types) == len(gpus.gres) == len({gres.files for gres in gpus.gres})
    whole = SLICES.by_name["c01"].gpus
    assert whole and (whole.types, whole.links) == ((("h100-sxm", 8),), ())


def test_a_node_with_fewer_gpus_keeps_the_layout_of_those_that_it_has(tmp_path: Path) -> None:
    text = (ROOT / "tests/unit/roles/blueprints/mig.yaml").read_text()
    fewer = 'overrides: {b01: {gpus: {model: h100-sxm, count: 2}, reason: "two are away"}}\n'
    (tmp_path / "b.yaml").write_text(text + fewer)
    gpus = load(tmp_path / "b.yaml").cluster.by_name["b01"].gpus
    assert gpus and [len(instances) for instances in gpus.mig] == [4, 2]
    (tmp_path / "b.yaml").write_text(text + fewer.replace("h100-sxm", "l40s"))
    gpus = load(tmp_path / "b.yaml").cluster.by_name["b01"].gpus
    assert gpus and gpus.mig == ()


@pytest.mark.parametrize(
    ("hardware", "mig", "places_"),
    [
        ("dgx-h100", '{"all": {1g.10gb: 7}}', []),
        ("dgx-h100", '{"0-1": {3g.40gb: 2}, "2": {7g.80gb: 1}}', []),
        ("dgx-h100", '{"all": {1g.10gb: 6, 2g.20gb: 1}}', ["mig.all"]),  # slices
        ("dgx-h100", '{"all": {1g.10gb+me: 2}}', ["mig.all"]),  # one alone has the media engines
        ("dgx-h100", '{"all": {4g.40gb: 2}}', ["mig.all"]),  # it starts at slice 0
        ("dgx-h100", '{"all": {1g.20gb: 1, 9g.10gb: 1}}', None),  # no profile at all
        ("dgx-h100", '{"all": {1g.5gb: 1}}', ["mig.all.1g.5gb"]),
        ("dgx-h100", '{"0-3": {7g.80gb: 1}, "3": {7g.80gb: 1}}', ["mig.3"]),
        ("dgx-h100", '{"8": {7g.80gb: 1}}', ["mig.8"]),
        ("generic-2u", '{"all": {7g.80gb: 1}}', ["mig"]),
        ("generic-2u, gpus: {model: l40s, count: 2}", '{"all": {7g.80gb: 1}}', ["mig"]),
    ],
)
def test_a_layout_that_gpus_cannot_have_is_an_error(hardware: str, mig: str, places_: list[str] | None) -> None:
    workers = ("hardware: rehearsal-node, gpus: {model: fake, count: 2}", f"hardware: {hardware}, mig: {mig}")
    findings = places(mig_findings(draft(workers), load_catalog()))
    assert findings == errors(*(f"nodes.w[01-04].{place}" for place in places_ or []))


@pytest.mark.parametrize(("enforce", "wrong"), [("[cores, memory]", ["slurm.enforce"]), ("[gpus]", [])])
def test_jobs_are_limited_to_their_instances(enforce: str, wrong: list[str]) -> None:
    workers = (
        "hardware: rehearsal-node, gpus: {model: fake, count: 2}",
        'hardware: dgx-h100, mig: {"0": {7g.80gb: 1}}',
    )
    limited = ("  reserve:", f"  enforce: {enforce}\n  reserve:")
    assert places(mig_findings(draft(workers, limited), load_catalog())) == errors(*wrong)
