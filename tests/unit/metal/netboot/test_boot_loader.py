"""GRUB's first sector and core name each other's places."""

from __future__ import annotations

import struct

import pytest

from hpcforge.metal.netboot import installer


def test_places_are_where_grub_reads_them() -> None:
    boot, core = installer.on_bios(bytes(512), bytes(2000))
    assert struct.unpack_from("<Q", boot, 0x5C) == (2048,)
    assert struct.unpack_from("<Q", core, 500) == (2049,)
    assert len(boot) == 512 and len(core) == 2000
    with pytest.raises(ValueError, match="one sector"):
        installer.on_bios(bytes(510), bytes(2000))
