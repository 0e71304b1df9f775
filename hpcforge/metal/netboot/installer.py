"""The installer as an archive that the kernel unpacks above the image's own initrd: installer.sh and its programs.

The image's kernel and initrd are what machines run anyway, so their drivers fit. Programs come from this machine with
their libraries, below /hpcforge, and touch nothing of the initrd's own.
"""

from __future__ import annotations

import gzip
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from hpcforge.errors import ExpectedError
from hpcforge.metal.netboot.configurations import EFI_LABEL

# GRUB as bytes, as an installed disk starts with it. It is made once here and not on each machine. Pure except for
# grub-mkimage.
#
# On BIOS the first sector has the place of the first sector of GRUB's core, and that one the place of the rest;
# grub-bios-setup would write both, and needs the disk. With UEFI, firmware starts a program on a FAT partition.
CORE_SECTOR = 2048  # first sector of the core's partition in the installer's partition table
_KERNEL_SECTOR = 0x5C  # place in boot.img of the core's first sector (GRUB 2.06, grub-core/boot/i386/pc/boot.S)
_REST_SECTOR = 512 - 12  # place in diskboot.img, the core's first sector, of the rest (diskboot.S, blocklist_default)
_ESP_KIB = 64 * 1024
_BOTH = (
    "part_gpt", "diskfilter", "mdraid1x", "ext2", "linux", "normal", "search", "search_label", "configfile", "serial",
    "terminal",
)  # fmt: skip
_BIOS = ("biosdisk", *_BOTH)
_EFI = ("fat", *_BOTH)
# Without the hint GRUB does not search arrays. installer.sh names them.
_CONFIG = """\
serial --unit=0 --speed=115200
terminal_output console serial
search --no-floppy --hint=md/system0 --label --set=root root
configfile ($root)/boot/grub/hpcforge.cfg
"""
GRUB_PACKAGES = ("grub-common", "grub-pc-bin", "grub-efi-amd64-bin", "mtools", "dosfstools")


class BootLoaderError(ExpectedError):
    """GRUB cannot be made here."""


def on_bios(boot: bytes, core: bytes) -> tuple[bytes, bytes]:
    """Return the first sector and the core with the places of each other. Raises ValueError for odd files."""
    if len(boot) != 512 or len(core) <= 512:
        raise ValueError("boot.img is one sector, and the core is more")
    first = bytearray(boot)
    struct.pack_into("<Q", first, _KERNEL_SECTOR, CORE_SECTOR)
    linked = bytearray(core)
    struct.pack_into("<Q", linked, _REST_SECTOR, CORE_SECTOR + 1)
    return bytes(first), bytes(linked)


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
        template = Path("/usr/lib/grub/i386-pc/boot.img").read_bytes()
        boot, core = on_bios(template, (folder / "core.img").read_bytes())
        return {"boot.img": boot, "core.img": core, "esp.img": (folder / "esp.img").read_bytes()}


def _run(folder: Path, *argv: str) -> None:
    try:
        subprocess.run(argv, cwd=folder, check=True, capture_output=True, timeout=120)
    except FileNotFoundError:
        raise BootLoaderError(
            f"{argv[0]} is not installed here", f"apt-get install {' '.join(GRUB_PACKAGES)}"
        ) from None
    except subprocess.CalledProcessError as error:
        message = error.stderr.decode("utf-8", "replace").strip()[-300:]
        raise BootLoaderError(f"{argv[0]} failed: {message}", f"apt-get install {' '.join(GRUB_PACKAGES)}") from None


PACKAGES = ("busybox-static", "fdisk", "e2fsprogs")
_APPLETS = (
    "blockdev", "cat", "chmod", "chroot", "cp", "cut", "dd", "dmesg", "echo", "grep", "head", "ip", "ln", "ls", "mkdir",
    "modprobe", "mount", "printf", "reboot", "rm", "sh", "sleep", "stat", "sync", "tail", "tr", "udhcpc",
    "umount", "wc", "wget",
)  # fmt: skip
_PROGRAMS = (
    "sfdisk",
    "e2fsck",
    "mke2fs",
    "resize2fs",
    "sha256sum",
)  # busybox's sha256sum is several times slower
_UDHCPC = """#!/hpcforge/bin/sh
[ "$1" = bound ] || [ "$1" = renew ] || exit 0
/hpcforge/bin/ip addr flush dev $interface
/hpcforge/bin/ip addr add $ip/${mask:-24} dev $interface
for gateway in $router; do /hpcforge/bin/ip route replace default via $gateway; break; done
exit 0
"""
# initramfs-tools runs its scripts in the order of this file; udev runs by then.
_ORDER = '/scripts/init-premount/hpcforge "$@"\n'
_Entries = dict[str, tuple[int, bytes] | str | None]  # mode and content; target of a link; None: a folder


class InstallerError(ExpectedError):
    """The installer cannot be made here."""


def installer() -> bytes:
    """Return the archive (cpio, gzip). Raises `InstallerError` and `BootLoaderError`."""
    script = (Path(__file__).parent / "installer.sh").read_bytes()
    entries: _Entries = {
        "hpcforge": None,
        "hpcforge/bin": None,
        "hpcforge/lib": None,
        "hpcforge/udhcpc": (0o755, _UDHCPC.encode()),
        "scripts": None,
        "scripts/init-premount": None,
        "scripts/init-premount/ORDER": (0o644, _ORDER.encode()),
        "scripts/init-premount/hpcforge": (0o755, script.replace(b"#!/bin/sh", b"#!/hpcforge/bin/sh", 1)),
        "hpcforge/bin/busybox": (0o755, _find_program("busybox").read_bytes()),
    }
    entries |= {f"hpcforge/bin/{name}": "busybox" for name in _APPLETS}
    for program in _PROGRAMS:
        entries |= _with_libraries(_find_program(program))
    entries |= {f"hpcforge/{name}": (0o644, content) for name, content in files().items()}
    return gzip.compress(cpio(entries), 6, mtime=0)


def cpio(entries: Mapping[str, tuple[int, bytes] | str | None]) -> bytes:
    """Return an archive as the kernel reads it (newc, Documentation/driver-api/early-userspace/buffer-format.rst)."""
    made = [_entry(number, name, entry) for number, (name, entry) in enumerate(entries.items(), 1)]
    return b"".join([*made, _entry(0, "TRAILER!!!", (0, b""))])


def _entry(number: int, name: str, entry: tuple[int, bytes] | str | None) -> bytes:
    if entry is None:
        mode, content = 0o040755, b""
    elif isinstance(entry, str):
        mode, content = 0o120777, entry.encode()
    else:
        mode, content = 0o100000 | entry[0], entry[1]
    path = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
    return _padded(head) + _padded(content)


def _padded(part: bytes) -> bytes:
    return part + b"\0" * (-len(part) % 4)


def _with_libraries(program: Path) -> _Entries:
    """Return a program, its libraries and its loader, and a script that starts it with them and no others."""
    entries: _Entries = {}
    loader = ""
    for library in _libraries(program):
        entries[f"hpcforge/lib/{library.name}"] = (0o755, library.read_bytes())
        if library.name.startswith("ld-linux"):
            loader = library.name
    lib = "/hpcforge/lib"
    starts = f'#!/hpcforge/bin/sh\nexec {lib}/{loader} --library-path {lib} {lib}/{program.name} "$@"\n'
    entries[f"hpcforge/lib/{program.name}"] = (0o755, program.read_bytes())
    entries[f"hpcforge/bin/{program.name}"] = (0o755, starts.encode())
    return entries


def _libraries(program: Path) -> Iterator[Path]:
    output = subprocess.run(["ldd", str(program)], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        words = line.split()
        yield from (Path(word) for word in words if word.startswith("/") and Path(word).is_file())


def _find_program(program: str) -> Path:
    path = shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin")
    if path is None:
        raise InstallerError(f"{program} is not installed here", f"apt-get install {' '.join(PACKAGES)}")
    return Path(path)
