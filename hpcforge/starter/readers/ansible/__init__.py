"""An Ansible inventory: machines with their functions and addresses, and the login. Pure.

`inventory_text` parses the two forms of the file, `ssh_arguments` the variables for ssh. The reader may import
`hpcforge.starter` and `hpcforge.blueprint`. It never runs Ansible, evaluates no template and reads no vault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hpcforge.blueprint import suggestions
from hpcforge.blueprint import values as v
from hpcforge.starter.machines import (
    MOST_MACHINES,
    LeftOut,
    SiteAccess,
    SiteFile,
    SiteMachine,
    StarterError,
    functions_by_name,
)
from hpcforge.starter.readers import host_names
from hpcforge.starter.readers.ansible import ssh_arguments
from hpcforge.starter.readers.ansible.inventory_text import HostGroup, HostGroups, HostVariable, parse
from hpcforge.starter.readers.words import NO_NAME, SECRET, Beside, accepts, at_most, domains, is_address, is_plain

_USERS = ("ansible_user", "ansible_ssh_user")
_HOSTS = ("ansible_host", "ansible_ssh_host")
_ARGUMENTS = ("ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_ssh_args")
_COMMANDS = ("ansible_ssh_proxy_command", "ansible_paramiko_proxy_command")
_OWN = (*_USERS, *_HOSTS, *_ARGUMENTS, *_COMMANDS, "ansible_connection", "network_interfaces", "bmc")
_MACHINE: Mapping[str, tuple[tuple[str, ...], type[str]]] = {  # keys of an inventory, with their variables in Ansible
    "mac": (("mac", "mac_address", "macaddress"), v.Mac),
    "serial": (("serial", "serial_number"), v.Serial),
}
_NO = ("false", "no", "0", "off")
_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh", "openssh", "ansible.builtin.ssh")
_AS_WRITTEN = {  # variables whose usual values are a blueprint's defaults
    "ansible_port": ("22",),
    "ansible_ssh_port": ("22",),
    "ansible_become": ("true", "yes", "1", "on"),
    "ansible_become_method": ("sudo",),
    "ansible_become_user": ("root",),
}
_IP_WORDS = frozenset({"ip", "ipv", "ips", "addr", "address", "host", "hostname", "ansible"})
_FOLDERS = ("group_vars/", "host_vars/")


@dataclass
class _InventoryHost:
    """A host of the inventory: its variables, and the groups that it is in, nearest first."""

    name: str
    line: int
    own: dict[str, HostVariable] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        """Return the host's own name, and its groups without Ansible's own."""
        return [self.name, *(name for name in self.groups if name not in ("all", "ungrouped"))]

    @property
    def short(self) -> str:
        """The name in a blueprint: of an address made from it."""
        return f"node-{self.name.replace('.', '-')}" if is_address(self.name) else host_names.host_name(self.name) or ""


def read_ansible(text: str, read_sibling: Beside | None = None) -> SiteFile:
    """Return the hosts of all groups. Raises `StarterError` for text that is no inventory, or too much."""
    groups = parse(text)
    left_out = groups.left_out
    hosts = _hosts(groups)
    members = _members(groups, hosts)
    functions = host_names.stated(members)
    machines, jumps = _sorted_out(groups, hosts, functions, left_out)
    access = _access(groups, machines, jumps, left_out)
    left_out += [*_variables(groups, hosts), *domains((host.line, host.name) for host in machines if host.short)]
    left_out += [*_groups(groups, members, machines, functions), *_unread_files(read_sibling)]
    _twice(machines)
    accepted = at_most(_machines(machines, functions, left_out))
    return SiteFile(
        accepted, access=access, left_out=tuple(sorted(dict.fromkeys(left_out), key=lambda entry: entry.line))
    )


def _hosts(groups: HostGroups) -> list[_InventoryHost]:
    """Return the hosts in the order of the text, each with all groups above it."""
    hosts: dict[str, _InventoryHost] = {}
    direct: dict[str, list[str]] = {}
    for group, content in groups.by_name.items():
        for name, (line, variables) in content.hosts.items():
            host = hosts.setdefault(name, _InventoryHost(name, line))
            host.line = min(host.line, line)
            groups.left_out += [
                LeftOut(
                    variable.line,
                    f"{name} {key}",
                    f"line {host.own[key].line} has another value, which is left out",
                )
                for key, variable in variables.items()
                if host.own.get(key, variable).text != variable.text
            ]
            host.own.update(variables)
            direct.setdefault(name, []).append(group)
        if len(hosts) > MOST_MACHINES:
            raise StarterError(f"more than {MOST_MACHINES} machines")
    above = _above(groups)
    for name, host in hosts.items():
        host.groups = list(dict.fromkeys(group for direct_group in direct[name] for group in above[direct_group]))
    return list(hosts.values())


def _above(groups: HostGroups) -> dict[str, tuple[str, ...]]:
    """Return each group with the groups around it, nearest first; `all` is last."""
    parents: dict[str, list[str]] = {}
    for name, group in groups.by_name.items():
        for child in group.children:
            parents.setdefault(child, []).append(name)
    result: dict[str, tuple[str, ...]] = {}
    for name in groups.by_name:
        order, walked = [name], {name}
        for ancestor in order:  # the list grows meanwhile
            further = [parent for parent in parents.get(ancestor, ()) if parent not in walked]
            order += further
            walked.update(further)
        result[name] = (*(ancestor for ancestor in order if ancestor != "all"), "all")
    return result


def _members(groups: HostGroups, hosts: Iterable[_InventoryHost]) -> dict[str, set[str]]:
    members: dict[str, set[str]] = {name: set() for name in groups.by_name if name not in ("all", "ungrouped")}
    for host in hosts:
        for group in host.groups:
            if group in members:
                members[group].add(host.name)
    return members


def _value(groups: HostGroups, host: _InventoryHost, *names: str) -> HostVariable | None:
    """Return a host's variable: its own, else that of the nearest group."""
    for variables in (host.own, *(groups.by_name.get(name, HostGroup(0)).variables for name in host.groups)):
        for name in names:
            if name in variables:
                return variables[name]
    return None


def _sorted_out(
    groups: HostGroups,
    hosts: Iterable[_InventoryHost],
    functions: Mapping[str, tuple[str, ...]],
    left_out: list[LeftOut],
) -> tuple[list[_InventoryHost], list[_InventoryHost]]:
    """Separate the machines of a cluster from the jump hosts outside it."""
    machines: list[_InventoryHost] = []
    jumps: list[_InventoryHost] = []
    workers = any("worker" in names for names in functions.values())
    for host in hosts:
        connection = _value(groups, host, "ansible_connection")
        if reason := _unreachable(host, connection.text if connection else "", host.name in functions, left_out):
            left_out.append(LeftOut(host.line, host.name, reason))
        elif host.name in functions:
            machines.append(host)
        elif any(map(host_names.is_jump_host, host.words)):
            jumps.append(host)
        elif word := next(filter(None, map(host_names.device, host.words)), None):
            left_out.append(LeftOut(host.line, host.name, f"no machine of a cluster ({word})"))
        elif workers and functions_by_name(host.short, "") in (None, ("head",)):
            reason = f"no group shows its function: {', '.join(host.words[1:]) or 'it is in none'}"
            left_out.append(LeftOut(host.line, host.name, reason))
        else:
            machines.append(host)
    left_out += [
        LeftOut(host.line, host.name, f"host names have no underscore: {host.short} here")
        for host in machines
        if "_" in host.name.partition(".")[0]
    ]
    return machines, jumps


def _unreachable(host: _InventoryHost, connection: str, has_function: bool, left_out: list[LeftOut]) -> str | None:
    """Return why hpcforge cannot reach a host by SSH and a name of a blueprint, or None."""
    local = connection in ("local", "ansible.builtin.local")
    if host.name in ("localhost", "127.0.0.1", "::1") or (local and not has_function):
        return "the machine that Ansible runs on"
    if connection and not local and connection not in _SSH:
        return f"its connection is {connection[:40]!r}, and hpcforge uses SSH"
    if not host.short:
        return f"{host.name[:80]!r} {NO_NAME}"
    if local:
        left_out.append(LeftOut(host.line, f"{host.name} ansible_connection", "hpcforge uses SSH there, too"))
    return None


def _twice(hosts: Iterable[_InventoryHost]) -> None:
    """Raise `StarterError` for hosts that differ only in their domains."""
    first: dict[str, _InventoryHost] = {}
    for host in hosts:
        if (earlier := first.setdefault(host.short, host)) is not host:
            places = f"{earlier.name} in line {earlier.line}, {host.name} in line {host.line}"
            raise StarterError(f"{host.short} is there twice: {places}", "remove or rename one")


def _access(
    groups: HostGroups, machines: list[_InventoryHost], jumps: list[_InventoryHost], left_out: list[LeftOut]
) -> SiteAccess:
    user = _users(groups, machines, left_out)
    places = {host.name: _place(groups, host, left_out) for host in jumps}
    vias = _vias(groups, machines, left_out)
    via = next((text for text, _ in Counter(text for _, text in vias.values()).most_common(1)), None)
    for line, second in vias.values():
        if second != via:
            left_out.append(LeftOut(line, second, f"another jump host than {via}: access.via has one"))
    host = (via or "").rpartition("@")[2]
    straight = [
        machine for machine in machines if machine.name not in vias and host not in (machine.name, *_addresses(machine))
    ]
    if via and straight:
        line = next(line for line, text in vias.values() if text == via)
        left_out.append(LeftOut(line, via, f"not for {straight[0].name} here: access.via is for every other machine"))
    guesses = () if via or not places else (f"via, by the name {next(iter(places))}",)
    via = places.get(host) or via or next(iter(places.values()), None)
    for machine in jumps:
        if places[machine.name] != via:
            left_out.append(LeftOut(machine.line, machine.name, "a second jump host: access.via has one"))
    if user and (others := [host.short for host in machines if not _value(groups, host, *_USERS)]):
        guesses = (f"user, of which {others[0]} says nothing", *guesses)
    becomes = [_value(groups, host, "ansible_become") for host in machines]
    return SiteAccess(user, via, not all(become and become.text.lower() in _NO for become in becomes), guesses)


def _addresses(host: _InventoryHost) -> list[str]:
    return [host.own[name].text for name in _HOSTS if name in host.own]


def _place(groups: HostGroups, host: _InventoryHost, left_out: list[LeftOut]) -> str | None:
    """Return a jump host as user@address."""
    address, user = _value(groups, host, *_HOSTS), _value(groups, host, *_USERS)
    text = (address.text if address else "") or host.name
    jump = ssh_arguments.destination(f"{user.text}@{text}" if user and user.text else text)
    left_out += [LeftOut(host.line, host.name, problem) for problem in jump.problems]
    return jump.via


def _users(groups: HostGroups, machines: list[_InventoryHost], left_out: list[LeftOut]) -> str | None:
    """Return the account of most machines."""
    users = [(host, user) for host in machines if (user := _value(groups, host, *_USERS)) and user.text]
    accounts: Counter[str] = Counter()
    for host, user in users:
        if "{{" in user.text:
            left_out.append(LeftOut(user.line, "ansible_user", "a template, which is not filled in here"))
        elif user.text != "root" and not accepts(v.UserName, user.text):
            left_out.append(LeftOut(user.line, f"{host.name} ansible_user", "not an account that a blueprint accepts"))
        else:
            accounts[user.text] += 1
    usual = next((user for user, count in accounts.most_common(1) if 2 * count > len(machines)), None)
    first = {user.text: (host, user.line) for host, user in reversed(users)}
    for account in accounts:
        if account != usual:
            host, line = first[account]
            reason = f"another account than {usual}" if usual else "the account of some hosts alone"
            reason += ": access.user is that of every node"
            left_out.append(LeftOut(line, f"{host.name} ansible_user={account}", reason))
    return usual


def _vias(
    groups: HostGroups, machines: Iterable[_InventoryHost], left_out: list[LeftOut]
) -> dict[str, tuple[int, str]]:
    """Return the jump host of each machine that has one, with its line; report problems of a variable once."""
    result: dict[str, tuple[int, str]] = {}
    jumps: dict[tuple[str, str], ssh_arguments.JumpHost] = {}
    for host in machines:
        for name in (*_ARGUMENTS, *_COMMANDS):
            if (variable := _value(groups, host, name)) is None:
                continue
            if (name, variable.text) not in jumps:
                read = ssh_arguments.jump_of if name in _ARGUMENTS else ssh_arguments.proxy_command
                jumps[name, variable.text] = jump = read(variable.text)
                left_out += [LeftOut(variable.line, name, problem) for problem in jump.problems]
            if via := jumps[name, variable.text].via:
                result.setdefault(host.name, (variable.line, via))
    return result


def _machines(
    hosts: Iterable[_InventoryHost], functions: Mapping[str, tuple[str, ...]], left_out: list[LeftOut]
) -> Iterator[SiteMachine]:
    """Yield the machines with their addresses, each address once."""
    owners: dict[str, tuple[_InventoryHost, str]] = {}
    hosts = list(hosts)
    own = {host.name: _address(host, owners, left_out) for host in hosts}
    heads = [host for host in hosts if "head" in functions.get(host.name, ())]
    left_out += [
        LeftOut(
            host.line,
            f"slurm.controller {host.name}",
            f"a second controller: it is a head, and Slurm's is {heads[0].name}",
        )
        for host in heads[1:]
    ]
    for host in hosts:
        bmc, addresses = _others(host, owners, left_out)
        by_group = functions.get(host.name)
        by_name = functions_by_name(host.short, "")
        yield SiteMachine(
            host.short,
            own[host.name],
            by_group or by_name or ("worker",),
            guesses=() if by_group else ("functions",),
            addresses=addresses,
            bmc=bmc,
            mac=_machine_value(host, "mac"),
            serial=_machine_value(host, "serial"),
        )


def _machine_value(host: _InventoryHost, key: str) -> str | None:
    """Return the value in a host's variables for a key of its machine in an inventory; None without an accepted one."""
    names, kind = _MACHINE[key]
    texts = [host.own[name].text for name in names if name in host.own]
    texts = [suggestions.mac(text) for text in texts] if key == "mac" else texts
    return next((text for text in texts if accepts(kind, text)), None)


def _address(
    host: _InventoryHost, owners: dict[str, tuple[_InventoryHost, str]], left_out: list[LeftOut]
) -> str | None:
    """Return the address that Ansible uses, else the one of the host's name or of `ip`; None without one."""
    interfaces = host.own.get("network_interfaces", HostVariable(0)).parts
    candidates = [(name, host.own[name].text) for name in _HOSTS if name in host.own]
    candidates += [("its name", host.name)] if is_address(host.name) else []
    for name, text in candidates:
        line = host.own[name].line if name in host.own else host.line
        if "{{" in text or not is_plain(text):
            kind = "a template, which is not filled in here" if "{{" in text else "not the address of one machine"
            left_out.append(LeftOut(line, f"{name}={text}", kind))
        elif _is_free(text, host, name, line, owners, left_out):
            return text
    fallback = [host.own[name].text for name in ("access_ip", "ip") if name in host.own]
    fallback += [address for address in map(_part_address, interfaces[:1]) if address]
    return next((text for text in fallback if is_plain(text) and owners.setdefault(text, (host, ""))[0] is host), None)


def _is_free(
    address: str,
    host: _InventoryHost,
    name: str,
    line: int,
    owners: dict[str, tuple[_InventoryHost, str]],
    left_out: list[LeftOut],
) -> bool:
    """Return whether no other machine has an address, and assign it to this host."""
    owner, _ = owners.setdefault(address, (host, name))
    if owner is not host:
        reason = f"{address} belongs to {owner.name}, line {owner.line}"
        left_out.append(LeftOut(line, f"{host.name} {name}", reason))
    return owner is host


def _part_address(part: Mapping[str, str]) -> str | None:
    """Return the address in a mapping of an interface or a management controller."""
    return next((text for key in ("ip4", "ip", "ipv4", "address", "host") if is_plain(text := part.get(key, ""))), None)


def _others(
    host: _InventoryHost, owners: dict[str, tuple[_InventoryHost, str]], left_out: list[LeftOut]
) -> tuple[str | None, dict[str, str]]:
    """Return the address of a host's management controller, and those on other networks."""
    bmc: str | None = None
    addresses: dict[str, str] = {}
    for name, line, word, address in _address_variables(host):
        if address in owners and owners[address][0] is host:
            continue  # the machine's own address, or an address with two names
        if not _is_free(address, host, name, line, owners, left_out):
            continue
        if word == "bmc" and bmc is None:
            bmc = address
        elif word != "bmc" and word not in addresses:
            addresses[word] = address
        else:
            left_out.append(LeftOut(line, f"{host.name} {name}", f"a second address for {word}"))
    return bmc, addresses


def _address_variables(host: _InventoryHost) -> Iterator[tuple[str, int, str, str]]:
    """Yield a host's own variables that have addresses: name, line, the word for the network (or bmc), address."""
    for name, variable in host.own.items():
        if (word := _network_word(name)) and is_plain(variable.text):
            yield name, variable.line, word, variable.text
        for part in variable.parts if name in ("bmc", "network_interfaces") else ():
            if address := _part_address(part):
                word = "bmc" if name == "bmc" else part.get("network") or part.get("interface") or "net"
                yield name, variable.line, word, address


def _network_word(name: str) -> str | None:
    """Return the network of an address variable: ib for ib_ip; bmc for ipmi_host; None: not an address."""
    words = [word for word in host_names.tokens(name) if not word.isdigit()]
    if name in _HOSTS or SECRET.search(name):
        return None
    if any(map(host_names.is_bmc, words)):
        return "bmc"
    rest = [word for word in words if word not in _IP_WORDS]
    return ("-".join(rest) or name.replace("_", "-")) if len(rest) < len(words) else None


def _variables(groups: HostGroups, hosts: Iterable[_InventoryHost]) -> Iterator[LeftOut]:
    """Yield each variable without a place in a blueprint, once, by its name: a value may be a secret."""
    places = [(name, variable, True) for host in hosts for name, variable in host.own.items()]
    for group in groups.by_name.values():
        places += [(name, variable, False) for name, variable in group.variables.items()]
    reported: set[str] = set()
    kinds = {name: key for key, (names, _) in _MACHINE.items() for name in names}
    taken_of = {name for host in hosts for name in host.own if name in kinds and _machine_value(host, kinds[name])}
    for name, variable, own in sorted(places, key=lambda place: place[1].line):
        is_used = name in _OWN or (own and name in taken_of) or variable.text.lower() in _AS_WRITTEN.get(name, ())
        if name in reported or is_used or (own and _network_word(name) and is_plain(variable.text)):
            continue
        reported.add(name)
        if name == "ansible_ssh_private_key_file":
            reason = "a key: `access.key` of the inventory names it, or the ssh agent has it"
        elif variable.encrypted or SECRET.search(name):
            reason = "a secret; its value is not read"
        elif name == "ansible_become" and variable.text.lower() in _NO:
            reason = "access.become is none where every host has it"
        else:
            reason = "a variable that a blueprint has no key for"
        yield LeftOut(variable.line, name, reason)


def _groups(
    groups: HostGroups,
    members: Mapping[str, set[str]],
    machines: Iterable[_InventoryHost],
    functions: Mapping[str, tuple[str, ...]],
) -> Iterator[LeftOut]:
    """Yield each group with further facts about the machines, and children that are not groups."""
    above = _above(groups)
    for name in host_names.silent(members, {host.name: functions.get(host.name, ()) for host in machines}):
        yield LeftOut(groups.by_name[name].line, f"the group {name}", "its nodes have no such feature or partition")
    for name, group in groups.by_name.items():
        for child, line in group.children.items():
            if child in above[name]:
                yield LeftOut(line, child, f"a loop: it is a group in {name}, which is in {child}")
            elif child not in groups.by_name and child != "ungrouped":
                yield LeftOut(line, child, f"a group in {name} that this file does not have")


def _unread_files(read_sibling: Beside | None) -> Iterator[LeftOut]:
    """Report the other files with variables, which are not read."""
    for name in (*_FOLDERS, "ansible.cfg"):
        if read_sibling and (text := read_sibling(name)) is not None:
            files = text if name.endswith("/") else ""
            yield LeftOut(0, f"{name} {files}".strip(), "not read: it may have accounts, addresses and jump hosts")
