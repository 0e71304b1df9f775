"""Check the rules of file systems that the cluster serves, server by server. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf, isclose

from hpcforge.blueprint.reader import Loc
from hpcforge.design.facility.rules import Breach
from hpcforge.design.facility.units import apart
from hpcforge.design.storage.capacity import Direction, ServedFileSystem, write_rate, write_tib
from hpcforge.design.storage.rules import breach
from hpcforge.kinds import ARRAYS, spare

Breaches = Iterator[Breach]
Write = Callable[[float, int], str]
_PAST_TENSE: dict[Direction, str] = {"read": "read", "write": "written"}
_RATES: dict[Direction, str] = {"read": "STORAGE-002", "write": "STORAGE-003"}


def judge(served: Sequence[ServedFileSystem], loc_of_hardware: Callable[[str], Loc]) -> Breaches:
    """Yield the breaches of servers and of the needs from them.

    The file systems of one volume, or of none, share its drives; those of a server on one network share its links.
    `loc_of_hardware` returns the place of a server's hardware in the blueprint.
    """
    places: dict[tuple[str, str | None], list[ServedFileSystem]] = {}
    for file_system in served:
        places.setdefault((file_system.server, file_system.volume), []).append(file_system)
    for (server, volume), systems in places.items():
        loc = loc_of_hardware(server)
        yield from _groups(systems, loc) if volume is None else _volume(systems, loc)
        if any(drive.groups for drive in systems[0].drives) or not systems[0].drives:
            yield from _capacity(systems)
            for direction in _RATES:
                yield from _rates_by_links(direction, systems)
    yield from _shared_links(served)


def not_served(name: str, needs: Sequence[str]) -> Breaches:
    """Report needs of a file system that no node of the cluster serves: nothing is known about it."""
    codes = {"capacity_tib": "STORAGE-001", "read_gb_per_s": "STORAGE-002", "write_gb_per_s": "STORAGE-003"}
    for need in needs:
        message = f"`{name}` is served by no node of the blueprint, so that its drives and links are not known"
        yield breach(codes[need], ("storage", name, "needs", need), message, severity="not-checked")


def _volume(systems: Sequence[ServedFileSystem], loc: Loc) -> Breaches:
    """Check the volume that apply builds of drives against the hardware's drives and the loss of one."""
    file_system = systems[0]
    if file_system.raid is None or file_system.volume is None:
        return
    count, built = file_system.size, f"{file_system.raid.data} + {file_system.raid.parity}"
    better, spec = f"raid: {6 if count >= ARRAYS[6] else 1}", file_system.declared
    if (
        spec
        and (spec.data, spec.parity) != (file_system.raid.data, file_system.raid.parity)
        and spec.parity + file_system.raid.parity
    ):
        message = (
            f"{file_system.server}: apply builds another array for `{file_system.volume}` than `raid` of "
            f"{file_system.hardware} promises"
        )
        sums = f"RAID {file_system.level or 0} of {count} drives: {built}, not {spec.data} + {spec.parity}"
        same = [level for level in ARRAYS if (spare(level, count), count - spec.parity) == (spec.parity, spec.data)]
        hint = (
            f"raid: {same[0]} in `storage.{file_system.volume}`"
            if same
            else f"leave `raid` out of {file_system.hardware}"
        )
        yield breach("STORAGE-008", loc, message, sums, hint)
    elif file_system.raid.parity == 0:
        lost = " and ".join(f"`{system.name}`" for system in systems)
        which = f"one of {count} drives" if count > 1 else "the drive"
        message = f"{file_system.server}: if {which} fails, all files of {lost} are lost"
        sums = (
            f"`{file_system.volume}` is RAID 0 of {count} drives"
            if count > 1
            else f"`{file_system.volume}` is one drive"
        )
        hint = f"{better if count > 1 else 'two drives and raid: 1'} in `storage.{file_system.volume}`"
        yield breach("STORAGE-004", ("storage", file_system.volume, "drives"), message, sums, hint)


def _groups(systems: Sequence[ServedFileSystem], loc: Loc) -> Breaches:
    file_system = systems[0]
    if file_system.raid is None or not file_system.drives:
        return
    groups = sum(drive.groups for drive in file_system.drives)
    array = f"{groups} group{'s' * (groups != 1)} of {file_system.raid.data} + {file_system.raid.parity} drives"
    message = (
        f"{file_system.server}: apply builds no array under {file_system.path}, and `raid` of {file_system.hardware} "
        "promises one"
    )
    hint = (
        f"a volume in `storage` for {file_system.server}, as `flash: {{kind: xfs, drives: 12 x MODEL, raid: 6, "
        "mount: /flash}`"
        f" with path: /flash/{file_system.name}; or mount your own array at {file_system.path} before the first apply"
    )
    yield breach("STORAGE-009", ("storage", file_system.name, "path"), message, array, hint)
    required, available = file_system.raid.groups or 1, sum(drive.groups for drive in file_system.drives)
    if available < required:
        drives = ", ".join(f"{drive.count} x {drive.model}" for drive in file_system.drives)
        sums = f"{required} x ({file_system.raid.data} + {file_system.raid.parity}) drives > {drives}"
        yield breach("STORAGE-005", loc, f"{file_system.server}: too few drives for its groups", sums, "smaller groups")
    elif file_system.raid.parity == 0:
        message = f"{file_system.server}: the first drive that fails loses files"
        yield breach("STORAGE-004", loc, message, "0 drives of parity in a group", "raid: {data: 8, parity: 2}")


def _capacity(systems: Sequence[ServedFileSystem]) -> Breaches:
    needing = {
        file_system.name: file_system.needs.capacity_tib
        for file_system in systems
        if file_system.needs.capacity_tib is not None
    }
    if not needing:
        return
    file_system, loc, need = systems[0], _loc(needing, "capacity_tib"), sum(needing.values())
    most = file_system.capacity_tib
    if most is not None and _over(need, most):
        sums = f"{_compared(write_tib, need, most)} = {_drives(file_system)}: {_excess(write_tib, need, most)}"
        message = f"{file_system.server} holds less than {_names(needing)} {_verb(needing)}"
        yield breach("STORAGE-001", loc, message, sums, "more or larger drives")
    elif most is None or file_system.raid is None:
        yield _unknown("STORAGE-001", loc, file_system, "capacity_gb")


def _rates_by_links(direction: Direction, systems: Sequence[ServedFileSystem]) -> Breaches:
    """Check the required rate of each of a server's links, and if it has several, of its drives over all of them."""
    by_links: dict[str, list[ServedFileSystem]] = {}
    for system in systems:
        by_links.setdefault(_over_which(system), []).append(system)
    breaches = [breach for linked in by_links.values() for breach in _rate(direction, linked)]
    yield from breaches
    if len(by_links) > 1 and not breaches:  # check the drives alone: links of infinite rate set no bound
        unbound = [replace(system, link=replace(system.link, rate_gbps=inf)) for system in systems if system.link]
        yield from _rate(direction, unbound)


def _rate(direction: Direction, systems: Sequence[ServedFileSystem]) -> Breaches:
    needs = {file_system.name: file_system.needs.rate(direction) for file_system in systems}
    needing = {name: rate for name, rate in needs.items() if rate is not None}
    if not needing:
        return
    file_system, most = systems[0], systems[0].most(direction)
    if most is not None and _over(sum(needing.values()), most):
        yield _slow(direction, systems, needing, most, file_system.bound(direction))
    elif file_system.gives(direction) is None:
        yield _unknown(_RATES[direction], _loc(needing, f"{direction}_gb_per_s"), file_system, f"{direction}_gb_per_s")


def _slow(
    direction: Direction, systems: Sequence[ServedFileSystem], needing: dict[str, float], most: float, bound: str | None
) -> Breach:
    """Return the breach of a rate below the needs."""
    file_system, need = systems[0], sum(needing.values())
    terms = file_system.link.terms if file_system.link and bound == "links" else _rates(file_system, direction)
    sums = f"{_compared(write_rate, need, most)} = {terms}: {_excess(write_rate, need, most)}"
    message = f"{file_system.server} is {_PAST_TENSE[direction]} slower than {_names(needing)} {_verb(needing)}"
    hint = "faster links, or more links in a bond" if bound == "links" else "more or faster drives"
    return breach(_RATES[direction], _loc(needing, f"{direction}_gb_per_s"), message, sums, hint)


def _shared_links(served: Sequence[ServedFileSystem]) -> Breaches:
    """Check servers with files on several volumes that meet their needs one by one: they share the links."""
    by_links: dict[tuple[str, str], list[ServedFileSystem]] = {}
    for file_system in served:
        by_links.setdefault((file_system.server, _over_which(file_system)), []).append(file_system)
    for systems in by_links.values():
        link = systems[0].of_link
        for direction in _RATES if link is not None else ():
            needing = {
                file_system.name: need
                for file_system in systems
                if (need := file_system.needs.rate(direction)) is not None
            }
            parts: dict[str | None, float] = dict.fromkeys((file_system.volume for file_system in systems), 0.0)
            for file_system in systems:
                parts[file_system.volume] += needing.get(file_system.name, 0.0)
            if link is not None and _over(sum(needing.values()), link) and not _over(max(parts.values()), link):
                yield _slow(direction, systems, needing, link, "links")


def _over_which(file_system: ServedFileSystem) -> str:
    """Return the owner of its links: a fabric, or the network if no fabric is known."""
    return file_system.link.fabric if file_system.link else file_system.network


def _unknown(code: str, loc: Loc, file_system: ServedFileSystem, fact: str) -> Breach:
    """Return all missing facts, with the keys that set them."""
    models = [drive.model for drive in file_system.drives if drive.groups and getattr(drive, fact) is None]
    missing, ways = list[str](), list[str]()
    if not file_system.drives:
        missing.append(f"the drives of {file_system.hardware}")
        ways.append("`nvme: 24 x our-drive` in a hardware entry like it")
    for model in dict.fromkeys(models):
        missing.append(f"{fact} of the drive {model}")
        ways.append(f"`{fact}` in an entry of `parts.drives`")
    if file_system.raid is None:
        missing.append(f"the groups of drives of {file_system.hardware}")
        ways.append("`raid: {data: 10, parity: 2}` in a hardware entry like it")
    if file_system.link is None and fact != "capacity_gb":
        missing.append(f"the fabric that carries `{file_system.network}` to {file_system.server}")
        ways.append(f"`fabric` of `networks.{file_system.network}`")
    hint = f"say {' and '.join(dict.fromkeys(ways))}"
    return breach(code, loc, f"{file_system.server}: missing {', '.join(missing)}", None, hint, "not-checked")


def _loc(needing: dict[str, float], need: str) -> Loc:
    return ("storage", next(iter(needing)), "needs", need)


def _over(need: float, limit: float) -> bool:
    return need > limit and not isclose(need, limit, rel_tol=1e-9)


def _compared(write: Write, need: float, limit: float) -> str:
    return " > ".join(apart(write, need, limit))


def _excess(write: Write, need: float, limit: float) -> str:
    return f"{write(need - limit, 1)} ({100 * (need - limit) / limit:.0f} %) too much" if limit else "too much"


def _names(needing: dict[str, float]) -> str:
    return " and ".join(f"`{name}`" for name in needing)


def _verb(needing: dict[str, float]) -> str:
    return "needs" if len(needing) == 1 else "need"


def _drives(file_system: ServedFileSystem) -> str:
    """`2 x 10 data drives x 15,360 GB`."""
    unit = "data drives" if file_system.raid else "drives"
    in_groups = [drive for drive in file_system.drives if drive.groups]
    return " + ".join(
        f"{_count(file_system, drive.groups, file_system.data)} {unit} x {drive.capacity_gb:,g} GB"
        for drive in in_groups
    )


def _rates(file_system: ServedFileSystem, direction: Direction) -> str:
    per_group = file_system.size if direction == "read" else file_system.data
    in_groups = [drive for drive in file_system.drives if drive.groups]
    return " + ".join(
        f"{_count(file_system, drive.groups, per_group)} drives x {drive.rate(direction):g} GB/s" for drive in in_groups
    )


def _count(file_system: ServedFileSystem, groups: int, per_group: int) -> str:
    return f"{groups} x {per_group}" if file_system.raid else f"{groups}"
