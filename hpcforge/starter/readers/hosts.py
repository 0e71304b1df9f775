"""/etc/hosts, as machines with their addresses on other networks and those of their management controllers."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from hpcforge.starter.machines import (
    MOST_MACHINES,
    LeftOut,
    SiteAccess,
    SiteFile,
    SiteMachine,
    StarterError,
    functions_by_name,
    note_of,
)
from hpcforge.starter.readers import host_names
from hpcforge.starter.readers.words import NO_NAME, SECRET, at_most, by_name, domains, is_address, is_ipv6, is_plain

_USUAL = re.compile(r"localhost[\w.-]*|ip6-[\w-]+|broadcasthost|[\w.-]+\.localdomain\d?", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_WORKER = re.compile(r"(?:node|compute|gpu|worker|cn|dgx|hgx|[ncwg])-?\d.*")
_MOST_LINES = 10 * MOST_MACHINES  # lines with addresses: a machine may have several
_HINT_WORDS = 3  # a longer comment is a sentence


@dataclass(eq=False)
class _HostsLine:
    """A line: an address and its names. An empty address: IPv6 alone."""

    line: int
    address: str
    names: list[str]
    comment: str = ""
    heading: str = ""  # the comment above
    aliases: list[str] = field(default_factory=list)  # other names than the first, with and without its domain

    @property
    def short(self) -> str:
        return self.names[0].partition(".")[0].lower()

    @cached_property
    def label(self) -> str:
        """Return the text after the name in the longest name: `ipmi` of node1.ipmi.example.org."""
        labels = max(self.names, key=lambda name: name.count(".")).lower().split(".")
        return labels[1] if len(labels) > 2 else ""

    def out(self, reason: str) -> LeftOut:
        return LeftOut(self.line, f"{self.address} {' '.join(self.names)}".strip(), reason)


def read_hosts(text: str) -> SiteFile:
    """Return the machines of a hosts file: the first name of each address, unless the name makes it another thing.

    Raises `StarterError` where two addresses of one network have the same name.
    """
    left_out: list[LeftOut] = []
    rows = list(islice(_rows(text, left_out), _MOST_LINES + 1))
    if len(rows) > _MOST_LINES:
        raise StarterError(f"more than {MOST_MACHINES} machines, or {_MOST_LINES} lines")
    rows = list(_for_machines(list(_usable(rows, left_out)), left_out))
    access, rows = _access(rows, left_out)
    machines = at_most(_machines(rows, left_out))
    names = {machine.name for machine in machines}
    left_out += domains(
        (row.line, name)
        for row in rows
        for name in row.names
        if row.short in names and row.short == name.lower().partition(".")[0] and not host_names.is_bmc(row.label)
    )
    return SiteFile(machines, access=access, left_out=tuple(sorted(left_out, key=lambda entry: entry.line)))


def _rows(text: str, left_out: list[LeftOut]) -> Iterator[_HostsLine]:
    heading, used = "", False
    for number, line in enumerate(text.splitlines(), 1):
        content, _, comment = line.partition("#")
        words, entry = content.split(), comment.strip("# \t").split()
        if SECRET.search(comment):
            place = " ".join(words[:2]) or "#"
            left_out.append(LeftOut(number, place, "its comment has a word for a secret, and is not read"))
            entry = []
        if len(words) > 1:
            yield _HostsLine(number, words[0], words[1:], " ".join(entry), heading)
            used = True
        elif words:
            left_out.append(LeftOut(number, words[0], "not an address with a name"))
        elif len(entry) > 1 and is_plain(entry[0]) and _NAME.fullmatch(entry[1]):
            left_out.append(LeftOut(number, " ".join(entry), "commented out"))
        elif entry or used:
            heading, used = " ".join(entry), False


def _usable(rows: Sequence[_HostsLine], left_out: list[LeftOut]) -> Iterator[_HostsLine]:
    """Yield the rows with an address and a valid machine name. IPv6 alone leaves the address open."""
    usual = [row for row in rows if all(_USUAL.fullmatch(name) for name in row.names)]
    if usual:
        names = dict.fromkeys(name for row in usual for name in row.names)
        left_out.append(LeftOut(usual[0].line, " ".join(names), "names of the machine itself"))
    hosts = {row.short for row in rows if is_plain(row.address)}
    lines = {row.line for row in usual}
    for row in (row for row in rows if row.line not in lines):
        if not is_plain(row.address):
            has_host = row.short in hosts
            if not _has_ipv6(row.address) or has_host:
                left_out.append(row.out(_reason(row.address)))
                continue
            reason = f"{_reason(row.address)}: {row.short} has one that is a guess"
            left_out.append(LeftOut(row.line, row.address, reason))
            hosts.add(row.short)
            row.address = ""
        name = host_names.host_name(row.names[0])
        if name is None:
            left_out.append(row.out(f"{row.names[0][:80]!r} {NO_NAME}"))
            continue
        if name != row.short:
            left_out.append(LeftOut(row.line, row.names[0], f"host names have no underscore: {name} here"))
            row.names[0] = name
        yield row


def _has_ipv6(address: str) -> bool:
    """Return whether a machine can have an address in a network by IPv6."""
    if not is_ipv6(address):
        return False
    parsed = ipaddress.IPv6Address(address.partition("%")[0])
    return not (parsed.is_loopback or parsed.is_multicast or parsed.is_link_local or parsed.is_unspecified)


def _reason(address: str) -> str:
    """Return why an address does not belong to a machine."""
    if is_address(address):
        return "this machine itself" if address.startswith("127.") else "an address that no machine has"
    return "a blueprint has no IPv6 addresses" if is_ipv6(address) else "it does not begin with an address"


def _for_machines(rows: Sequence[_HostsLine], left_out: list[LeftOut]) -> Iterator[_HostsLine]:
    """Yield the rows of machines, without switches and similar devices, one for each address."""
    first: dict[str, _HostsLine] = {}
    for row in rows:
        if word := _device(row):
            left_out.append(row.out(f"no machine of a cluster ({word})"))
        elif row.address and (owner := first.setdefault(row.address, row)) is not row:
            left_out.append(row.out(f"{row.address} belongs to {owner.short}, line {owner.line}"))
        else:
            first_names = (row.short, row.names[0].lower())
            row.aliases = [
                name
                for name in row.names[1:]
                if name.lower() not in first_names
                and (name.lower().partition(".")[0] != row.short or "." in row.names[0])
            ]
            yield row


def _device(row: _HostsLine) -> str | None:
    """Return the word that marks a row as a switch or similar: in its name, else its other names and comments."""
    if word := host_names.device(row.short):
        return word
    if functions_by_name(row.short, "") or _WORKER.fullmatch(row.short) or host_names.is_jump_host(row.short):
        return None
    hints = [*row.names[1:], *_few_words(row.comment), *_few_words(row.heading)]
    return next(filter(None, (host_names.device(name.lower().partition(".")[0]) for name in hints)), None)


def _few_words(comment: str) -> list[str]:
    words = comment.split()
    return words if len(words) <= _HINT_WORDS else []


def _access(rows: Sequence[_HostsLine], left_out: list[LeftOut]) -> tuple[SiteAccess, list[_HostsLine]]:
    """Return the first jump host as the way in, and the rows of all other machines."""
    jumps = [row for row in rows if host_names.is_jump_host(row.short)]
    names = {row.short for row in jumps}
    jumps = [row for row in jumps if not host_names.owner(row.short, names)]
    others: list[_HostsLine] = []
    for row in rows:
        owner = host_names.owner(row.short, names)
        if owner and owner[0] in names:
            left_out.append(row.out(f"another address of the jump host {owner[0]}"))
        elif row not in jumps:
            others.append(row)
        elif row is not jumps[0]:
            left_out.append(row.out(f"a second jump host beside {jumps[0].short}, line {jumps[0].line}"))
        elif row.aliases:
            left_out.append(LeftOut(row.line, " ".join(row.aliases), f"other names of the jump host {row.short}"))
    access = [
        SiteAccess(None, row.address or row.short, guesses=(f"via, by the name {row.short}",)) for row in jumps[:1]
    ]
    return next(iter(access), SiteAccess()), others


def _machines(rows: Sequence[_HostsLine], left_out: list[LeftOut]) -> Iterator[SiteMachine]:
    """Yield a machine for each name that is not another's address, with those addresses."""
    names: dict[str, _HostsLine] = {}
    for row in rows:
        names.setdefault(row.short, row)
    for row in rows:
        for alias in row.aliases:
            names.setdefault(alias.partition(".")[0].lower(), row)
    own: dict[str, _HostsLine] = {}
    others: dict[str, list[tuple[str, _HostsLine]]] = {}
    for row in sorted(rows, key=lambda row: host_names.needs_owner(row.label)):  # a row comes after its machine's row
        base, word = _owner(row, names, own) or ("", "")
        if base in names:
            others.setdefault(names[base].short, []).append((word, row))
        elif base:
            left_out.append(row.out(f"an address of {base}, which this file does not have"))
        else:
            own[row.short] = row
    for name, row in own.items():
        yield _machine(row, others.pop(name, ()), left_out)
    for name, rest in others.items():  # whose owner is itself the address of another
        left_out += [row.out(f"an address of {name}, which is not a machine") for _, row in rest]


def _owner(row: _HostsLine, names: Mapping[str, _HostsLine], own: Mapping[str, _HostsLine]) -> tuple[str, str] | None:
    """Return the owner of a row's address, and its network; None: the row. Raises `StarterError` for a name twice."""
    if first := own.get(row.short):
        if not first.address or not row.address:
            return row.short, row.label or "ipv6"
        if host_names.is_bmc(row.label):
            return row.short, row.label
        if _block(first.address) == _block(row.address):
            places = f"{first.address} in line {first.line}, {row.address} in line {row.line}"
            raise StarterError(f"{row.short} is there twice: {places}", "remove one of the lines, or rename it")
        network = f"net-{_block(row.address).replace('.', '-')}"
        return row.short, row.label if row.label and row.label != first.label else network
    if host_names.is_bmc(row.label) or re.fullmatch(r"(?:bmc|ipmi|ilo|idrac)-?\d+", row.short):
        return row.short if host_names.is_bmc(row.label) else "a machine that its name does not tell", row.label
    owner = host_names.owner(row.short, [name for name, second in names.items() if second is not row])
    if owner is None or host_names.is_network(owner[1]):
        return owner
    base = names[owner[0]].address
    return owner if row.address and base and _block(base) != _block(row.address) else None


def _block(address: str) -> str:
    return address.rpartition(".")[0]


def _machine(row: _HostsLine, others: Sequence[tuple[str, _HostsLine]], left_out: list[LeftOut]) -> SiteMachine:
    addresses: dict[str, str] = {}
    bmc: str | None = None
    notes = [*([f"also {' '.join(row.aliases)}"] if row.aliases else []), row.comment]
    for word, second in others:
        if not second.address:
            continue  # an IPv6 address, which its own line reports
        if host_names.is_bmc(word) and bmc is None:
            bmc = second.address
        elif word not in addresses and not host_names.is_bmc(word):
            addresses[word] = second.address
        else:
            left_out.append(second.out(f"a second address of {row.short} for {word}"))
        notes += [*([f"{word} also {' '.join(second.aliases)}"] if second.aliases else []), second.comment]
    return by_name(
        row.short,
        row.address or None,
        next(filter(None, (functions_by_name(name.lower(), "") for name in _hints(row))), None),
        addresses=addresses,
        bmc=bmc,
        note=note_of(notes),
    )


def _hints(row: _HostsLine) -> list[str]:
    """Return the words that may state the function of a machine if its name does not."""
    return [*row.aliases, *_few_words(row.comment)]
