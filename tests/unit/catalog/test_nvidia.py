"""Archives of NVIDIA's packages as data."""

from __future__ import annotations

import subprocess

import pytest

from hpcforge.catalog.nvidia import Archive, archive_name, bare_name, load_archives, named


@pytest.mark.parametrize("archive", sorted(load_archives()))
def test_pins_have_no_regular_expression_which_apt_would_compile_for_each_name(archive: str) -> None:
    known = load_archives()[archive]
    pinned = (known.pinned, known.pinned_modules, known.pinned_dcgm, known.pinned_container_toolkit)
    assert not [name for names in pinned for name in names if "/" in name]


@pytest.mark.parametrize(
    ("patterns", "matching"),
    [
        (["nvidia-driver"], ["nvidia-driver"]),
        (["nvidia-*"], ["nvidia-driver", "nvidia-"]),
        (["libc.so+"], ["libc.so+"]),
        (["lib[0-9]"], ["lib7"]),
        (["nvidia-driver", "lib[0-9]"], ["nvidia-driver", "lib7"]),
    ],
)
def test_patterns_are_a_condition_of_awk_on_whole_names(patterns: list[str], matching: list[str]) -> None:
    """As awk itself reads them."""
    names = ["nvidia-driver", "nvidia-", "libc.so+", "libcxso+", "libc.soo", "lib7", "lib77", "x-nvidia-driver"]
    listed = "".join(f"ii source 1 {name}\n" for name in names)
    argv = ["awk", f"{named(patterns)} {{print $4}}"]
    output = subprocess.run(argv, input=listed, capture_output=True, text=True, check=True).stdout
    assert output.split() == matching


def test_an_archive_is_named_by_its_release_and_who_publishes_it() -> None:
    assert archive_name("debian", "12", nvidias=False) == "debian-12"
    assert archive_name("debian", "12", nvidias=True) == "nvidia-debian-12"
    assert {"debian-12", "nvidia-debian-12"} <= set(load_archives())


@pytest.mark.parametrize(
    ("name", "bare"), [("NVIDIA H100", "H100"), ("NVIDIA Tesla T4", "T4"), ("Tesla V100", "V100"), ("A100", "A100")]
)
def test_brands_of_gpus_are_left_out(name: str, bare: str) -> None:
    assert bare_name(name) == bare


def test_an_archive_that_nobody_knows_pins_nothing_there_is() -> None:
    assert Archive().pinned == Archive().pinned_dcgm == ("hpcforge-nothing",)
    assert (Archive().driver, Archive().repository) == ((), None)
