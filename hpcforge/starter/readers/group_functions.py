"""The functions of hosts by the groups of an Ansible inventory. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from hpcforge.starter.readers.host_names import tokens

_ORDER = ("head", "login", "storage", "worker")
_SLURM = re.compile(r"slurm|openhpc|ohpc", re.IGNORECASE)
_KUBERNETES = re.compile(r"kube|k8s|k3s|rke|etcd|calico|openshift", re.IGNORECASE)
_HEAD = re.compile(
    r"head|frontend|(?:slurm)?(?:master|control|ctl|manage)|mgmt|mgt|admin|sms|(?:slurm)?ctld|slurmserver"
)
_CONTROLLER = re.compile(r"(?:slurm)?(?:master|control|ctl|ctld)|slurmserver")  # of groups of heads, those to go by
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
    """The groups of a function at its highest level."""
    ours = {name: hosts for name, hosts in groups.items() if function_of(name) == function and level(name) >= least}
    highest = max(map(level, ours), default=0)
    ours = {name: hosts for name, hosts in ours.items() if level(name) == highest}
    controllers = {name: hosts for name, hosts in ours.items() if any(map(_CONTROLLER.match, tokens(name)))}
    return (controllers or ours) if function == "head" else ours
