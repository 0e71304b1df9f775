"""The installer as an archive that the kernel unpacks above the image's own initrd: installer.sh and its programs.

The image's kernel and initrd are what machines run anyway, so their drivers fit. Programs come from this machine with
their libraries, below /hpcforge, and touch nothing of the initrd's own.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from hpcforge.errors import ExpectedError
from hpcforge.metal.netboot import boot_loader

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
)  # busybox has a sha256sum that is several times slower
_UDHCPC = """#!/hpcforge/bin/sh
[ "$1" = bound ] || [ "$1" = renew ] || exit 0
/hpcforge/bin/ip addr flush dev $interface
/hpcforge/bin/ip addr add $ip/${mask:-24} dev $interface
for gateway in $router; do /hpcforge/bin/ip route replace default via $gateway; break; done
exit 0
"""
# Scripts of initramfs-tools are run in the order that this file has; udev is there by then.
_ORDER = '/scripts/init-premount/hpcforge "$@"\n'
_Entries = dict[str, tuple[int, bytes] | str | None]  # mode and content; what a link points to; None: a folder


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
        "hpcforge/bin/busybox": (0o755, _found("busybox").read_bytes()),
    }
    entries |= {f"hpcforge/bin/{name}": "busybox" for name in _APPLETS}
    for program in _PROGRAMS:
        entries |= _with_libraries(_found(program))
    entries |= {f"hpcforge/{name}": (0o644, content) for name, content in boot_loader.files().items()}
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
    """A program, its libraries and its loader, and a script that starts it with them and no others."""
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
    said = subprocess.run(["ldd", str(program)], check=True, capture_output=True, text=True).stdout
    for line in said.splitlines():
        words = line.split()
        yield from (Path(word) for word in words if word.startswith("/") and Path(word).is_file())


def _found(program: str) -> Path:
    path = shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin")
    if path is None:
        raise InstallerError(f"{program} is not installed here", f"apt-get install {' '.join(PACKAGES)}")
    return Path(path)
