"""The meaning of a host's name: a switch, a jump host, or another address of a machine. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from hpcforge.blueprint.values import NODE_NAME

# Words in names of devices outside a cluster: network, power, printing, cooling and control of racks.
_DEVICES = re.compile(
    "sw|swt|switch|pdu|ups|rtr|router|fw|firewall|gw|gateway|printer|prn|kvm|ap|wap|wifi|camera|cam|nvr|apc|ats|sts|"
    "crac|leaf|spine|tor|cmc|enclosure|ts|termserver|console|sensor|vip|nat|lb|modem|"
    ".*(?:switch|router|firewall|printer|gateway|pdu)"  # ibswitch, rackpdu
)
_ROCKS_DEVICE = re.compile(r"(?:network|power|switch)-\d+-\d+")  # appliances of Rocks that are not hosts
_JUMP = re.compile(r"(?:ssh)?(?:bastion|jump|gate(?!way))[a-z]*")
_BMC = re.compile(r"(?:bmc|ipmi|ilo|ilom|idrac|drac|rsa|imm2?|xcc|irmc|cimc|rmm|alom|lom|oob|redfish|ipkvm|sp|rac)\d*")
_MAYBE_BMC = ("sp", "rac", "lom", "oob", "rsa")  # words with other meanings, too
_SURE_NETWORK = re.compile(r"(?:ib|ipoib|opa|eth|hsn|bond)\d*|\d+g(?:be|e)?|en[ops]\d\w*")
_NETWORK = re.compile(
    r"mgmt|mgt|adm|admin|data|stor|storage|nfs|san|iscsi|lustre|gpfs|ceph|mpi|rdma\d*|roce\d*|rail\d*|vlan\d*|hs|fast|"
    r"priv|private|int|internal|pub|public|ext|external|wan|lan\d*|nic\d*|net\d*|boot|pxe|prov|cluster|default"
)
_MACHINE = re.compile(
    r"gpu|cpu|nodes?|worker|compute|fat|vm|host|server|srv|test|dev|blade|slot|[a-z]"
)  # not a network
_LETTERS = re.compile(r"(.*\d)(i|ib|ipmi|bmc|ilo|idrac|eth\d)")  # node01i: without a hyphen, after a digit


def tokens(text: str) -> list[str]:
    """Return the words and numbers of a name: `ib-sw01a` has ib, sw, 01 and a."""
    return re.findall(r"[a-z]+|\d+", text.lower())


def device(name: str) -> str | None:
    """Return the word that makes a name one of a switch, a PDU or the like; None for other names."""
    if _ROCKS_DEVICE.fullmatch(name.lower()):
        return name.lower().partition("-")[0]
    words = [*tokens(name), *tokens(_singular(name))]
    return next((word for word in words if _DEVICES.fullmatch(word)), None)


def is_jump_host(name: str) -> bool:
    """Return whether a name means that people log in through this machine."""
    return any(_JUMP.fullmatch(word) for word in tokens(name))


def is_bmc(word: str) -> bool:
    """Return whether a word stands for a management controller."""
    return bool(_BMC.fullmatch(word.lower()))


def is_network(word: str) -> bool:
    """Return whether a word stands for a network or an interface, or for a management controller."""
    return is_bmc(word) or bool(_SURE_NETWORK.fullmatch(word) or _NETWORK.fullmatch(word))


def needs_owner(word: str) -> bool:
    """Return whether a name with this word is an address of a machine, even if no line has that machine."""
    return (is_bmc(word) and word not in _MAYBE_BMC) or bool(_SURE_NETWORK.fullmatch(word))


def splits(name: str) -> Iterator[tuple[str, str]]:
    """Yield the ways to read a name as an address of a machine: the machine's name, and the word for the network."""
    for match in re.finditer(r"[-_]", name):
        before, after = name[: match.start()], name[match.end() :]
        if before and after:
            yield before, after
            if is_network(before) and after[-1].isdigit():
                yield after, before
    if letters := _LETTERS.fullmatch(name):
        yield letters[1], "ib" if letters[2] == "i" else letters[2]


def owner(name: str, names: Collection[str]) -> tuple[str, str] | None:
    """Return the machine with this further address, and the word for the network; None: a machine's own name.

    An unknown word counts after a name with a number, and has none itself: `node1-hd` belongs to `node1`, but
    `rack1-n2` and `demo-login` are machines. The owner may be missing in `names` if the word leaves no doubt.
    """
    alone: tuple[str, str] | None = None
    for base, word in sorted(splits(name), key=lambda pair: -len(pair[0])):
        unknown = base[-1].isdigit() and word.isalpha() and not _MACHINE.fullmatch(word)
        if base in names and (is_network(word) or unknown):
            return base, word
        if needs_owner(word):
            alone = alone or (base, word)
    return alone


def _singular(name: str) -> str:
    """Return a name with its words in the singular: switch for switches."""
    return re.sub(r"(?<=switch)es\b|(?<=[a-z]{2})s\b", "", name.lower().replace("_", "-"))


def host_name(text: str) -> str | None:
    """Return a host's name for a blueprint: its first label in lower case with hyphens; None if that is not valid."""
    name = text.partition(".")[0].lower().replace("_", "-")
    return name if re.fullmatch(NODE_NAME.pattern, name) and name not in NODE_NAME.reserved else None


# The functions of hosts by the groups of an Ansible inventory. Pure.


_ORDER = ("head", "login", "storage", "worker")
_SLURM = re.compile(r"slurm|openhpc|ohpc", re.IGNORECASE)
_KUBERNETES = re.compile(r"kube|k8s|k3s|rke|etcd|calico|openshift", re.IGNORECASE)
_HEAD = re.compile(
    r"head|frontend|(?:slurm)?(?:master|control|ctl|manage)|mgmt|mgt|admin|sms|(?:slurm)?ctld|slurmserver"
)
_CONTROLLER = re.compile(r"(?:slurm)?(?:master|control|ctl|ctld)|slurmserver")  # preferred names of heads' groups
_LOGIN = re.compile(r"login|submit")
_STORAGE = re.compile(r"stor|(?:nfs|nas|oss|mds|osd|ost)s?$")
_WORKER = re.compile(r"(?:cn$|cnode|compute|node|worker|gpu|cpu|dgx|hgx|exec|slurmd|slurmexec|slurmnode)(?!bd)")
_USERS = re.compile(r"clients?|mounts?|exporters?|monitor.*|metrics|stats|backup|db|dbd|slurmdb.*|database|users?")


def function_of(group: str) -> str | None:
    """Return the function that a group's name says its hosts have; None: it says none."""
    words = tokens(group)
    if any(_USERS.fullmatch(word) for word in words):
        return None
    for function, pattern in zip(_ORDER, (_HEAD, _LOGIN, _STORAGE, _WORKER), strict=True):
        if any(pattern.match(word) for word in words):
            return function
    return "head" if "server" in words and _SLURM.search(group) else None


def level(group: str) -> int:
    """Return how much a group says about Slurm: 3 where it is named for it, 1 for Kubernetes, else 2."""
    return 3 if _SLURM.search(group) else 1 if _KUBERNETES.search(group) else 2


def stated(members: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]]:
    """Return the functions of hosts by the members of each group, in the groups below it, too.

    For each function the groups that say most about Slurm count alone, and those of Kubernetes only where none is
    about Slurm. A group with every worker says what they use, not what they are for.
    """
    groups = {name: set(hosts) for name, hosts in members.items() if hosts}
    least = 2 if any(level(name) == 3 for name in groups) else 1
    workers = set().union(*_most(groups, "worker", least).values())
    functions: dict[str, tuple[str, ...]] = {}
    for function in _ORDER:
        for hosts in _most(groups, function, least).values():
            if function == "worker" or len(workers) < 2 or not workers <= hosts:
                for host in hosts:
                    functions[host] = tuple(dict.fromkeys((*functions.get(host, ()), function)))
    return functions


def silent(members: Mapping[str, Collection[str]], functions: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yield the groups that say more of hosts than the functions by `stated`, or something else.

    Groups of all hosts are none of them, nor those without a host that has a function.
    """
    groups = {name: set(hosts) & set(functions) for name, hosts in members.items()}
    workers = [hosts for name, hosts in groups.items() if function_of(name) == "worker"]
    for name, hosts in groups.items():
        function = function_of(name)
        kinds = [functions[host] for host in hosts]
        stands = function is not None and all(function in kind for kind in kinds)
        part = function == "worker" and any(hosts < others for others in workers)
        if hosts and len(hosts) < len(functions) and (part or not stands):
            yield name


def _most(groups: Mapping[str, set[str]], function: str, least: int) -> dict[str, set[str]]:
    """Return the groups of a function at its highest level."""
    ours = {name: hosts for name, hosts in groups.items() if function_of(name) == function and level(name) >= least}
    highest = max(map(level, ours), default=0)
    ours = {name: hosts for name, hosts in ours.items() if level(name) == highest}
    controllers = {name: hosts for name, hosts in ours.items() if any(map(_CONTROLLER.match, tokens(name)))}
    return (controllers or ours) if function == "head" else ours
