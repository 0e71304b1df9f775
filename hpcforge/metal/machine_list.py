"""A list of machines as comma-separated values: MAC addresses, controllers and serial numbers for an inventory. Pure.

Each cell has a line and a column. Nothing that the inventory has is replaced: a cell that contradicts it is an error.
Columns that are not read, and lines of other machines, are named.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import TypeAdapter, ValidationError

from hpcforge.blueprint import hostlist, suggestions
from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import Diagnostic, Mark, SourceFile, closest, in_order, quote
from hpcforge.blueprint.inventory import BmcSection, Inventory, InventoryNode
from hpcforge.cluster.separated_values import CellError, ListCell, ListRecord, decode, record, records, separator_of

MOST_BYTES = 16 << 20
MOST_MACHINES = 100_000
_MOST_ERRORS = 1_000
_MOST_LEFT_OUT = 1_000  # lines
_MOST_TITLES = 20  # lines before the heading
_CONTROLLERS = ("bmc", "ipmi", "idrac", "drac", "ilo", "xcc", "imm", "irmc", "cimc", "oob", "redfish")
_ADDRESS_WORDS = ("", "_address", "_addr", "_ip", "_ip_address", "_ipaddr", "_ipaddress", "_ipv4", "_ip_adresse")
_MAC_WORDS = ("mac", "mac_address", "mac_addr", "macaddress", "hwaddr", "mac_adresse", "adresse_mac")
# How lists call what an inventory has: in lower case and without accents; what is no letter or digit is read as _.
_HEADINGS = {
    "node": (
        "node", "name", "host", "hostname", "host_name", "node_name", "nodename", "server", "server_name", "servername",
        "device", "device_name", "machine", "machine_name", "system_name", "fqdn", "name_key", "hostname_key",
        "dns_name", "computer_name", "rechner", "rechnername", "geratename", "knoten", "nom", "nom_d_hote",
    ),
    "mac": (
        *_MAC_WORDS, "hw_addr", "hardware_address", "ethernet_address", "admin_mac", "admin_mac_address", "pxe_mac",
        "pxe_mac_address", "boot_mac", "boot_mac_address", "provisioning_mac", "net_default_hwaddr",
    ),
    "bmc_address": (
        *(f"{name}{word}" for name in _CONTROLLERS for word in _ADDRESS_WORDS), "bmcip", "ipmiip", "power_address",
    ),
    "bmc_mac": tuple(f"{name}_{word}" for name in _CONTROLLERS for word in _MAC_WORDS),
    "serial": (
        "serial", "serial_number", "serial_no", "serialnumber", "serial_num", "sn", "s_n", "service_tag", "servicetag",
        "device_service_tag", "system_serial", "system_serial_number", "product_serial", "product_serial_number",
        "seriennummer", "serien_nr", "seriennr", "numero_de_serie", "n_de_serie",
    ),
}  # fmt: skip
_KNOWN = "node,mac,bmc_address,bmc_mac,serial"
_FIELD_OF = {heading: name for name, headings in _HEADINGS.items() for heading in headings}
_SECRET = re.compile("pass|pwd|secret|token|kennwort|credential|private_key")
_NOTHING = {"-", "--", "\u2013", "\u2014", "n/a", "none", "null"}  # how exports write an empty cell
_CHANGED = re.compile(r"[0-9]+[.,]0+|[0-9](?:[.,][0-9]+)?[eE]\+[0-9]+")  # what a spreadsheet makes of digits
_TYPES: Mapping[str, TypeAdapter[str]] = {
    "mac": TypeAdapter(v.Mac),
    "bmc_address": TypeAdapter(v.Ipv4),
    "bmc_mac": TypeAdapter(v.Mac),
    "serial": TypeAdapter(v.Serial),
}


_MAC = re.compile("[0-9a-f]{2}(?::[0-9a-f]{2}){5}")


def _bare_address(text: str) -> str:
    """Return an address without its prefix length, and extracted from a URL."""
    return text.removeprefix("http://").removeprefix("https://").partition("/")[0]


def _xcat_mac(text: str) -> str:
    """Return a MAC address; of xCAT's several (`mac!name|mac!name`), the first whose name is not *NOIP*."""
    parts = [part.partition("!") for part in text.split("|")]
    return suggestions.mac(next((mac for mac, _, name in parts if name != "*NOIP*"), text))


_WRITTEN: Mapping[str, Callable[[str], str]] = {
    "mac": _xcat_mac,
    "bmc_mac": suggestions.mac,
    "bmc_address": _bare_address,
}


@dataclass(frozen=True)
class ListedMachines:
    """What a list adds to an inventory by (node, key), what was not read of it, and what is wrong.

    `ignored` are headings, `left_out` lines with the reason.
    """

    added: Mapping[tuple[str, str], object]
    listed: tuple[str, ...] = ()  # nodes of the list
    ignored: tuple[str, ...] = ()
    wrong: tuple[Diagnostic, ...] = ()
    left_out: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class _ListHeading:
    """The heading of a list: its line, the separator, and what each column has (None: it is not read)."""

    line: int
    separator: str
    cells: Sequence[ListCell]
    fields: Sequence[str | None]

    @property
    def complete(self) -> bool:
        """True where it names nodes and something of an inventory."""
        return "node" in self.fields and any(name not in (None, "node") for name in self.fields)

    def is_again(self, cells: Sequence[ListCell]) -> bool:
        """Whether a record repeats the heading, as lists of several pages do."""
        return [cell.text.lower() for cell in cells] == [cell.text.lower() for cell in self.cells]


@dataclass
class _ListReading:
    """What was read of a list so far."""

    source: SourceFile
    nodes: Collection[str]
    machines: dict[str, dict[str, ListCell]] = field(default_factory=dict)
    left_out: list[tuple[int, str]] = field(default_factory=list)
    errors: list[Diagnostic] = field(default_factory=list)
    hidden: list[ListCell] = field(default_factory=list)  # passwords, which no message shows
    unnamed: set[int] = field(default_factory=set)  # columns with values, and without a heading

    def add(self, message: str, mark: Mark | None, hint: str | None = None) -> None:
        if len(self.errors) < _MOST_ERRORS:
            self.errors.append(Diagnostic("error", message, self.source, mark, hint))


def listed_machines(content: bytes, name: str, nodes: Collection[str], inventory: Inventory) -> ListedMachines:
    """Read a list. `name` is how diagnostics call the file; `nodes` are those of the blueprint."""
    try:
        source = SourceFile.of(name, decode(content), MOST_MACHINES + 2)
    except CellError as error:
        wrong = Diagnostic("error", str(error), SourceFile(name), error.mark, error.hint)
        return ListedMachines({}, wrong=(wrong,))
    reading = _ListReading(source, nodes)
    if len(source.lines) > MOST_MACHINES + 1:
        reading.add(f"the list has more than {MOST_MACHINES:,} lines", None, "is this the right file?")
        return ListedMachines({}, wrong=tuple(reading.errors))
    heading = _heading(reading)
    if heading and not reading.errors:
        for row in records(source.lines, heading.line + 1, heading.separator, _rows_of(nodes, heading.separator)):
            _take(reading, heading, row)
            if len(reading.left_out) > _MOST_LEFT_OUT or len(reading.errors) >= _MOST_ERRORS:
                break
        _refuse_shared(reading, inventory)
        if len(reading.left_out) > _MOST_LEFT_OUT:
            message = f"more than {_MOST_LEFT_OUT:,} lines are of no node of the blueprint"
            reading.add(message, Mark(reading.left_out[-1][0], 1), "is this the right file?")
        elif not reading.machines and not reading.errors:
            reading.add("no line has a node of the blueprint", heading.cells[0].mark, f"known: {hostlist.fold(nodes)}")
    added = dict(_additions(reading, inventory))
    unread = (
        [cell.text for cell, name in zip(heading.cells, heading.fields, strict=True) if not name] if heading else []
    )
    unread += [f"column {number}, which has no heading" for number in sorted(reading.unnamed)]
    return ListedMachines(
        added, tuple(reading.machines), tuple(filter(None, unread)), _shown(reading), tuple(reading.left_out)
    )


def _rows_of(nodes: Collection[str], separator: str) -> Callable[[str], bool]:
    """Whether a line has a cell with the name of a node: then it is no part of a cell in quotes."""
    return lambda line: any(_node(cell.strip(' "'), nodes) in nodes for cell in line.split(separator))


def _node(text: str, nodes: Collection[str]) -> str:
    """Return a node's name as the blueprint has it: in lower case, and without the domain."""
    name = text.lower()
    return name if name in nodes else name.partition(".")[0]


def _shown(reading: _ListReading) -> tuple[Diagnostic, ...]:
    """Return the errors, in the order of the file and without passwords."""
    lines = list(reading.source.lines)
    for cell in reading.hidden:
        mark, line = cell.mark, lines[cell.mark.line - 1]
        lines[mark.line - 1] = line[: mark.column - 1] + "*" * mark.width + line[mark.column - 1 + mark.width :]
    source = SourceFile(reading.source.name, tuple(lines))
    return in_order(source, [replace(error, source=source) for error in reading.errors])


def _heading(reading: _ListReading) -> _ListHeading | None:
    """Return the heading of a list: the first line that names nodes and inventory keys; report the lines before it.

    A comment is the heading only if there is no other: xCAT's tables have one.
    """
    candidates: list[_ListHeading] = []
    comments: list[_ListHeading] = []
    errors: list[CellError] = []
    separator = None
    for number, line in enumerate(reading.source.lines, 1):
        if match := re.fullmatch(r"sep=(.)\s*", line, re.IGNORECASE):  # Excel's
            separator = match[1]
        elif line.strip():
            try:
                columns = _columns(reading.source.lines, number, separator or separator_of(line))
            except CellError as error:
                errors.append(error)
            else:
                (comments if line.lstrip().startswith("#") else candidates).append(columns)
        if len(candidates) + len(comments) + len(errors) >= _MOST_TITLES or any(each.complete for each in candidates):
            break
    heading = next((each for each in (*candidates, *comments) if each.complete), None)
    if heading is None:
        _without_heading(reading, candidates, errors)
        return None
    reading.left_out += [(each.line, "before the heading") for each in candidates if each.line < heading.line]
    for place, (cell, name) in enumerate(zip(heading.cells, heading.fields, strict=True)):
        if name not in (None, "node") and name in heading.fields[:place]:
            reading.add(f"a second column for {name}: {quote(cell.text)}", cell.mark, "remove one")
    return heading


def _columns(lines: Sequence[str], number: int, separator: str) -> _ListHeading:
    """Parse a line as a heading. Raise `CellError`."""
    bare = re.sub(r"^\s*#+", lambda match: " " * len(match[0]), lines[number - 1])
    cells, end = record([*lines[: number - 1], bare, *lines[number : number + 9]], number, separator)
    return _ListHeading(end, separator, cells, [_FIELD_OF.get(_word(cell.text)) for cell in cells])


def _word(heading: str) -> str:
    """Return a heading in the form of `_HEADINGS`."""
    plain = unicodedata.normalize("NFKD", heading.lower()).encode("ascii", "ignore").decode()
    return re.sub("[^a-z0-9]+", "_", plain).strip("_")


def _without_heading(reading: _ListReading, candidates: Sequence[_ListHeading], errors: Sequence[CellError]) -> None:
    hint = f"the first line names the columns: {_KNOWN}"
    for error in errors[:1]:
        reading.add(str(error), error.mark, error.hint)
    if errors:
        return
    if not candidates:
        reading.add("the list is empty", None, hint)
    elif not any("node" in each.fields for each in candidates):
        reading.add("no column has the names of nodes", candidates[0].cells[0].mark, hint)
    else:
        first = next(each for each in candidates if "node" in each.fields)
        reading.add("no column has values of an inventory", first.cells[0].mark, f"known: {', '.join(_HEADINGS)}")


def _take(reading: _ListReading, heading: _ListHeading, row: ListRecord) -> None:
    """Take one record of the list."""
    secret = [bool(_SECRET.search(_word(cell.text))) for cell in heading.cells]
    if row.error is not None:
        reading.add(str(row.error), row.error.mark, row.error.hint)
        if any(secret):
            reading.hidden.append(ListCell("", Mark(row.line, 1, len(reading.source.lines[row.line - 1]))))
        return
    if row.empty:
        return
    if heading.is_again(row.cells):
        reading.left_out.append((row.line, "the heading again"))
        return
    extra = [cell for cell in row.cells[len(heading.fields) :] if cell.text]
    if extra:
        reading.add(f"{len(row.cells)} cells, but {len(heading.fields)} columns", extra[0].mark)
        return
    reading.hidden += [cell for cell, hide in zip(row.cells, secret, strict=False) if hide and cell.text]
    names: list[ListCell] = []
    values: dict[str, ListCell] = {}
    for number, (name, cell) in enumerate(zip(heading.fields, row.cells, strict=False), 1):
        if not cell.text or cell.text.lower() in _NOTHING:
            continue
        if name == "node":
            names.append(ListCell(_node(cell.text, reading.nodes), cell.mark))
        elif name is not None:
            values[name] = cell
        elif not heading.cells[number - 1].text:
            reading.unnamed.add(number)
    if node := _owner(reading, names, values, row):
        typed = {name: ListCell(_typed(reading, name, cell), cell.mark) for name, cell in values.items()}
        reading.machines[node.text] = typed


def _owner(
    reading: _ListReading, names: Sequence[ListCell], values: Mapping[str, ListCell], row: ListRecord
) -> ListCell | None:
    """Return the node that a record describes; None: there is an error, or the record is left out."""
    node = next((cell for cell in names if cell.text in reading.nodes), None) or next(iter(names), None)
    if node is None:
        if values:
            reading.add("a line without the name of a node", row.cells[0].mark)
        else:
            reading.left_out.append((row.line, "it has no name"))
        return None
    if node.text not in reading.nodes:
        if near := closest(node.text, tuple(reading.nodes)):
            message, hint = f"{quote(node.text)} is not a node of the blueprint", f"did you mean `{near}`?"
            reading.add(message, node.mark, hint)
        else:
            reading.left_out.append((row.line, f"{quote(node.text)} is not a node of the blueprint"))
        return None
    other = next((cell for cell in names if cell.text in reading.nodes and cell.text != node.text), None)
    if other is not None:
        reading.add(f"one line names {node.text} and {other.text}", other.mark, "one line for each node")
        return None
    if node.text in reading.machines:
        reading.add(f"a second line for {node.text}", node.mark, "one line for each node")
        return None
    return node


def _typed(reading: _ListReading, name: str, cell: ListCell) -> str:
    """Return the value as an inventory has it; "" if it is wrong."""
    if _CHANGED.fullmatch(cell.text):
        message = f"{name}: {quote(cell.text)} is a number that a spreadsheet has changed"
        reading.add(message, cell.mark, "format the column as text, enter the value again, and save the list")
        return ""
    for text in (_WRITTEN.get(name, str)(cell.text), cell.text):
        try:
            value = _TYPES[name].validate_python(text)
            if why := _of_no_machine(value, name):
                reading.add(
                    f"{name}: {quote(cell.text)} is {why}", cell.mark, "correct the list, or leave the cell empty"
                )
                return ""
            return value
        except ValidationError as error:
            [first, *_] = error.errors(include_url=False)
            if _MAC.fullmatch(text):  # its form is right
                break
    hint = first.get("ctx", {}).get("hint")
    reading.add(f"{name}: {first['msg']}", cell.mark, hint if isinstance(hint, str) else None)
    return ""


def _of_no_machine(value: str, name: str) -> str | None:
    """Why no single machine has an address; None: one may have it."""
    if name == "bmc_address":
        address = ipaddress.IPv4Address(value)
        none = address.is_loopback or address.is_multicast or address.is_unspecified or address.is_reserved
        return "an address that no machine has in a network" if none else None
    return None


def _known(inventory: Inventory, node: str) -> dict[str, str | None]:
    machine = inventory.nodes.get(node) or InventoryNode.model_construct()
    bmc = machine.bmc or BmcSection.model_construct()
    return {"mac": machine.mac, "bmc_address": bmc.address, "bmc_mac": bmc.mac, "serial": machine.serial}


def _refuse_shared(reading: _ListReading, inventory: Inventory) -> None:
    """Refuse what two machines would share."""
    owner = {value: node for node in inventory.nodes for value in _known(inventory, node).values() if value}
    for node, row in reading.machines.items():
        for name, cell in row.items():
            other = owner.setdefault(cell.text, node) if cell.text else node
            if other != node:
                reading.add(f"{name}: {quote(cell.text)} of {node} already belongs to {other}", cell.mark)


def _additions(reading: _ListReading, inventory: Inventory) -> Iterator[tuple[tuple[str, str], object]]:
    """Yield what the inventory lacks, and refuse what contradicts it."""
    for node, row in reading.machines.items():
        known = _known(inventory, node)
        new: dict[str, str] = {}
        for name, cell in row.items():
            if known[name] is not None and cell.text not in ("", known[name]):
                hint = f"if {node} is another machine now: `hpcforge nodes replace`; else correct one of the files"
                reading.add(f"{name}: the inventory has {quote(known[name] or '')} of {node}", cell.mark, hint)
            elif known[name] is None and cell.text:
                new[name] = cell.text
        machine = inventory.nodes.get(node)
        had = machine.bmc.model_dump(exclude_none=True) if machine and machine.bmc else {}
        bmc = {key: new[f"bmc_{key}"] for key in ("address", "mac") if f"bmc_{key}" in new}
        yield from (((node, key), new[key]) for key in ("mac", "serial") if key in new)
        if bmc:
            yield (node, "bmc"), {**had, **bmc}
