"""Writes hpcforge/catalog/slurm/RELEASE.yaml: the settings of slurm.conf in a release of Slurm, and their kinds.

    python tools/slurm_settings.py slurm-wlm-basic-plugins_22.05.8-4+deb12u3_amd64.deb ...

The tool reads them from Slurm's own tables for slurm.conf, in libslurmfull.so of the distribution's package:
`slurm_conf_options`, and that of partitions, which has no symbol and begins with AllocNodes. slurmctld accepts every
name in them and refuses every other.
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
_FIRST_OF_PARTITIONS = "AllocNodes"
_KINDS = {3: "uint16", 4: "uint32", 5: "uint64", 8: "boolean"}  # slurm_parser_enum of Slurm's; others are text
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


def settings(library: bytes) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings in libslurmfull.so (ELF, 64 bits, little endian) and their kinds, and those of partitions.

    Raises ValueError if it has none.
    """
    sections = _sections(library)
    start, size = _table(library, sections)
    texts = {place: _text(library, sections, target) for place, target in _pointers(library, sections)}
    names = {place: text for place, text in texts.items() if _NAME.fullmatch(text)}
    inside = sorted(place for place in names if start <= place < start + size)
    step = inside[1] - start if inside[1:] else 0  # an entry begins with its name; it has other pointers
    if not step or size % step or inside != [*range(start, start + size - step, step)]:  # the last entry is empty
        raise ValueError(f"{_TABLE.decode()} is not a table of entries that begin with a name")
    tables = [start, *(place for place, text in names.items() if text == _FIRST_OF_PARTITIONS)]
    if len(tables) != 2:
        raise ValueError(f"not one table of partitions, which begins with {_FIRST_OF_PARTITIONS}")
    of_all, of_partitions = (_kinds(library, sections, names, table, step) for table in tables)
    return of_all, of_partitions


def _kinds(library: bytes, sections: list[_Section], names: dict[int, str], start: int, step: int) -> dict[str, str]:
    """Return the kind of each setting of the table at an address, in the order of the names."""
    kinds: dict[str, str] = {}
    for place in range(start, max(names) + 1, step):
        if place not in names:
            break
        kind = int.from_bytes(_bytes(library, sections, place + 8, 4), "little")
        kinds[names[place]] = _KINDS.get(kind, "text")
    return dict(sorted(kinds.items()))


def _sections(library: bytes) -> list[_Section]:
    if library[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not an ELF file of 64 bits, little endian")
    (start,) = struct.unpack_from("<Q", library, 0x28)
    entry_bytes, count = struct.unpack_from("<HH", library, 0x3A)
    return [_Section(*struct.unpack_from("<IIQQQQIIQQ", library, start + entry_bytes * at)) for at in range(count)]


def _table(library: bytes, sections: list[_Section]) -> tuple[int, int]:
    """Return address and size of the table, in bytes."""
    for symbols in (one for one in sections if one.kind == _DYNSYM):
        strings = sections[symbols.link].offset
        for at in range(symbols.offset, symbols.offset + symbols.size, 24):
            name, _, _, _, address, size = struct.unpack_from("<IBBHQQ", library, at)
            if library.startswith(_TABLE + b"\0", strings + name):
                return address, size
    raise ValueError(f"no symbol {_TABLE.decode()}")


def _pointers(library: bytes, sections: list[_Section]) -> Iterator[tuple[int, int]]:
    """Yield the place of each pointer that the linker writes, with its target."""
    for section in (one for one in sections if one.kind == _RELA):
        for at in range(section.offset, section.offset + section.size, 24):
            place, info, target = struct.unpack_from("<QQq", library, at)
            if info & 0xFFFFFFFF == _RELATIVE:
                yield place, target


def _text(library: bytes, sections: list[_Section], address: int) -> str:
    """Return the text at an address, up to 64 characters; empty if there is none."""
    return _bytes(library, sections, address, 64).partition(b"\0")[0].decode("ascii", "replace")


def _bytes(library: bytes, sections: list[_Section], address: int, count: int) -> bytes:
    """Return the bytes at an address; empty if the file has none."""
    for section in sections:
        start, end = section.address, section.address + section.size
        if section.kind != _NOBITS and section.flags & _ALLOCATED and start <= address < end:
            at = section.offset + address - start
            return library[at : at + count]
    return b""


def _library(package: Path) -> bytes:
    """Return libslurmfull.so of a Debian package."""
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
        head = f"# Made by tools/slurm_settings.py from the package named below.\nsource: {source}\n"
        tables = zip(("settings", "partition_settings"), settings(_library(package)), strict=True)
        parts = (f"{key}:\n" + "".join(f"  {name}: {kind}\n" for name, kind in kinds.items()) for key, kinds in tables)
        (CATALOG / f"{release}.yaml").write_text(head + "".join(parts))


if __name__ == "__main__":
    main(sys.argv[1:])
