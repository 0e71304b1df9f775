"""A design as text for a terminal: totals, feeds, racks, then what rules say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.design import Design
from hpcforge.design.fabric.design import FabricDesign
from hpcforge.design.facility.design import PartPower, RackDesign, Remark, UpsDesign
from hpcforge.design.facility.units import kw
from hpcforge.design.storage.capacity import FileSystemDesign
from hpcforge.report.design.words import (
    UNKNOWN,
    cables_text,
    carries,
    cut_text,
    holds,
    loss_text,
    made_of,
    names,
    nodes_text,
    one_lost,
    rate,
    ratios_text,
    throughput,
    tons,
    ways_text,
)
from hpcforge.report.text import clean, plural, table, within
from hpcforge.styles import Style, joined, styled

# Fabrics of a design as text for a terminal: what they are made of, what they carry, what moves.
_MOST_MOVES = 12


def fabrics(designs: Sequence[FabricDesign], columns: int | None = None) -> str:
    """Return all fabrics; "" where there are none."""
    if not designs:
        return ""
    header = ("fabric", "topology", "links of nodes", "nodes", "leaf", "spine", "core", "oversubscribed", "bisection")
    rows = [
        [
            design.name,
            design.topology,
            f"{design.rails} x {rate(design.rate_gbps)} {design.kind}",
            nodes_text(design),
            *(f"{count:,}" if count else "-" for count in design.switches.values()),
            ratios_text(design.oversubscription),
            rate(design.bisection_gbps),
        ]
        for design in designs
    ]
    return table(header, rows, "  ", columns) + "".join(line for design in designs for line in _details(design))


def _details(fabric: FabricDesign) -> Iterator[str]:
    yield f"\n  {clean(fabric.name)}\n"
    yield f"    cables     {cables_text(fabric.cables)}\n"
    yield f"    as bought  {cut_text(fabric.cutting)}\n"
    if racks := _fabric_racks(fabric):
        yield f"    switches   in {racks}\n"
    for ways in fabric.paths:
        yield f"    ways       {ways_text(ways)}\n"
    for loss in fabric.failures:
        yield f"    without    {clean(loss_text(loss, fabric))}\n"
    for note in fabric.notes:
        yield f"    note       {clean(note)}\n"
    for move in fabric.moves[:_MOST_MOVES]:
        before, after = " - ".join(move.taken), " - ".join(move.to) if move.to else "taken out"
        yield f"    move       {clean(before)}  ->  {clean(after)}\n"
    if len(fabric.moves) > _MOST_MOVES:
        yield f"    move       and {len(fabric.moves) - _MOST_MOVES:,} cables more; --json lists all\n"


def _fabric_racks(fabric: FabricDesign) -> str:
    """`i01 (9), i02 (8)`, racks that hold equally many together."""
    counts: dict[str, int] = {}
    for place in fabric.placed:
        if place.rack is not None:
            counts[place.rack] = counts.get(place.rack, 0) + 1
    racks_by_count: dict[int, list[str]] = {}
    for rack, count in counts.items():
        racks_by_count.setdefault(count, []).append(rack)
    without = sum(place.rack is None for place in fabric.placed)
    parts = [f"{names(racks)} ({count}{' each' if len(racks) > 1 else ''})" for count, racks in racks_by_count.items()]
    return ", ".join([*parts, *([f"no rack ({without})"] if without and parts else [])])


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
            throughput(design.read.each_client_gb_per_s),
            throughput(design.write.each_client_gb_per_s),
        ]
        for design in designs
    ]
    by_server: dict[tuple[str, str | None], list[FileSystemDesign]] = {}
    for design in designs:
        by_server.setdefault((design.server, design.volume), []).append(design)
    return table(header, rows, "  ", columns) + "".join(
        line for systems in by_server.values() for line in _server(systems)
    )


def _server(systems: Sequence[FileSystemDesign]) -> Iterator[str]:
    """Drives and links that its file systems share."""
    file_system = systems[0]
    yield f"\n  {clean(file_system.server)}{f', volume {clean(file_system.volume)}' if file_system.volume else ''}\n"
    yield f"    drives     {clean(made_of(file_system))}\n"
    if file_system.read.drives_gb_per_s is not None or file_system.write.drives_gb_per_s is not None:
        at_most = "" if file_system.group else "at most "
        read, written = throughput(file_system.read.drives_gb_per_s), throughput(file_system.write.drives_gb_per_s)
        yield f"    give       {at_most}{read} read, {written} written\n"
    links = {system.link: system.read.links_gb_per_s for system in systems}
    for link, gb_per_s in links.items():
        carried = f"{clean(link)} = {throughput(gb_per_s)}" if link else UNKNOWN
        yield f"    links      {carried}\n"


_HEADS: dict[str, tuple[str, Style]] = {
    "error": ("Errors", "bad"),
    "warning": ("Warnings", "warn"),
    "not-checked": ("Not checked", "title"),
}


def summary(design: Design, columns: int | None = None) -> str:
    """Summarise the design in about a page; equal racks take one line. `columns` is the maximum width."""
    parts = [
        *_totals(design),
        _section("Hardware, at maximum", _hardware(design, columns)),
        _section("Feeds", _feeds(design, columns)),
        _section("Racks", _racks(design, columns)),
        _section("Fabrics", fabrics(design.fabrics, columns)),
        _section("Storage", storage(design.storage, columns)),
        _section("Bill of materials", _bom(design, columns)),
        *_remarks(design.diagnostics),
        _verdict(design.diagnostics),
    ]
    return within(joined((part for part in parts if part), "\n"), columns)


def _section(title: str, body: str) -> str:
    return styled(title, "title") + "\n" + body if body else ""


def _totals(design: Design) -> Iterator[str]:
    power, cooling = design.power, design.cooling
    lines = [f"{clean(design.name)}: {kw(power.it_w)} of equipment at maximum"]
    if power.unknown:
        lines[0] += f", without {clean(','.join(power.unknown))}, of unknown power"
    if design.has_site:
        total = "unknown: pue is not set" if power.total_w is None else kw(power.total_w)
        terms = f" = {kw(power.it_w)} x {power.diversity:g} diversity x {power.pue:g} PUE" if power.pue else ""
        limit = f", limit {kw(power.limit_w)}" if power.limit_w is not None else ""
        lines.append(f"site total     {total}{terms}{limit}")
        heat = f"{kw(cooling.heat_w)} = {cooling.heat_btu_h:,.0f} BTU/h = {tons(cooling.heat_tons)}"
        if cooling.airflow_m3_h is not None:
            air = f"{cooling.airflow_m3_h:,.0f} m3/h ({cooling.airflow_cfm or 0:,.0f} CFM)"
            heat += f", or {air} of air that warms by {cooling.rise_k:g} K"
        lines.append(f"heat           {heat}")
        if design.feeds:
            lines.append(f"feeds          {one_lost(design)}")
    if design.exempt:
        lines.append(f"exempt         {clean(','.join(design.exempt))}: virtual machines or a rehearsal's nodes")
    yield "".join(f"{line}\n" for line in lines)


def _hardware(design: Design, columns: int | None) -> str:
    rows = [
        [
            str(hardware.count),
            hardware.model,
            _w(hardware.node_w),
            hardware.origin,
            _parts(hardware.parts),
            hardware.nodes,
        ]
        for hardware in design.hardware
    ]
    return table(("nodes", "model", "each", "from", "known parts", ""), rows, "  ", columns) if rows else ""


def _parts(parts: Iterable[PartPower]) -> str:
    return ", ".join(f"{p.count} x {p.name} {_w(p.each_w)}" for p in parts)


def _feeds(design: Design, columns: int | None) -> str:
    rows = [
        [
            feed.name,
            f"{feed.volts:g} V, {plural(feed.phase_count, 'phase')}",
            f"{kw(feed.load_w)} of {_w(feed.limit_w)}",
            kw(feed.load_w_one_lost),
            " / ".join(f"{phase.load_a:,.0f}" for phase in feed.phases) + " A",
            _ups(feed.ups),
        ]
        for feed in design.feeds
    ]
    header = ("feed", "", "load, after diversity", "one feed lost, at maximum", "phases", "UPS")
    return table(header, rows, "  ", columns) if rows else ""


def _ups(ups: UpsDesign | None) -> str:
    if ups is None:
        return "-"
    run_time = "run time not known" if ups.run_time_min is None else f"{ups.run_time_min:.0f} min"
    target = f" of {ups.wanted_min:g} wanted" if ups.wanted_min else ""
    return f"{f'{ups.count} x {ups.model}' if ups.model else 'no model'}: {run_time}{target}"


def _racks(design: Design, columns: int | None) -> str:
    groups: dict[tuple[str, ...], list[str]] = {}
    for rack in design.racks:
        groups.setdefault(_cells(rack, design.power.survive), []).append(rack.name)
    rows = [[fold(names), *cells] for cells, names in groups.items()]
    header = ("rack", "power", "heat", "weight", "units", "one feed lost", "PDUs", "holds")
    return table(header, rows, "  ", columns) if rows else ""


def _cells(rack: RackDesign, survive: str) -> tuple[str, ...]:
    survives = {True: "carried", False: styled("NOT CARRIED", "bad"), None: "not checked"}[rack.survives_one_lost]
    survives = "not asked" if survive == "none" else survives
    models = Counter(position.model for position in rack.elevation if position.kind != "pdu")
    pdus = Counter((pdu.model, round(pdu.load_w), pdu.limit_w) for pdu in rack.pdus)
    return (
        f"{kw(rack.power_w)}{'+' if rack.power_unknown else ''} of {_w(rack.limit_w)}",
        f"{rack.heat_btu_h:,.0f} BTU/h",
        f"{rack.weight_kg:,.1f}{'+' if rack.weight_unknown else ''} of {_or(rack.limit_kg, ' kg')}",
        f"{rack.used_u} used, {_or(rack.free_u, '')} free",
        survives,
        ", ".join(f"{count} x {kw(load)} of {_w(limit)}" for (_, load, limit), count in pdus.items()) or "none",
        ", ".join(f"{count} x {model}" for model, count in models.items()) or "nothing",
    )


def _bom(design: Design, columns: int | None) -> str:
    rows = [[f"{b.count:,}", b.kind, b.model, "included" if b.included else "", b.description] for b in design.bom]
    return table(("count", "kind", "model", "", ""), rows, "  ", columns) if rows else ""


def _remarks(remarks: tuple[Remark, ...]) -> Iterator[str]:
    for severity, (head, style) in _HEADS.items():
        chosen = [remark for remark in remarks if remark.severity == severity]
        if chosen:
            yield styled(head, style) + "\n" + "".join(map(_remark, chosen))


def _remark(remark: Remark) -> str:
    place = f"{remark.file}:{remark.line}:{remark.column}" if remark.line else remark.file
    text = f"  {remark.code}  {clean(remark.message)}\n"
    if remark.arithmetic:
        text += f"            {clean(remark.arithmetic)}\n"
    if remark.severity == "not-checked":
        return text
    return text + f"            at {clean(place)}" + (f"; {clean(remark.hint)}" if remark.hint else "") + "\n"


def _verdict(remarks: tuple[Remark, ...]) -> str:
    counts = Counter(remark.severity for remark in remarks)
    errors = styled(plural(counts["error"], "error"), "bad" if counts["error"] else "good")
    warnings = plural(counts["warning"], "warning")
    return joined((
        errors, ", ", styled(warnings, "warn") if counts["warning"] else warnings,
        f", {counts['not-checked']} not checked. `hpcforge explain CODE` says more.\n",
    ))  # fmt: skip


def _w(power_w: float | None) -> str:
    return "not known" if power_w is None else kw(power_w)


def _or(quantity: float | None, unit: str) -> str:
    return "not known" if quantity is None else f"{quantity:,.0f}{unit}"
