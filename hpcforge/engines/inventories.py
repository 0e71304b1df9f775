"""Connection variables of a node for Ansible and pyinfra, run by hpcforge or by hand. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from yaml import ScalarNode
from yaml.resolver import Resolver

from hpcforge.engines.ansible_jump import ssh_options
from hpcforge.engines.tasks import Target

_COLUMNS = 140  # width of a foldable line; ansible-lint allows 160
_WORDS_OF_YAML = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")  # YAML 1.1, which Ansible reads
_RESOLVER = Resolver()


def unsafe(value: Any) -> Any:
    """Return a value as JSON for Ansible, with every string marked as literal. Ansible never renders keys.

    Raise ValueError for a key that Ansible reads as a mark: it would then read the file as YAML, without marks.
    """
    if isinstance(value, str | Path):
        return {"__ansible_unsafe": str(value)}
    if isinstance(value, Mapping):
        wrong = [key for key in value if str(key).startswith("__ansible_")]
        if wrong:
            raise ValueError(f"{wrong[0]!r} cannot be a key for Ansible: __ansible_... is reserved")
        return {str(key): unsafe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [unsafe(item) for item in value]
    return value


def ansible_connection(target: Target, known_hosts: Path, proxy: str | None = None) -> dict[str, Any]:
    """Return the variables of Ansible's ssh: strict host keys, no user configuration; `proxy`: a ProxyCommand."""
    options = [*ssh_options(target, known_hosts), *(["-o", f"ProxyCommand={proxy}"] if proxy else [])]
    return {
        "ansible_host": target.address,
        "ansible_user": target.user,
        "ansible_ssh_common_args": shlex.join(options),
        "ansible_host_key_checking": True,  # else Ansible's own settings count, and ssh uses the first value
        "ansible_python_interpreter": "/usr/bin/python3",
        **({"ansible_ssh_private_key_file": str(target.key)} if target.key else {}),
    }


def ansible_inventory(hosts: Mapping[str, Mapping[str, Any]], groups: Mapping[str, Iterable[str]]) -> str:
    """Return the output of a script for `ansible -i SCRIPT`: variables by host, hosts by group."""
    document = {
        "_meta": {"hostvars": {name: unsafe(variables) for name, variables in hosts.items()}},
        "all": {"hosts": list(hosts)},
        **{name: {"hosts": list(nodes)} for name, nodes in groups.items()},
    }
    return json.dumps(document)


def ansible_file(hosts: Mapping[str, Mapping[str, object]], groups: Mapping[str, Iterable[str]]) -> str:
    """Return the same as a file for `ansible -i FILE.yml`, which passes ansible-lint: no line is too long."""
    children = {name: {"hosts": dict.fromkeys(nodes)} for name, nodes in groups.items()}
    return "\n".join(["---", *_yaml({"all": {"hosts": hosts, "children": children}}, ""), ""])


def _yaml(value: Mapping[str, object] | Sequence[object], indent: str) -> Iterator[str]:
    """Yield a mapping or list as lines in ansible-lint's style.

    Not with libyaml: it breaks no line before a long word, such as an RSA key, and does not indent lists.
    """
    entries = value.items() if isinstance(value, Mapping) else ((None, item) for item in value)
    for key, item in entries:
        lead = f"{indent}-" if key is None else f"{indent}{_key(str(key))}:"
        if isinstance(item, str | Path):
            mark = "!unsafe " if _is_text(str(item)) else ""  # with it, Ansible reads "0640" as a number
            yield from _folded(f"{lead} {mark}", str(item), f"{indent}  ")
        elif item and isinstance(item, Mapping | list | tuple):
            yield lead
            yield from _yaml(item, f"{indent}  ")
        else:
            yield f"{lead} {json.dumps(item)}"


def _key(text: str) -> str:
    plain = text.replace("_", "").replace("-", "").isalnum() and text.isascii() and text[0].isalpha()
    return text if plain and text.lower() not in _WORDS_OF_YAML else _quoted(text)


def _is_text(text: str) -> bool:
    """Tell whether YAML reads a text without quotes as a string; no other can be a template."""
    return bool(_RESOLVER.resolve(ScalarNode, text, (True, False)) == "tag:yaml.org,2002:str")  # type: ignore[no-untyped-call]


def _quoted(text: str) -> str:
    """Return a text in YAML's double quotes, with unprintable characters escaped."""
    shown = (
        letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in json.dumps(text, ensure_ascii=False)
    )
    return "".join(shown)


def _folded(lead: str, text: str, indent: str) -> Iterator[str]:
    """Yield a text as folded lines; a line ends before a word, with its blanks and a backslash."""
    line = lead
    for number, word in enumerate(_quoted(text).split(" ")):
        if number and word and len(line) + len(word) > _COLUMNS:
            yield f"{line} \\"
            line = f"{indent}{word}"
        else:
            line += f" {word}" if number else word
    yield line


def ssh_config(nodes: Iterable[Target], domain: str, known_hosts: Path, via: Target | None = None) -> str:
    """Return a file for `ssh -F`: hpcforge's route to each node, with the inventory's host keys only."""
    nodes = tuple(nodes)
    separate = via is not None and via.name not in {node.name for node in nodes}
    blocks = [_host_block(via, via.name, known_hosts)] if via and separate else []
    for node in nodes:
        names = f"{node.name} {node.name}.{domain}"
        jump = via.name if via and via.address != node.address else None
        blocks.append(_host_block(node, names, known_hosts, jump))
    return "\n".join(blocks)


def _host_block(target: Target, names: str, known_hosts: Path, jump: str | None = None) -> str:
    lines = [
        f"Host {names}",
        f"HostName {target.address}",
        f"User {target.user}",
        *([f"IdentityFile {_ssh_path(target.key)}", "IdentitiesOnly yes"] if target.key else []),
        *([f"ProxyJump {jump}"] if jump else []),
        "StrictHostKeyChecking yes",
        f"UserKnownHostsFile {_ssh_path(known_hosts)}",
        "GlobalKnownHostsFile /dev/null",
        "UpdateHostKeys no",
    ]
    return "\n    ".join(lines) + "\n"


def _ssh_path(path: Path) -> str:
    """Return a path for ssh_config(5): in quotes, since it may have blanks, and with % escaped."""
    return '"' + str(path).replace("%", "%%") + '"'


def pyinfra_connection(target: Target, known_hosts: Path, ssh_config: Path | None = None) -> dict[str, Any]:
    """Return `host.data` of pyinfra's ssh: strict host keys, no configuration except `ssh_config`."""
    return {
        "ssh_hostname": target.address,
        "ssh_user": target.user,
        "ssh_known_hosts_file": str(known_hosts),
        "ssh_strict_host_key_checking": "yes",
        "ssh_config_file": str(ssh_config or "/dev/null"),
        **({"ssh_key": str(target.key)} if target.key else {}),
    }
