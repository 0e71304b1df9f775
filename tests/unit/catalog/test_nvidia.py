"""Archives of NVIDIA's packages as data."""

from __future__ import annotations

import pytest

from hpcforge.catalog.nvidia import load_archives


@pytest.mark.parametrize("archive", sorted(load_archives()))
def test_pins_have_no_regular_expression_which_apt_would_compile_for_each_name(archive: str) -> None:
    known = load_archives()[archive]
    pinned = (known.pinned, known.pinned_modules, known.pinned_dcgm, known.pinned_container_toolkit)
    assert not [name for names in pinned for name in names if "/" in name]
