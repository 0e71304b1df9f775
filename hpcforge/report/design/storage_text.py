"""Storage of a design as text for a terminal: what servers hold and carry, and where that comes from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpcforge.design.storage.capacity import FileSystemDesign, Throughput, write_rate, write_tib
from hpcforge.report.design.words import UNKNOWN, plain
from hpcforge.report.text import clean, plural, table


def storage(designs: Sequence[FileSystemDesign], columns: int | None = None) -> str:
    """Return all file systems that nodes serve; "" where there are none."""
    if not designs:
        return ""
    header = ("file system", "server", "holds", "read", "write", "clients", "each reads", "each writes")
    rows = [
        [
            f"{design.name} ({design.kind})",
            design.server,
            holds(design),
            carries(design.read),
            carries(design.write),
            f"{design.clients:,}",
            rate(design.read.each_client_gb_per_s),
            rate(design.write.each_client_gb_per_s),
        ]
        for design in designs
    ]
    by_server: dict[tuple[str, str | None], list[FileSystemDesign]] = {}
    for design in designs:
        by_server.setdefault((design.server, design.volume), []).append(design)
    return table(header, rows, "  ", columns) + "".join(line for some in by_server.values() for line in _server(some))


def holds(file_system: FileSystemDesign) -> str:
    """`279.4 TiB of 400.0 TiB needed`; what all drives hold, where nothing is said of groups."""
    needed = f", {write_tib(file_system.needed_tib)} needed" if file_system.needed_tib is not None else ""
    if file_system.capacity_tib is not None:
        return write_tib(file_system.capacity_tib) + needed
    return (f"at most {write_tib(file_system.raw_tib)}" if file_system.raw_tib is not None else UNKNOWN) + needed


def carries(through: Throughput) -> str:
    """`49.5 GB/s (links)`; `at most 49.5 GB/s (links)` where only one of drives and links is known."""
    needed = f", {write_rate(through.needed_gb_per_s)} needed" if through.needed_gb_per_s is not None else ""
    if through.gb_per_s is not None:
        return f"{write_rate(through.gb_per_s)} ({through.bound}){needed}"
    most = through.drives_gb_per_s if through.bound == "drives" else through.links_gb_per_s
    return (f"at most {write_rate(most)} ({through.bound})" if most is not None else UNKNOWN) + needed


def rate(gb_per_s: float | None) -> str:
    """`728 MB/s`."""
    return UNKNOWN if gb_per_s is None else write_rate(gb_per_s)


def made_of(file_system: FileSystemDesign) -> str:
    """`24 x 15.36TB of 15,360 GB in 2 groups of 10 + 2`."""
    if not file_system.drives:
        return f"`nvme` of {file_system.hardware} is not said"
    lots = [
        f"{lot.count} x {lot.model}" + (f" of {plain(lot.capacity_gb)} GB" if lot.capacity_gb is not None else "")
        for lot in file_system.drives
    ]
    if file_system.group is None:
        return f"{', '.join(lots)}; how they are put together (`raid`) is not said"
    groups = plural(sum(lot.groups for lot in file_system.drives), "group")
    left = f", {file_system.left_over} left over" if file_system.left_over else ""
    return f"{', '.join(lots)} in {groups} of {file_system.group}{left}"


def _server(systems: Sequence[FileSystemDesign]) -> Iterator[str]:
    """Drives and links that its file systems share."""
    file_system = systems[0]
    yield f"\n  {clean(file_system.server)}{f', volume {clean(file_system.volume)}' if file_system.volume else ''}\n"
    yield f"    drives     {clean(made_of(file_system))}\n"
    if file_system.read.drives_gb_per_s is not None or file_system.write.drives_gb_per_s is not None:
        at_most = "" if file_system.group else "at most "
        read, written = rate(file_system.read.drives_gb_per_s), rate(file_system.write.drives_gb_per_s)
        yield f"    give       {at_most}{read} read, {written} written\n"
    links = {each.link: each.read.links_gb_per_s for each in systems}
    for link, gb_per_s in links.items():
        carried = f"{clean(link)} = {rate(gb_per_s)}" if link else UNKNOWN
        yield f"    links      {carried}\n"
