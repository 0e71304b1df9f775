"""Writes hpcforge/catalog/slurm/RELEASE.yaml: the names of settings that a release of Slurm takes in slurm.conf.

    python tools/slurm_settings.py slurm-wlm-basic-plugins_22.05.8-4+deb12u3_amd64.deb ...

They are read from the table by which Slurm itself reads slurm.conf: `slurm_conf_options` in libslurmfull.so of the
distribution's package. Every name there is one that slurmctld takes, and it refuses every other.
"""

from __future__ import annotations

import io
import re
import struct
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CATALOG = Path(__file__).parents[1] / "hpcforge" / "catalog" / "slurm"
_LIBRARY = "libslurmfull.so"
_TABLE = b"slurm_conf_options"
_NAME = re.compile(r"[A-Z][A-Za-z0-9]{2,39}")
_RELA, _NOBITS, _DYNSYM, _ALLOCATED = 4, 8, 11, 2  # of elf(5): sh_type and sh_flags
_RELATIVE = 8  # R_X86_64_RELATIVE of the ABI for x86-64


class _Section(NamedTuple):
    """A section header of a 64-bit ELF file."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


def names(library: bytes) -> tuple[str, ...]:
    """The names in the table of libslurmfull.so (ELF, 64 bits, little endian). Raises ValueError where it has none."""
    sections = _sections(library)
    start, size = _table(library, sections)
    found: dict[int, str] = {}
    for place, target in _pointers(library, sections):
        text = _text(library, sections, target) if start <= place < start + size else ""
        if _NAME.fullmatch(text):
            found[place - start] = text
    step = min((place for place in found if place), default=0)  # an entry begins with its name; it has other pointers
    if not step or size % step or set(found) != set(range(0, size - step, step)):  # the last entry is empty
        raise ValueError(f"{_TABLE.decode()} is not a table of entries that begin with a name")
    return tuple(sorted(found.values()))


def _sections(library: bytes) -> list[_Section]:
    if library[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not an ELF file of 64 bits, little endian")
    (start,) = struct.unpack_from("<Q", library, 0x28)
    each, count = struct.unpack_from("<HH", library, 0x3A)
    return [_Section(*struct.unpack_from("<IIQQQQIIQQ", library, start + each * at)) for at in range(count)]


def _table(library: bytes, sections: list[_Section]) -> tuple[int, int]:
    """Address and size of the table, in bytes."""
    for symbols in (one for one in sections if one.kind == _DYNSYM):
        strings = sections[symbols.link].offset
        for at in range(symbols.offset, symbols.offset + symbols.size, 24):
            name, _, _, _, address, size = struct.unpack_from("<IBBHQQ", library, at)
            if library.startswith(_TABLE + b"\0", strings + name):
                return address, size
    raise ValueError(f"no symbol {_TABLE.decode()}")


def _pointers(library: bytes, sections: list[_Section]) -> Iterator[tuple[int, int]]:
    """Where the linker puts the address of what."""
    for section in (one for one in sections if one.kind == _RELA):
        for at in range(section.offset, section.offset + section.size, 24):
            place, info, target = struct.unpack_from("<QQq", library, at)
            if info & 0xFFFFFFFF == _RELATIVE:
                yield place, target


def _text(library: bytes, sections: list[_Section], address: int) -> str:
    """The text at an address, up to 64 characters; empty where there is none."""
    for one in sections:
        if one.kind != _NOBITS and one.flags & _ALLOCATED and one.address <= address < one.address + one.size:
            at = one.offset + address - one.address
            return library[at : at + 64].partition(b"\0")[0].decode("ascii", "replace")
    return ""


def _library(package: Path) -> bytes:
    """libslurmfull.so of a Debian package."""
    files = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(files)) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.name.endswith(f"/{_LIBRARY}") else None
            if content:
                return content.read()
    raise ValueError(f"{package} has no {_LIBRARY}")


def main(packages: list[str]) -> None:
    """Write the catalog's file of each package's release."""
    for package in map(Path, packages):
        fields = ["dpkg-deb", "--show", "--showformat", "${Package} ${Version}", str(package)]
        source = subprocess.run(fields, check=True, capture_output=True, text=True).stdout
        release = ".".join(source.split()[1].split(".")[:2])
        head = f"# Made by tools/slurm_settings.py from the package named below.\nsource: {source}\nsettings:\n"
        lines = "".join(f"  - {name}\n" for name in names(_library(package)))
        (CATALOG / f"{release}.yaml").write_text(head + lines)


if __name__ == "__main__":
    main(sys.argv[1:])
