"""What rules say of file systems that our nodes serve, server by server. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf, isclose

from hpcforge.blueprint.reader import Loc
from hpcforge.facility.rules import Breach
from hpcforge.facility.units import apart
from hpcforge.kinds import ARRAYS, spare
from hpcforge.storage.rules import breach
from hpcforge.storage.served import Direction, Served
from hpcforge.storage.sizes import write_rate, write_tib

Breaches = Iterator[Breach]
Write = Callable[[float, int], str]
_DONE: dict[Direction, str] = {"read": "read", "write": "written"}
_RATES: dict[Direction, str] = {"read": "STORAGE-002", "write": "STORAGE-003"}


def judge(served: Sequence[Served], loc_of_hardware: Callable[[str], Loc]) -> Breaches:
    """Yield what rules say of servers and of what is needed of them.

    The file systems of one volume, or of none, share its drives, and those that a server serves over one network its
    links there.
    `loc_of_hardware` has the place in the blueprint that says what a server is.
    """
    places: dict[tuple[str, str | None], list[Served]] = {}
    for one in served:
        if one.server == one.servers[0]:
            yield from _copies(one)
        places.setdefault((one.server, one.volume), []).append(one)
    for (server, volume), systems in places.items():
        loc = loc_of_hardware(server)
        yield from _groups(systems, loc) if volume is None else _volume(systems, loc)
        if any(each.groups for each in systems[0].drives) or not systems[0].drives:
            yield from _capacity(systems)
            for direction in _RATES:
                yield from _rates_by_links(direction, systems)
    yield from _shared_links(served)


def not_served(name: str, needs: Sequence[str]) -> Breaches:
    """Yield that nothing is known of a file system that no node of ours serves, though something is needed of it."""
    codes = {"capacity_tib": "STORAGE-001", "read_gb_per_s": "STORAGE-002", "write_gb_per_s": "STORAGE-003"}
    for need in needs:
        message = f"`{name}` is served by no node of the blueprint, so that its drives and links are not known"
        yield breach(codes[need], ("storage", name, "needs", need), message, severity="not-checked")


def _copies(one: Served) -> Breaches:
    """What becomes of files when one of several servers is away."""
    if len(one.servers) < 2:
        return
    loc, sums = ("storage", one.name, "replicas"), f"each file is on {one.replicas} of {len(one.servers)} servers"
    if one.replicas == 1:
        message = f"`{one.name}`: files of a server are unavailable while it is down"
        yield breach("STORAGE-006", loc, message, sums, "replicas: 3; or 2 and an `arbiter`")
    elif one.replicas == 2 and not one.arbiter:
        firsts = " and ".join(one.servers[::2])
        message = f"`{one.name}`: no arbiter decides between two copies, so writes stop while {firsts} is down"
        yield breach("STORAGE-007", loc, message, sums, "arbiter: a third node, as the head; or replicas: 3")


def _volume(systems: Sequence[Served], loc: Loc) -> Breaches:
    """What apply builds of drives, against what the hardware says of them and against the loss of one."""
    one = systems[0]
    if one.raid is None or one.volume is None:
        return
    count, built = one.size, f"{one.raid.data} + {one.raid.parity}"
    better, said = f"raid: {6 if count >= ARRAYS[6] else 1}", one.declared
    if said and (said.data, said.parity) != (one.raid.data, one.raid.parity) and said.parity + one.raid.parity:
        message = f"{one.server}: apply builds another array for `{one.volume}` than `raid` of {one.hardware} promises"
        sums = f"RAID {one.level or 0} of {count} drives: {built}, not {said.data} + {said.parity}"
        same = [level for level in ARRAYS if (spare(level, count), count - said.parity) == (said.parity, said.data)]
        hint = f"raid: {same[0]} in `storage.{one.volume}`" if same else f"leave `raid` out of {one.hardware}"
        yield breach("STORAGE-008", loc, message, sums, hint)
    elif one.raid.parity == 0 and any(each.replicas == 1 for each in systems):
        alone = " and ".join(f"`{each.name}`" for each in systems if each.replicas == 1)
        which = f"first of {count} drives" if count > 1 else "drive"
        message = f"{one.server}: the {which} that fails takes all files of {alone} with it"
        sums = f"`{one.volume}` is RAID 0 of {count} drives" if count > 1 else f"`{one.volume}` is one drive"
        hint = f"{better if count > 1 else 'two drives and raid: 1'} in `storage.{one.volume}`"
        yield breach("STORAGE-004", ("storage", one.volume, "drives"), message, sums, hint)


def _groups(systems: Sequence[Served], loc: Loc) -> Breaches:
    one = systems[0]
    if one.raid is None or not one.drives:
        return
    groups = sum(each.groups for each in one.drives)
    array = f"{groups} group{'s' * (groups != 1)} of {one.raid.data} + {one.raid.parity} drives"
    message = f"{one.server}: apply builds no array under {one.path}, and `raid` of {one.hardware} promises one"
    hint = (
        f"a volume in `storage` for {one.server}, as `flash: {{kind: xfs, drives: 12 x MODEL, raid: 6, mount: /flash}}`"
        f" with path: /flash/{one.name}; or mount your own array at {one.path} before the first apply"
    )
    yield breach("STORAGE-009", ("storage", one.name, "path"), message, array, hint)
    wanted, there = one.raid.groups or 1, sum(each.groups for each in one.drives)
    if there < wanted:
        drives = ", ".join(f"{each.count} x {each.model}" for each in one.drives)
        sums = f"{wanted} x ({one.raid.data} + {one.raid.parity}) drives > {drives}"
        yield breach("STORAGE-005", loc, f"{one.server}: too few drives for its groups", sums, "smaller groups")
    elif one.raid.parity == 0:
        message = f"{one.server}: the first drive that fails takes files with it"
        yield breach("STORAGE-004", loc, message, "0 drives of parity in a group", "raid: {data: 8, parity: 2}")


def _capacity(systems: Sequence[Served]) -> Breaches:
    needing = {one.name: one.needs.capacity_tib for one in systems if one.needs.capacity_tib is not None}
    if not needing:
        return
    one, loc, need = systems[0], _loc(needing, "capacity_tib"), sum(needing.values())
    most = one.capacity_tib
    if most is not None and _over(need, most):
        sums = f"{_compared(write_tib, need, most)} = {_drives(one)}: {_excess(write_tib, need, most)}"
        message = f"{one.server} holds less than {_names(systems, needing)} {_verb(needing)}"
        yield breach("STORAGE-001", loc, message, sums, "more or larger drives")
    elif most is None or one.raid is None:
        yield _unknown("STORAGE-001", loc, one, "capacity_gb")


def _rates_by_links(direction: Direction, systems: Sequence[Served]) -> Breaches:
    """What is needed of each of a server's links, and where it has several, of its drives by all together."""
    by_links: dict[str, list[Served]] = {}
    for each in systems:
        by_links.setdefault(_over_which(each), []).append(each)
    breaches = [breach for some in by_links.values() for breach in _rate(direction, some)]
    yield from breaches
    if len(by_links) > 1 and not breaches:  # drives alone are left: links that carry any rate bound nothing
        unbound = [replace(each, link=replace(each.link, rate_gbps=inf)) for each in systems if each.link]
        yield from _rate(direction, unbound)


def _rate(direction: Direction, systems: Sequence[Served]) -> Breaches:
    found = {one.name: one.needs.rate(direction) for one in systems}
    needing = {name: rate for name, rate in found.items() if rate is not None}
    if not needing:
        return
    one, most = systems[0], systems[0].most(direction)
    if most is not None and _over(sum(needing.values()), most):
        yield _slow(direction, systems, needing, most, one.bound(direction))
    elif one.gives(direction) is None:
        yield _unknown(_RATES[direction], _loc(needing, f"{direction}_gb_per_s"), one, f"{direction}_gb_per_s")


def _slow(
    direction: Direction, systems: Sequence[Served], needing: dict[str, float], most: float, bound: str | None
) -> Breach:
    """That less comes through than is needed."""
    one, need = systems[0], sum(needing.values())
    terms = one.link.terms if one.link and bound == "links" else _rates(one, direction)
    sums = f"{_compared(write_rate, need, most)} = {terms}: {_excess(write_rate, need, most)}"
    message = f"{one.server} is {_DONE[direction]} slower than {_names(systems, needing)} {_verb(needing)}"
    hint = "faster links, or more of them in a bond" if bound == "links" else "more or faster drives"
    return breach(_RATES[direction], _loc(needing, f"{direction}_gb_per_s"), message, sums, hint)


def _shared_links(served: Sequence[Served]) -> Breaches:
    """Servers that have files on several volumes, whose needs one by one are met: together they share the links."""
    by_links: dict[tuple[str, str], list[Served]] = {}
    for one in served:
        by_links.setdefault((one.server, _over_which(one)), []).append(one)
    for systems in by_links.values():
        link = systems[0].of_link
        for direction in _RATES if link is not None else ():
            needing = {one.name: need for one in systems if (need := one.needs.rate(direction)) is not None}
            parts: dict[str | None, float] = dict.fromkeys((one.volume for one in systems), 0.0)
            for one in systems:
                parts[one.volume] += needing.get(one.name, 0.0)
            if link is not None and _over(sum(needing.values()), link) and not _over(max(parts.values()), link):
                yield _slow(direction, systems, needing, link, "links")


def _over_which(one: Served) -> str:
    """What its links belong to: a fabric, or the network where no fabric is known."""
    return one.link.fabric if one.link else one.network


def _unknown(code: str, loc: Loc, one: Served, fact: str) -> Breach:
    """Say what is missing, all of it, with how to say it."""
    models = [each.model for each in one.drives if each.groups and getattr(each, fact) is None]
    missing, ways = list[str](), list[str]()
    if not one.drives:
        missing.append(f"the drives of {one.hardware}")
        ways.append("`nvme: 24 x our-drive` in a hardware entry like it")
    for model in dict.fromkeys(models):
        missing.append(f"{fact} of the drive {model}")
        ways.append(f"`{fact}` in an entry of `parts.drives`")
    if one.raid is None:
        missing.append(f"how the drives of {one.hardware} are put together")
        ways.append("`raid: {data: 10, parity: 2}` in a hardware entry like it")
    if one.link is None and fact != "capacity_gb":
        missing.append(f"the fabric that carries `{one.network}` to {one.server}")
        ways.append(f"`fabric` of `networks.{one.network}`")
    hint = f"say {' and '.join(dict.fromkeys(ways))}"
    return breach(code, loc, f"{one.server}: missing {', '.join(missing)}", None, hint, "not-checked")


def _loc(needing: dict[str, float], need: str) -> Loc:
    return ("storage", next(iter(needing)), "needs", need)


def _over(need: float, there: float) -> bool:
    return need > there and not isclose(need, there, rel_tol=1e-9)


def _compared(write: Write, need: float, there: float) -> str:
    return " > ".join(apart(write, need, there))


def _excess(write: Write, need: float, there: float) -> str:
    return f"{write(need - there, 1)} ({100 * (need - there) / there:.0f} %) too much" if there else "too much"


def _names(systems: Sequence[Served], needing: dict[str, float]) -> str:
    """Those that need something; of one that several servers have, its part here."""
    parts = {one.name for one in systems if len(one.servers) > 1}
    return " and ".join(f"this part of `{name}`" if name in parts else f"`{name}`" for name in needing)


def _verb(needing: dict[str, float]) -> str:
    return "needs" if len(needing) == 1 else "need"


def _drives(one: Served) -> str:
    """`2 x 10 data drives x 15,360 GB`."""
    of = "data drives" if one.raid else "drives"
    in_groups = [each for each in one.drives if each.groups]
    return " + ".join(f"{_count(one, each.groups, one.data)} {of} x {each.capacity_gb:,g} GB" for each in in_groups)


def _rates(one: Served, direction: Direction) -> str:
    of = one.size if direction == "read" else one.data
    in_groups = [each for each in one.drives if each.groups]
    return " + ".join(f"{_count(one, each.groups, of)} drives x {each.rate(direction):g} GB/s" for each in in_groups)


def _count(one: Served, groups: int, of: int) -> str:
    return f"{groups} x {of}" if one.raid else f"{groups}"
