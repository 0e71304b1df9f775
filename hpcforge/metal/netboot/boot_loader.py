"""GRUB as bytes: what an installed disk starts with, made once here and not on each machine. Pure but for grub-mkimage.

On BIOS the first sector names the first sector of GRUB's core, and that one where the rest of it is; grub-bios-setup
would write both, and needs the disk. With UEFI a program on a FAT partition is what firmware looks for.
"""

from __future__ import annotations

import struct
import subprocess
import tempfile
from pathlib import Path

from hpcforge.errors import ExpectedError
from hpcforge.metal.netboot.configurations import EFI_LABEL

CORE_SECTOR = 2048  # where the installer's partition table has the partition for the core
_KERNEL_SECTOR = 0x5C  # in boot.img (GRUB 2.06, grub-core/boot/i386/pc/boot.S): first sector of the core
_REST_SECTOR = 512 - 12  # in diskboot.img, the core's first sector: of the rest of it (diskboot.S, blocklist_default)
_ESP_KIB = 64 * 1024
_BOTH = (
    "part_gpt", "diskfilter", "mdraid1x", "ext2", "linux", "normal", "search", "search_label", "configfile", "serial",
    "terminal",
)  # fmt: skip
_BIOS = ("biosdisk", *_BOTH)
_EFI = ("fat", *_BOTH)
# Without the hint arrays are not looked for. installer.sh gives them their names.
_CONFIG = """\
serial --unit=0 --speed=115200
terminal_output console serial
search --no-floppy --hint=md/system0 --label --set=root root
configfile ($root)/boot/grub/hpcforge.cfg
"""
PACKAGES = ("grub-common", "grub-pc-bin", "grub-efi-amd64-bin", "mtools", "dosfstools")


class BootLoaderError(ExpectedError):
    """GRUB cannot be made here."""


def on_bios(boot: bytes, core: bytes) -> tuple[bytes, bytes]:
    """Return the first sector and the core with the places of each other. Raises ValueError for odd files."""
    if len(boot) != 512 or len(core) <= 512:
        raise ValueError("boot.img is one sector, and the core is more")
    first = bytearray(boot)
    struct.pack_into("<Q", first, _KERNEL_SECTOR, CORE_SECTOR)
    whole = bytearray(core)
    struct.pack_into("<Q", whole, _REST_SECTOR, CORE_SECTOR + 1)
    return bytes(first), bytes(whole)


def files() -> dict[str, bytes]:
    """Make boot.img, core.img and esp.img. Raises `BootLoaderError`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "early.cfg").write_text(_CONFIG)
        config = ("-c", "early.cfg", "-p", "/boot/grub")
        _run(folder, "grub-mkimage", "-O", "i386-pc", "-o", "core.img", *config, *_BIOS)
        _run(folder, "grub-mkimage", "-O", "x86_64-efi", "-o", "BOOTX64.EFI", *config, *_EFI)
        _run(folder, "mkfs.vfat", "-C", "-n", EFI_LABEL, "esp.img", str(_ESP_KIB))
        _run(folder, "mmd", "-i", "esp.img", "::EFI", "::EFI/BOOT")
        _run(folder, "mcopy", "-i", "esp.img", "BOOTX64.EFI", "::EFI/BOOT/BOOTX64.EFI")
        found = Path("/usr/lib/grub/i386-pc/boot.img").read_bytes()
        boot, core = on_bios(found, (folder / "core.img").read_bytes())
        return {"boot.img": boot, "core.img": core, "esp.img": (folder / "esp.img").read_bytes()}


def _run(folder: Path, *argv: str) -> None:
    try:
        subprocess.run(argv, cwd=folder, check=True, capture_output=True, timeout=120)
    except FileNotFoundError:
        raise BootLoaderError(f"{argv[0]} is not installed here", f"apt-get install {' '.join(PACKAGES)}") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode("utf-8", "replace").strip()[-300:]
        raise BootLoaderError(f"{argv[0]} failed: {said}", f"apt-get install {' '.join(PACKAGES)}") from None
