"""slurm.conf with gres.conf and included files: nodes, partitions, the controller and settings. Pure.

slurm.conf(5) and gres.conf(5) name the parameters; they combine as in `_parse_nodename` of Slurm's read_config.c. The
reader may import `hpcforge.starter` and `hpcforge.blueprint`. It runs none of Slurm's programs, and writes no
slurm.conf.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import TypeAdapter

from hpcforge.blueprint import values as v
from hpcforge.starter.machines import LeftOut, SiteFile, SiteMachine, StarterError
from hpcforge.starter.readers.slurm import partitions as slurm_partitions
from hpcforge.starter.readers.slurm.partitions import NAME as PARTITION
from hpcforge.starter.readers.slurm.partitions import partitions
from hpcforge.starter.readers.slurm_settings import HEADS, Settings, cluster_settings, problem
from hpcforge.starter.readers.slurm_words import STATE, Fields, Ledger, Statement, Word, is_shown, statements
from hpcforge.starter.readers.words import Beside, is_address

_NAME: TypeAdapter[str] = TypeAdapter(v.NodeName)
_FEATURE: TypeAdapter[str] = TypeAdapter(v.Feature)
_CLUSTER: TypeAdapter[str] = TypeAdapter(v.ClusterName)
_DOMAIN: TypeAdapter[str] = TypeAdapter(v.DomainName)
_MOST = {"sockets": 65_535, "cores": 512, "threads": 8, "mib": 65_536 * 1024, "weight": 4_294_967_293}
_MOST_SOCKETS = 16
_NO_MACHINE = re.compile(r"0\.|127\.|169\.254\.|22[4-9]\.|2[345]\d\.")  # addresses that no machine of a network has
_PROCESSORS = ("cpus", "procs", "cputot", "boards", "socketsperboard", "sockets", "corespersocket", "threadspercore")
_IN_SERVICE = {"UNKNOWN", "IDLE", "ALLOCATED", "MIXED", "COMPLETING", "PLANNED"}
_NOT_THERE = {"CLOUD", "FUTURE", "DYNAMIC"}
_LOWER = "names of nodes are in lower case"
_PLAIN = "names of nodes have - in place of _ and of dots that begin no domain"
_NO_BACKUP = "hpcforge has no backup controller"
_NODE_REASONS = {
    r"port": "hpcforge sets the ports of Slurm",
    r"corespeccount|cpuspeclist|memspeclimit": "`slurm.reserve` sets it",
    r"reason": "it is the state of a node",
    r"procs": "CPUs already sets it",
    r"nodehostname": "a node has its host's name in a blueprint",
    r"bcastaddr": "`addresses` of the inventory sets it",
    r"tmpdisk|cpubind|gresconf|parameters|restrictedcorespergpu|suspendtime|topology|tresweights": "a blueprint has "
    "no such key",
    r"features?|gres|weight|cpus|boards|sockets|socketsperboard|corespersocket|threadspercore|realmemory|state|"
    r"nodeaddr|nodename": "no node uses it",
}


@dataclass
class _Names:
    """The common names of the nodes, and names that only one of them may have."""

    lines: dict[str, int] = field(default_factory=dict)  # line by node
    addresses: dict[str, tuple[Word, str]] = field(default_factory=dict)  # addresses with their words as written
    domains: Counter[str] = field(default_factory=Counter)
    of_domain: dict[tuple[Word, str], str] = field(default_factory=dict)
    shown: dict[str, list[str]] = field(default_factory=dict)  # partitions that nodes name themselves


def read_slurm(text: str, read_sibling: Beside | None) -> SiteFile:
    """Return what slurm.conf says. Raises `StarterError` where no node is left."""
    ledger, names = Ledger(), _Names()
    main = statements(text, read_sibling, ledger)
    settings = Settings.of_usual_system(is_shown(text))
    gres = read_sibling("gres.conf") if read_sibling and not is_shown(text) else None
    gres_records = statements(gres, None, ledger, "gres.conf") if gres else []
    _name_nodes(main, ledger)
    lines = slurm_partitions.gres_lines([entry for entry in (*main, *gres_records) if entry.kind == "name"], ledger)
    machines = list(_machines(main, slurm_partitions.by_node(lines), names, ledger))
    machines = _in_one_network(_with_head(machines, main, names, ledger), names, ledger)
    domain = _domain(names, ledger)
    cluster = _cluster_name(main, ledger)
    workers = [machine for machine in machines if "worker" in machine.functions]
    accepted = partitions(main, workers, names.shown, ledger, settings)
    options = cluster_settings(main, ledger, settings)
    left_out = ledger.left_out(lambda word: _reason(word, settings.shown))
    if not workers:
        nodes = sorted(left_out, key=lambda entry: not entry.text.lower().startswith(("nodename", "include")))
        place = next((f" ({_place(entry)}: {entry.text}: {entry.reason})" for entry in nodes), "")
        raise StarterError(f"this file has no machine, read as slurm{place}", "give slurm.conf with its nodes")
    return SiteFile(tuple(machines), cluster, accepted, options, left_out=left_out, domain=domain)


def _place(left_out: LeftOut) -> str:
    return f"{left_out.file}, line {left_out.line}" if left_out.file else f"line {left_out.line}"


def _name_nodes(main: Sequence[Statement], ledger: Ledger) -> None:
    """Name the nodes of all records. Dots before a number belong to the name, and dots that distinguish it.

    A valid name comes before a name that would become equal to it: for Slurm N1 differs from n1.
    """
    words = [record.words["nodename"] for record in main if record.kind == "nodename"]
    fulls = dict.fromkeys(
        full for word in words if word.value.upper() != "DEFAULT" for full in ledger.names(word.value)
    )
    hosts = Counter(full.partition(".")[0] for full in {full.lower() for full in fulls})
    used = {full for full in fulls if "." not in full and not problem(_NAME, full)}
    for full in fulls:
        host, _, domain = full.lower().partition(".")
        part = domain and (hosts[host] > 1 or domain.rpartition(".")[2].isdecimal())
        name = (full.lower().replace(".", "-") if part else host).replace("_", "-")
        ledger.nodes[full] = full if name in used and name != full else name
        used.add(name)


def _reason(word: Word, shown: bool) -> str:
    key = word.key.lower()
    if word.kind == "name":
        return slurm_partitions.reason(word)
    if word.kind == "nodename":
        own = next((reason for keys, reason in _NODE_REASONS.items() if re.fullmatch(keys, key)), None)
        return own or (STATE if shown else "Slurm has no such parameter of a node")
    if word.kind == "downnodes":
        return "it is the state of nodes: a node is in service after `hpcforge apply`"
    return "no partition uses it" if word.kind == "partitionname" else "a blueprint has no such key"


def _machines(
    main: Sequence[Statement],
    gres: Mapping[str | None, Sequence[slurm_partitions.GresLine]],
    names: _Names,
    ledger: Ledger,
) -> Iterator[SiteMachine]:
    """Yield nodes in their order; `NodeName=DEFAULT` counts for the nodes after it, and adds to earlier defaults."""
    usual: dict[str, Word] = {}
    for record in main:
        if record.kind != "nodename":
            continue
        if record.words["nodename"].value.upper() == "DEFAULT":
            ledger.take(record.words["nodename"])
            usual |= {key: word for key, word in record.words.items() if key not in ("nodename", "nodeaddr")}
            continue
        fields = Fields(record.words, usual, ledger)
        state = fields.get("state")
        flags = set(re.findall(r"[A-Z_]+", state.value.upper())) if state else set()
        if state and flags & _NOT_THERE:
            for word in record.words.values():
                ledger.leave(word, "a node of a cloud, or of the future, is not a machine that is there")
            continue
        if state and not flags <= _IN_SERVICE:
            ledger.leave(state, "a node is in service after `hpcforge apply`: drain it again")
        own, problems = _own_names(record.words["nodename"], names, ledger)
        if not own:
            for word in record.words.values():
                ledger.leave(word, next(iter(problems.values()), "it names no node"))
            continue
        yield from _record_machines(fields, own, gres, names)


def _record_machines(
    fields: Fields,
    own: Mapping[str, int],
    gres: Mapping[str | None, Sequence[slurm_partitions.GresLine]],
    names: _Names,
) -> Iterator[SiteMachine]:
    """Yield the nodes of a record; `own` has their numbers in its list of names."""
    name = fields.get("nodename")
    addresses = _addresses(fields, own, names)
    sockets, cores, threads, guesses = _processors(fields)
    mib = fields.whole("realmemory", _MOST["mib"])
    in_slurm_conf = slurm_partitions.gpus(fields.get("gres"), fields.ledger)
    features = _features(fields)
    weight = fields.whole("weight", _MOST["weight"])
    host = fields.words.get("nodehostname")
    if host and name and host.value.partition(".")[0].lower() == name.value.partition(".")[0].lower():
        fields.ledger.take(host)
    shown = fields.get("partitions")
    for partition in shown.value.split(",") if shown else ():
        if shown and (reason := problem(PARTITION, partition)):
            fields.ledger.leave_part(shown, partition, reason)
        else:
            names.shown.setdefault(partition, []).extend(own)
    for node_name in own:
        gpus = slurm_partitions.with_gres_conf(
            in_slurm_conf, [*gres.get(node_name, ()), *gres.get(None, ())], fields.ledger
        )
        yield SiteMachine(
            node_name,
            addresses.get(node_name),
            sockets=sockets,
            cores_per_socket=cores,
            threads_per_core=threads,
            memory_gib=None if mib is None else max(1, mib // 1024),
            gpu=gpus.model if gpus else None,
            gpus=gpus.count if gpus else 0,
            guesses=(*guesses, *(gpus.guesses if gpus else ())),
            features=features,
            weight=weight,
        )


def _own_names(word: Word, names: _Names, ledger: Ledger) -> tuple[dict[str, int], dict[str, str]]:
    """Return the valid short names of nodes in a record, with their numbers in its list; why others are not valid."""
    own: dict[str, int] = {}
    problems: dict[str, str] = {}
    for number, full in enumerate(ledger.names(word.value)):
        name = ledger.node_name(full)
        domain = full.lower().removeprefix(f"{name}.") if full.lower().startswith(f"{name}.") else ""
        reason = problem(_NAME, name) if not is_address(full) else "it is an address, not a name"
        if reason and name == full and not is_address(full) and not problem(_NAME, plain := _plain(full)):
            reason = f"another node is {plain} in the blueprint"
        if not reason and name in names.lines:
            reason = f"it stands in line {names.lines[name]}, too, and Slurm takes the first"
        if reason:
            problems[full] = reason
            ledger.leave_part(word, full, reason)
            continue
        if full != full.lower() or not full.lower().startswith(name):
            ledger.leave_part(word, full, _LOWER if full.lower().startswith(name) else _PLAIN)
        _note_domain(names, word, full, domain)
        names.lines[name] = word.line
        own[name] = number
    return own, problems


def _plain(full: str) -> str:
    return full.lower().replace("_", "-").replace(".", "-")


def _note_domain(names: _Names, word: Word, full: str, domain: str) -> None:
    if domain:
        names.domains[domain] += 1
        names.of_domain[word, full] = domain


def _addresses(fields: Fields, own: Mapping[str, int], names: _Names) -> dict[str, str]:
    """Return the IPv4 addresses of nodes. A host name in their place stays out unless it is the node's own."""
    word = fields.words.get("nodeaddr")
    if word is None:
        return {}
    listed = fields.ledger.names(fields.ledger.take(word))
    if len(listed) <= max(own.values()):
        fields.ledger.leave(word, f"{len(listed)} addresses are too few for the nodes of this line")
        return {}
    addresses: dict[str, str] = {}
    fulls = fields.ledger.names(fields.words["nodename"].value)
    for name, number in own.items():
        if address := _address(listed[number], (name, fulls[number]), word, names, fields.ledger):
            addresses[name] = address
    return addresses


def _address(address: str, own: tuple[str, str], word: Word, names: _Names, ledger: Ledger) -> str | None:
    """Return an address that only this machine has, or None. Its own name in that place (`own`) is Slurm's default."""
    if is_address(address) and address not in names.addresses and not _NO_MACHINE.match(address):
        names.addresses[address] = word, own[0]
        return address
    if address.lower() not in (own[0], own[1].lower()):
        ledger.leave_part(word, address, "it is not an IPv4 address of this machine alone")
    return None


def _in_one_network(machines: list[SiteMachine], names: _Names, ledger: Ledger) -> list[SiteMachine]:
    """Drop the addresses that are in no network with those of most: a draft has one network."""
    first = Counter(address.partition(".")[0] for address in names.addresses)
    usual = first.most_common(1)[0][0] if first else ""
    for address, (word, _) in names.addresses.items():
        if not address.startswith(f"{usual}."):
            ledger.leave_part(word, address, "it is in another network than the other machines")
    return [
        machine if (machine.address or f"{usual}.").startswith(f"{usual}.") else replace(machine, address=None)
        for machine in machines
    ]


def _processors(fields: Fields) -> tuple[int | None, int | None, int | None, tuple[str, ...]]:
    """Sockets, cores of each and threads of each, and which are guesses.

    Where one is not there, Slurm takes it from the others; of CPUs alone it makes as many sockets.
    """
    cpus = fields.whole("cpus|procs|cputot", _MOST["sockets"])
    per_board = fields.whole("socketsperboard", _MOST["sockets"])
    sockets = None if per_board else fields.whole("sockets", _MOST["sockets"])
    boards = fields.whole("boards", _MOST["sockets"])
    if boards and (boards > 1 or not sockets) and not per_board and (word := fields.get("boards")):
        fields.ledger.leave(word, "SocketsPerBoard is missing")
        boards = None
    sockets = per_board * (boards or 1) if per_board else sockets
    cores = fields.whole("corespersocket", _MOST["cores"])
    threads = fields.whole("threadspercore", _MOST["threads"])
    stated = {"sockets": sockets, "cores": cores, "threads": threads}
    if not (cpus or sockets or cores):
        return None, None, threads, ()
    guesses = [name for name, number in stated.items() if not number]
    threads = threads or 1
    if not sockets:
        exact = cores and cpus and cpus % (cores * threads) == 0
        sockets = cpus // (cores * threads) if cores and cpus and exact else boards or 1
        guesses = [name for name in guesses if not (exact and name == "sockets")]
    if not cores:
        cores = max(1, (cpus or 1) // (sockets * threads))
    if sockets > _MOST_SOCKETS:  # a virtual machine with a socket for each core
        sockets, cores, guesses = 1, sockets * cores, [*dict.fromkeys([*guesses, "sockets", "cores"])]
    if cores > _MOST["cores"]:
        for word in filter(None, (fields.get(key) for key in _PROCESSORS)):
            fields.ledger.leave(word, f"that is more than {_MOST['cores']} cores of a socket")
        return None, None, None, ()
    if cpus and cpus != sockets * cores * threads and (word := fields.get("cpus", "procs", "cputot")):
        fields.ledger.leave(word, f"hpcforge counts each thread, which is {sockets * cores * threads}")
    return sockets, cores, threads, tuple(guesses)


def _features(fields: Fields) -> tuple[str, ...]:
    word = fields.get("feature", "features", "availablefeatures")
    features: dict[str, None] = {}
    for feature in filter(None, re.split(r"[,\s]+", word.value) if word else ()):
        if word and (reason := problem(_FEATURE, feature)):
            fields.ledger.leave_part(word, feature, reason)
        else:
            features[feature] = None
    return tuple(features)


def _with_head(
    machines: list[SiteMachine], main: Sequence[Statement], names: _Names, ledger: Ledger
) -> list[SiteMachine]:
    """Return the machines with the first controller as their head; it may be a node, too."""
    words = [(key, word) for record in main if not record.kind for key, word in record.words.items() if key in HEADS]
    hosts = [word for key, word in words if key.startswith("slurmctldhost")]
    old = [word for key, word in words if key == "controlmachine"]
    addresses = [word for key, word in words if key == "controladdr"]
    for word in (*hosts[1:], *(old if hosts else old[:-1]), *(addresses if hosts else addresses[:-1])):
        ledger.leave(word, _NO_BACKUP if word in hosts else "Slurm takes another controller of this file")
    if not (chosen := hosts[:1] or old[-1:]):
        return machines
    [word] = chosen
    full, _, place = ledger.take(word).partition("(")
    source = addresses[-1] if addresses and not hosts else word
    address = ledger.take(source) if source is not word else place.rstrip(")")
    name = ledger.node_name(full.strip())
    name = name if full.strip() in ledger.nodes else name.replace("_", "-")
    domain = full.strip().lower().removeprefix(name).removeprefix(".")
    if reason := problem(_NAME, name):
        ledger.leave(word, reason)
        if source is not word:
            ledger.leave(source, reason)
        return machines
    if full.strip() != full.strip().lower():
        ledger.leave_part(word, full.strip(), _LOWER)
    _note_domain(names, word, full.strip(), domain)
    same_node = next((machine for machine in machines if machine.name == name), None)
    own = same_node.address if same_node else None
    if own and address and own != address:
        ledger.leave_part(source, address, f"the node {name} has the address {own}")
    elif address and not own:
        own = _address(address, (name, full.strip()), source, names, ledger)
    if same_node is None:
        return [*machines, SiteMachine(name, own, ("head",), guesses=())]
    head = replace(same_node, functions=("head", "worker"), address=own)
    return [head if machine is same_node else machine for machine in machines]


def _domain(names: _Names, ledger: Ledger) -> str | None:
    """Return the domain that most nodes have in their names."""
    valid = Counter({name: number for name, number in names.domains.items() if not problem(_DOMAIN, name)})
    domain = valid.most_common(1)[0][0] if valid else None
    reason = f"the domain of the nodes is {domain}" if domain else "it has no valid domain"
    for (word, full), own in names.of_domain.items():
        if own != domain:
            ledger.leave_part(word, full, reason)
    return domain


def _cluster_name(main: Sequence[Statement], ledger: Ledger) -> str | None:
    words = [record.words["clustername"] for record in main if not record.kind and "clustername" in record.words]
    for word in words[:-1]:
        ledger.leave(word, "it is set again, and Slurm takes the last")
    if not words:
        return None
    name = ledger.take(words[-1]).lower()
    if reason := problem(_CLUSTER, name):
        ledger.leave(words[-1], reason)
        return None
    return name
