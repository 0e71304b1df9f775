"""A list of machines as comma-separated values: MAC addresses, controllers and serial numbers for an inventory. Pure.

A record is one line, so that each cell has a line and a column. Nothing that the inventory has is replaced: a cell that
contradicts it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from hpcforge.blueprint import suggestions
from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import Diagnostic, Mark, SourceFile, did_you_mean, in_order, quote
from hpcforge.blueprint.inventory import BmcSection, Inventory, InventoryNode

MOST_BYTES = 16 << 20
MOST_MACHINES = 100_000
_MOST_COLUMNS = 64
_MOST_ERRORS = 1_000
_SEPARATORS = (",", ";", "\t")
# How lists call what an inventory has; spaces and hyphens of a heading are read as _.
_HEADINGS = {
    "node": ("node", "name", "host", "hostname"),
    "mac": ("mac", "mac_address"),
    "bmc_address": ("bmc", "bmc_address", "bmc_ip", "ipmi_address", "ipmi_ip"),
    "bmc_mac": ("bmc_mac", "bmc_mac_address", "ipmi_mac"),
    "serial": ("serial", "serial_number", "service_tag"),
}
_FIELD_OF = {heading: name for name, headings in _HEADINGS.items() for heading in headings}
_TYPES: Mapping[str, TypeAdapter[str]] = {
    "node": TypeAdapter(v.NodeName),
    "mac": TypeAdapter(v.Mac),
    "bmc_address": TypeAdapter(v.Ipv4),
    "bmc_mac": TypeAdapter(v.Mac),
    "serial": TypeAdapter(v.Serial),
}
_WRITTEN: Mapping[str, Callable[[str], str]] = {"node": str.lower, "mac": suggestions.mac, "bmc_mac": suggestions.mac}


@dataclass(frozen=True)
class ListedMachines:
    """What a list adds to an inventory by (node, key), the headings that were not read, and what is wrong."""

    added: Mapping[tuple[str, str], object]
    listed: tuple[str, ...] = ()  # nodes of the list
    ignored: tuple[str, ...] = ()
    wrong: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True)
class _Cell:
    text: str
    mark: Mark


@dataclass
class _Errors:
    source: SourceFile
    found: list[Diagnostic] = field(default_factory=list)

    def add(self, message: str, mark: Mark | None, hint: str | None = None) -> None:
        if len(self.found) < _MOST_ERRORS:
            self.found.append(Diagnostic("error", message, self.source, mark, hint))


def listed_machines(content: bytes, name: str, nodes: Collection[str], inventory: Inventory) -> ListedMachines:
    """Read a list. `name` is how diagnostics call the file; `nodes` are those of the blueprint."""
    try:
        source = SourceFile.of(name, content.decode("utf-8-sig"), MOST_MACHINES + 2)
    except UnicodeDecodeError as error:
        mark = Mark(content.count(b"\n", 0, error.start) + 1, error.start - content.rfind(b"\n", 0, error.start))
        wrong = Diagnostic("error", "the file is not UTF-8", SourceFile(name), mark, "save the list as UTF-8")
        return ListedMachines({}, wrong=(wrong,))
    errors = _Errors(source)
    if len(source.lines) > MOST_MACHINES + 1:
        errors.add(f"the list has more than {MOST_MACHINES:,} lines", None, "is this the right file?")
        return ListedMachines({}, wrong=tuple(errors.found))
    rows = [number for number, line in enumerate(source.lines, 1) if line.strip() and not line.startswith("#")]
    if not rows:
        errors.add("the list is empty", None, "the first line names the columns: node,mac,bmc_address,serial")
        return ListedMachines({}, wrong=tuple(errors.found))
    separator = max(_SEPARATORS, key=source.lines[rows[0] - 1].count)
    fields, ignored = _heading(errors, _cells(errors, rows[0], separator))
    machines: dict[str, dict[str, _Cell]] = {}
    if not errors.found:
        for number in rows[1:]:
            _take(errors, fields, _cells(errors, number, separator), machines, nodes)
        _refuse_shared(errors, machines, inventory)
    added = dict(_additions(errors, machines, inventory))
    return ListedMachines(added, tuple(machines), ignored, in_order(source, errors.found))


def _cells(errors: _Errors, number: int, separator: str) -> list[_Cell]:
    line, at = errors.source.lines[number - 1].rstrip(), 0
    cells: list[_Cell] = []
    while len(cells) < _MOST_COLUMNS:
        start, end = _cell(line, at, separator)
        if end is None:
            hint = 'a cell in quotes ends on its line, and a quote inside is written twice: "a ""b"""'
            errors.add("the quotes of this cell do not match", Mark(number, start + 1), hint)
            return []
        text = line[start:end].strip()
        if line[start : start + 1] == '"':
            text = text[1:-1].replace('""', '"').strip()
        cells.append(_Cell(text, Mark(number, start + 1, max(1, end - start))))
        if end == len(line):
            return cells
        at = end + 1
    errors.add(f"the line has more than {_MOST_COLUMNS} columns", Mark(number, at + 1), "is this the right file?")
    return []


def _cell(line: str, at: int, separator: str) -> tuple[int, int | None]:
    """Where a cell begins, behind its blanks, and where it ends; None: its quotes do not match."""
    start = at
    while line[start : start + 1] == " ":
        start += 1
    if line[start : start + 1] != '"':
        end = line.find(separator, start)
        end = len(line) if end < 0 else end
        return start, None if '"' in line[start:end] else end
    close = line.find('"', start + 1)
    while close >= 0 and line[close + 1 : close + 2] == '"':
        close = line.find('"', close + 2)
    end = close + 1
    while close >= 0 and line[end : end + 1] == " ":
        end += 1
    matches = close >= 0 and line[end : end + 1] in ("", separator)
    return start, end if matches else None


def _heading(errors: _Errors, cells: list[_Cell]) -> tuple[list[str | None], tuple[str, ...]]:
    fields: list[str | None] = []
    ignored: list[str] = []
    for cell in cells:
        known = _FIELD_OF.get(re.sub("[ -]+", "_", cell.text.lower()))
        if known is None:
            ignored.append(cell.text)
        elif known in fields:
            errors.add(f"a second column for {known}: {quote(cell.text)}", cell.mark, "remove one of them")
        fields.append(known)
    if cells and "node" not in fields:
        hint = "the first line names the columns: node,mac,bmc_address,bmc_mac,serial"
        errors.add("no column has the names of nodes", cells[0].mark, hint)
    elif cells and not any(name for name in fields if name != "node"):
        errors.add("no column has anything of an inventory", cells[0].mark, f"known: {', '.join(_HEADINGS)}")
    return fields, tuple(ignored)


def _take(
    errors: _Errors,
    fields: list[str | None],
    cells: list[_Cell],
    machines: dict[str, dict[str, _Cell]],
    nodes: Collection[str],
) -> None:
    """Take one line of the list."""
    if len(cells) > len(fields):
        errors.add(f"{len(cells)} cells, but {len(fields)} columns", cells[len(fields)].mark)
        return
    row: dict[str, _Cell] = {}
    for name, cell in zip(fields, cells, strict=False):
        if name is not None and cell.text:
            row[name] = _Cell(_typed(errors, name, cell), cell.mark)
    node = row.pop("node", None)
    if node is None:
        if cells:
            errors.add("a line without the name of a node", cells[0].mark)
    elif node.text and node.text not in nodes:
        errors.add(f"{quote(node.text)} is not a node of the blueprint", node.mark, did_you_mean(node.text, nodes))
    elif node.text in machines:
        errors.add(f"a second line for {node.text}", node.mark, "one line for each node")
    elif node.text:
        machines[node.text] = row


def _typed(errors: _Errors, name: str, cell: _Cell) -> str:
    """The value as an inventory has it; "" if it is wrong."""
    for text in (_WRITTEN.get(name, str)(cell.text), cell.text):
        try:
            return _TYPES[name].validate_python(text)
        except ValidationError as error:
            [first, *_] = error.errors(include_url=False)
    hint = first.get("ctx", {}).get("hint")
    errors.add(f"{name}: {first['msg']}", cell.mark, hint if isinstance(hint, str) else None)
    return ""


def _known(inventory: Inventory, node: str) -> dict[str, str | None]:
    machine = inventory.nodes.get(node) or InventoryNode.model_construct()
    bmc = machine.bmc or BmcSection.model_construct()
    return {"mac": machine.mac, "bmc_address": bmc.address, "bmc_mac": bmc.mac, "serial": machine.serial}


def _refuse_shared(errors: _Errors, machines: Mapping[str, Mapping[str, _Cell]], inventory: Inventory) -> None:
    """Refuse what two machines would share."""
    owner = {value: node for node in inventory.nodes for value in _known(inventory, node).values() if value}
    for node, row in machines.items():
        for name, cell in row.items():
            other = owner.setdefault(cell.text, node) if cell.text else node
            if other != node:
                errors.add(f"{name}: {quote(cell.text)} of {node} already belongs to {other}", cell.mark)


def _additions(
    errors: _Errors, machines: Mapping[str, Mapping[str, _Cell]], inventory: Inventory
) -> Iterator[tuple[tuple[str, str], object]]:
    """Yield what the inventory lacks, and refuse what contradicts it."""
    for node, row in machines.items():
        known = _known(inventory, node)
        new: dict[str, str] = {}
        for name, cell in row.items():
            if known[name] is not None and cell.text not in ("", known[name]):
                hint = f"if {node} is another machine now: `hpcforge nodes replace`; else correct one of the files"
                errors.add(f"{name}: the inventory has {quote(known[name] or '')} of {node}", cell.mark, hint)
            elif known[name] is None and cell.text:
                new[name] = cell.text
        machine = inventory.nodes.get(node)
        had = machine.bmc.model_dump(exclude_none=True) if machine and machine.bmc else {}
        bmc = {key: new[f"bmc_{key}"] for key in ("address", "mac") if f"bmc_{key}" in new}
        yield from (((node, key), new[key]) for key in ("mac", "serial") if key in new)
        if bmc:
            yield (node, "bmc"), {**had, **bmc}
