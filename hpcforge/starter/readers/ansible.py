"""An Ansible inventory, in INI or YAML."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from hpcforge.starter.machines import MOST_MACHINES, SiteFile, SiteMachine, StarterError, functions_by_name
from hpcforge.starter.readers.words import at_most, by_name, expanded, is_address, lines


def read_ansible(text: str) -> SiteFile:
    """Return the hosts of all groups; a group's name says the functions of its hosts."""
    return SiteFile(at_most(_ansible(text)))


def _ansible(text: str) -> Iterator[SiteMachine]:
    """An inventory in INI or YAML: hosts of all groups; a group's name says the functions of its hosts."""
    found: dict[str, tuple[str | None, tuple[str, ...] | None]] = {}
    for count, (name, address, group) in enumerate(_ansible_yaml(text) if _is_yaml(text) else _ansible_ini(text)):
        if len(found) > MOST_MACHINES or count > 20 * MOST_MACHINES:
            raise StarterError(f"more than {MOST_MACHINES} machines, or {20 * MOST_MACHINES} mentions of them")
        known = found.get(name, (None, None))
        found[name] = (
            address if address and is_address(address) else known[0],
            known[1] or functions_by_name("", group),
        )
    for name, (address, functions) in found.items():
        short = name.partition(".")[0].lower() if not is_address(name) else f"node-{name.replace('.', '-')}"
        yield by_name(short, address or (name if is_address(name) else None), functions)


def _is_yaml(text: str) -> bool:
    return not any(line.startswith("[") for _, line in lines(text))


def _ansible_ini(text: str) -> Iterator[tuple[str, str | None, str]]:
    group = ""
    for _, line in lines(text):
        if line.startswith("["):
            group = line.strip("[]")
        elif not group.endswith((":vars", ":children")):
            name, *words = line.split()
            values = dict(word.split("=", 1) for word in words if "=" in word)
            for host in expanded(name):
                yield host, values.get("ansible_host"), group


def _ansible_yaml(text: str) -> Iterator[tuple[str, str | None, str]]:
    try:  # texts alone, whatever tags say; an alias may stand for endless many
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.CBaseLoader)):
            raise StarterError("its YAML has aliases (*name), which are not read here", "write what they stand for")
        tree = yaml.load(text, Loader=yaml.CBaseLoader)  # noqa: S506 - which makes texts, lists and mappings alone
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise StarterError(f"it is not YAML: {' '.join(str(error).split())[:300]}") from error
    yield from _of_groups(tree, 0)


def _of_groups(groups: object, depth: int) -> Iterator[tuple[str, str | None, str]]:
    for group, content in (groups if isinstance(groups, dict) and depth < 20 else {}).items():
        body = content if isinstance(content, dict) else {}
        hosts = body.get("hosts")
        for name, values in (hosts if isinstance(hosts, dict) else {}).items():
            address = values.get("ansible_host") if isinstance(values, dict) else None
            for host in expanded(str(name)):
                yield host, address if isinstance(address, str) else None, str(group)
        yield from _of_groups(body.get("children"), depth + 1)
