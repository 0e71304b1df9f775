"""The solver by itself: each row of the table is planted and mended, and proposals are the nearest by trying all."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations, product
from typing import cast

import pytest

from hpcforge.catalog.compatibility import Compatibility, Component, load_compatibility
from hpcforge.software.solve import StatedComponent, changes, is_error, judge, nearest, within

TABLE = load_compatibility()
FACTS = ("gpu", "nvswitch", "secure_boot", "pytorch_cuda", "slurm", "slurm_oldest", "source", "rocm_source")


def software(text: str) -> tuple[StatedComponent, ...]:
    """A set as one line: `driver=535.261.03 cuda=11.8 cuda=12.4`; one with `source=` is installed."""
    pairs = [word.partition("=") for word in text.split()]
    return tuple(
        StatedComponent(
            cast("Component", name), value, ("software", name), fixed=name in FACTS, installed="source=" in text
        )
        for name, _, value in pairs
    )


def as_text(said: Sequence[StatedComponent] | None) -> str | None:
    return None if said is None else " ".join(f"{one.component}={one.value}" for one in said)


# code: a set that breaks it and no other, and one of the same components that breaks none
CASES = {
    "SOFTWARE-001": ("cuda=11.8 driver=450.51.06", "cuda=11.8 driver=450.80.02"),
    "SOFTWARE-002": ("cuda=12.4 driver=520.61.05", "cuda=12.4 driver=525.60.13"),
    "SOFTWARE-003": ("cuda=13.0 driver=570.172.08", "cuda=13.0 driver=580.82.07"),
    "SOFTWARE-004": ("pytorch_cuda=12.8 driver=470.256.02", "pytorch_cuda=12.8 driver=535.261.03"),
    "SOFTWARE-005": ("pytorch_cuda=13.0 driver=550.163.01", "pytorch_cuda=13.0 driver=580.82.07"),
    "SOFTWARE-006": ("gpu=hopper pytorch_cuda=11.7", "gpu=hopper pytorch_cuda=12.8"),
    "SOFTWARE-007": ("gpu=blackwell pytorch_cuda=12.6", "gpu=blackwell pytorch_cuda=12.8"),
    "SOFTWARE-008": ("gpu=volta pytorch_cuda=13.0", "gpu=volta pytorch_cuda=12.8"),
    "SOFTWARE-010": ("gpu=volta driver=590.44.01", "gpu=volta driver=580.82.07"),
    "SOFTWARE-011": ("gpu=hopper driver=515.105.01", "gpu=hopper driver=535.261.03"),
    "SOFTWARE-012": ("gpu=blackwell driver=550.163.01 modules=open", "gpu=blackwell driver=570.172.08 modules=open"),
    "SOFTWARE-013": ("gpu=blackwell driver=580.82.07 modules=closed", "gpu=blackwell driver=580.82.07 modules=open"),
    "SOFTWARE-014": ("gpu=volta modules=open", "gpu=volta modules=closed"),
    "SOFTWARE-015": ("modules=open driver=470.256.02", "modules=open driver=535.261.03"),
    "SOFTWARE-020": ("nvswitch=true driver=535.261.03", "nvswitch=true driver=535.261.03 fabric_manager=matched"),
    "SOFTWARE-021": ("fabric_manager=530.30.02 driver=530.41.03", "fabric_manager=530.41.03 driver=530.41.03"),
    "SOFTWARE-030": ("driver=525.125.06 kernel=6.6.1", "driver=525.147.05 kernel=6.6.1"),
    "SOFTWARE-031": ("driver=570.153.02 kernel=6.15.2-1-liquorix", "driver=570.169 kernel=6.15.2-1-liquorix"),
    "SOFTWARE-032": ("driver=470.256.02 kernel=6.12.7_1", "driver=470.256.02 kernel=6.1.0-40-amd64"),
    "SOFTWARE-033": ("kernel=5.14.0-687.12.1.el9_8 ofed=3.2.2", "kernel=5.14.0-687.12.1.el9_8 ofed=3.2.3"),
    "SOFTWARE-034": ("driver=550.163.01 kernel=6.17.13-2-pve", "driver=550.163.01 kernel=6.12.0"),
    "SOFTWARE-040": ("secure_boot=true driver=535.261.03 signed_by=none",
                     "secure_boot=true driver=535.261.03 signed_by=owner"),
    "SOFTWARE-041": ("secure_boot=true driver=580.119.02 signed_by=owner kernel=6.18.48-amd64",
                     "secure_boot=true driver=580.119.02 signed_by=owner kernel=6.6.155-amd64"),
    "SOFTWARE-050": ("driver=580.82.07 dcgm=3.3.9", "driver=580.82.07 dcgm=4.5.3"),
    "SOFTWARE-051": ("dcgm=3.1.3 driver=418.226.00", "dcgm=3.1.3 driver=460.106.00"),
    "SOFTWARE-060": ("container_toolkit=1.17.8 driver=410.129", "container_toolkit=1.17.8 driver=535.261.03"),
    "SOFTWARE-070": ("gpudirect=peermem", "gpudirect=peermem ofed=3.2.3"),
    "SOFTWARE-071": ("gpudirect=dma-buf modules=closed kernel=6.1.0", "gpudirect=dma-buf modules=open kernel=6.1.0"),
    "SOFTWARE-072": ("gpudirect=dma-buf modules=open kernel=5.10.0-30-amd64",
                     "gpudirect=dma-buf modules=open kernel=5.12.0"),
    "SOFTWARE-080": ("slurm_topology=block slurm=22.05", "slurm_topology=block slurm=24.11"),
    "SOFTWARE-081": ("slurm_shards=shared slurm=23.11.4", "slurm_shards=shared slurm=24.11"),
    "SOFTWARE-082": ("slurm_second_topology=block slurm_oldest=24.11",
                     "slurm_second_topology=block slurm_oldest=25.05"),
    "SOFTWARE-090": ("source=ubuntu-24.04 driver=550.163.01", "source=debian-13 driver=550.163.01"),
    "SOFTWARE-091": ("source=debian-12 driver=550.163.01", "source=debian-12 driver=535.309.01"),
    "SOFTWARE-092": ("source=debian-12 driver=535.309.01 modules=open",
                     "source=debian-12 driver=535.261.03 modules=open"),
    "SOFTWARE-093": ("source=debian-12 driver=535.261.03 cuda=12.4", "source=debian-12 driver=535.261.03 cuda=11.8"),
    "SOFTWARE-094": ("source=debian-13 driver=535.261.03", "source=debian-13 driver=550.163.01"),
    "SOFTWARE-095": ("source=debian-13 driver=550.163.01 cuda=11.8", "source=debian-13 driver=550.163.01 cuda=12.4"),
    "SOFTWARE-096": ("source=nvidia-debian-12 driver=550.163.01", "source=nvidia-debian-12 driver=570.172.08"),
    "SOFTWARE-097": ("source=nvidia-debian-13 driver=570.172.08", "source=nvidia-debian-13 driver=580.82.07"),
    "SOFTWARE-098": ("source=nvidia-debian-12 driver=580.82.07 cuda=11.8",
                     "source=nvidia-debian-12 driver=580.82.07 cuda=12.8"),
    "SOFTWARE-099": ("source=nvidia-debian-13 driver=580.82.07 cuda=12.8",
                     "source=nvidia-debian-13 driver=580.82.07 cuda=13.0"),
    "SOFTWARE-100": ("source=debian-12 driver=535.261.03 dcgm=4.5.3",
                     "source=nvidia-debian-12 driver=570.172.08 dcgm=4.5.3"),
    "SOFTWARE-101": ("source=nvidia-debian-12 driver=570.172.08 dcgm=3.3.9",
                     "source=nvidia-debian-12 driver=570.172.08 dcgm=4.5.3"),
    "SOFTWARE-102": ("source=debian-12 driver=535.261.03 container_toolkit=1.17.8",
                     "source=nvidia-debian-12 driver=570.172.08 container_toolkit=1.17.8"),
    "SOFTWARE-103": ("source=nvidia-ubuntu-24.04 driver=570.172.08", "source=nvidia-ubuntu-24.04 driver=580.82.07"),
    "SOFTWARE-104": ("source=nvidia-ubuntu-24.04 driver=580.82.07 cuda=12.4",
                     "source=nvidia-ubuntu-24.04 driver=580.82.07 cuda=12.8"),
    "SOFTWARE-120": ("rocm_source=ubuntu-24.04 rocm=5.7.1", "rocm_source=debian-13 rocm=5.7.1"),
    "SOFTWARE-121": ("rocm_source=debian-12 rocm=5.7.1", "rocm_source=debian-12 rocm=5.2.3"),
    "SOFTWARE-122": ("rocm_source=debian-13 rocm=6.1.2", "rocm_source=debian-13 rocm=5.7.1"),
    "SOFTWARE-123": ("gpu=cdna2 rocm=4.5.2", "gpu=cdna2 rocm=5.2.3"),
    "SOFTWARE-124": ("gpu=cdna3 rocm=5.2.3", "gpu=cdna3 rocm=5.7.1"),
}  # fmt: skip


def test_every_rule_has_a_case() -> None:
    codes = [rule.code for rule in TABLE.rules]
    assert codes == sorted(set(codes)) == list(CASES)


@pytest.mark.parametrize("code", CASES)
def test_each_rule_refuses_what_it_is_about_and_nothing_else(code: str) -> None:
    wrong, right = map(software, CASES[code])
    of_wrong = [one for one in judge(wrong, TABLE.rules) if one.missing is None or one.rule.required]
    assert [one.rule.code for one in of_wrong] == [code]
    assert not [one for one in judge(right, TABLE.rules) if one.missing is None or one.rule.required]


@pytest.mark.parametrize("code", CASES)
def test_what_is_proposed_breaks_nothing_and_changes_no_fact(code: str) -> None:
    wrong = software(CASES[code][0])
    proposal = nearest(wrong, TABLE)
    if proposal is None:
        # PyTorch's wheels, GPUs and the distribution are facts
        assert code in (
            "SOFTWARE-006",
            "SOFTWARE-007",
            "SOFTWARE-008",
            "SOFTWARE-090",
            "SOFTWARE-100",
            "SOFTWARE-102",
            "SOFTWARE-120",
        )
        return
    assert not any(map(is_error, judge(proposal, TABLE.rules)))
    assert not any(old and old.fixed for old, _ in changes(wrong, proposal))


@pytest.mark.parametrize(
    ("wrong", "proposed"),
    [
        ("cuda=13.0 driver=535.261.03", "cuda=12.8 driver=535.261.03"),  # one toolkit back, not three drivers on
        ("pytorch_cuda=12.8 driver=470.256.02", "pytorch_cuda=12.8 driver=535.261.03"),
        ("driver=580.82.07 fabric_manager=580.65.06", "driver=580.82.07 fabric_manager=matched"),
        (
            "gpu=blackwell nvswitch=true driver=535.261.03 dcgm=3.3.9",
            "gpu=blackwell nvswitch=true driver=570.172.08 dcgm=3.3.9 fabric_manager=matched modules=open",
        ),
        (  # six things at once
            "gpu=blackwell nvswitch=true driver=470.256.02 dcgm=3.3.9 cuda=13.0 modules=closed gpudirect=dma-buf "
            "kernel=5.10.0 secure_boot=true signed_by=none",
            "gpu=blackwell nvswitch=true driver=570.172.08 dcgm=3.3.9 cuda=12.8 modules=open gpudirect=dma-buf "
            "kernel=6.1.0 secure_boot=true signed_by=owner fabric_manager=matched",
        ),
        (  # many ways, none of which helps
            "gpu=volta gpu=blackwell driver=470.256.02 modules=open cuda=13.0 cuda=13.1 cuda=13.2 cuda=12.0 cuda=12.1 "
            "cuda=12.2 nvswitch=true dcgm=3.3.9 gpudirect=peermem kernel=5.10.0 secure_boot=true ofed=3.0",
            None,
        ),
        ("gpu=volta gpu=blackwell driver=570.172.08 modules=open", None),  # no driver's modules are for both
        ("cuda=11.8 cuda=12.4 driver=440.33.01", "cuda=11.8 cuda=12.4 driver=535.261.03"),
    ],
)
def test_the_nearest_set(wrong: str, proposed: str | None) -> None:
    found = nearest(software(wrong), TABLE)
    assert as_text(found) == proposed


def test_no_set_with_fewer_changes_works() -> None:
    """Against every set that can be made of what is offered, for sets drawn at random."""
    draw = random.Random(16)
    drawn = {
        "driver": ["450.51.06", "525.60.13", *TABLE.offered["driver"]],
        "modules": ["open", "closed"],
        "fabric_manager": ["535.216.01", "matched"],
        "cuda": ["11.8", "12.4", "13.0"],
        "dcgm": ["3.3.9", "4.5.3"],
        "gpu": ["volta", "ampere", "hopper", "blackwell"],
        "gpudirect": ["dma-buf"],
        "kernel": ["5.10.0", "6.15.0"],
        "nvswitch": ["true"],
    }
    mended = impossible = 0
    for _ in range(60):
        names = ["driver", *draw.sample(sorted(set(drawn) - {"driver"}), 4)]
        names += ["gpu"] * draw.randint(0, 1)  # a second kind, perhaps
        given = software(" ".join(f"{name}={draw.choice(drawn[name])}" for name in names))
        broken = any(is_error(one) for one in judge(given, TABLE.rules))
        missing = {one.missing for one in judge(given, TABLE.rules) if one.missing and one.rule.required}
        if not broken or missing:
            continue
        found, least = nearest(given, TABLE), _fewest_changes(given, TABLE)
        mended, impossible = mended + (found is not None), impossible + (found is None)
        assert (found and len(list(changes(given, found)))) == least, as_text(given)
    assert mended > 10
    assert impossible > 0


def _fewest_changes(given: tuple[StatedComponent, ...], table: Compatibility) -> int | None:
    free = [place for place, said in enumerate(given) if not said.fixed]
    for count in range(1, len(free) + 1):
        for places in combinations(free, count):
            for values in product(*(table.offered.get(given[place].component, {}) for place in places)):
                there = dict(zip(places, values, strict=True))
                other = tuple(
                    StatedComponent(said.component, there.get(place, said.value), said.loc, said.fixed)
                    for place, said in enumerate(given)
                )
                if not any(map(is_error, judge(other, table.rules))):
                    return count
    return None


def test_what_is_offered_is_in_order() -> None:
    assert {*TABLE.offered} <= {*Component.__args__}  # type: ignore[attr-defined]
    for component in ("driver", "cuda", "dcgm", "kernel"):
        versions = [tuple(map(int, version.split("."))) for version in TABLE.offered[component]]  # type: ignore[index]
        assert versions == sorted(versions)


@pytest.mark.parametrize(
    ("value", "wanted", "is_in"),
    [
        ("535.261.03", ">=525.60.13", True),
        ("525.60.11", ">=525.60.13", False),
        ("570.124", ">=570.124.6", False),
        ("6.1.0-40-amd64", ">=6.1.0-40", True),
        ("5.14.0-570.12.1.el9_6", ">=5.14.0-687, <5.15", False),
        ("open", "open | closed", True),
        ("none", "owner | distribution", False),
        ("anything", "any", True),
    ],
)
def test_ranges(value: str, wanted: str, is_in: bool) -> None:
    assert within(value, wanted) is is_in
