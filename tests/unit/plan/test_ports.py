"""Ports that roles want open, as a firewall's template knows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.role import RoleError, load_roles

WALL = """
description: Opens what is declared.
on: "true"
ports: [{port: "22", why: ssh}]
files:
  - path: /etc/wall
    scope: node
    content: "{% for one in open_ports[node.name] %}{{ one.protocol }} {{ one.port }} {{ one.why }}\\n{% endfor %}"
"""
PAGES = """
description: Pages for people, and a second of the same.
on: "'worker' in node.functions"
ports:
  - {port: "{{ 440 + 3 }}", why: pages}
  - {port: 30000-30100, protocol: udp, why: "calls, see {{ this }}"}
  - {port: "22", why: ssh}
  - {port: "9", why: none, when: "false"}
"""


def compiled(cluster: Cluster, folder: Path, pages: str = PAGES) -> dict[str, str]:
    for name, text in {"wall": WALL, "pages": pages}.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "role.yaml").write_text(text)
    desired = compile_desired(cluster, load_roles(folder), {})
    found = {}
    for node, roles in desired.nodes.items():
        (file,) = (one for wanted in roles for one in wanted.of(File))
        found[node] = desired.texts[str(file.digest)]
    return found


def test_a_node_has_those_of_all_its_roles_each_once(cluster: Cluster, tmp_path: Path) -> None:
    found = compiled(cluster, tmp_path)
    assert found["head"] == "tcp 22 ssh\n"
    assert sorted(found["w1"].splitlines()) == ["tcp 22 ssh", "tcp 443 pages", "udp 30000-30100 calls, see {{ this }}"]


@pytest.mark.parametrize("port", ["0", "65536", "http", "22; drop", "30-20", "-1", "22-", "１２"])
def test_what_is_no_port_is_refused(cluster: Cluster, tmp_path: Path, port: str) -> None:
    with pytest.raises(RoleError, match="is no port, and no FIRST-LAST of ports"):
        compiled(cluster, tmp_path, PAGES.replace('"{{ 440 + 3 }}"', f'"{port}"'))


@pytest.mark.parametrize("why", ['a \\" drop', "two\\nlines", "back\\\\slash", "x" * 101])
def test_what_cannot_be_a_comment_is_refused(cluster: Cluster, tmp_path: Path, why: str) -> None:
    with pytest.raises(RoleError, match="one line of at most 100 bytes"):
        compiled(cluster, tmp_path, PAGES.replace("why: pages", f'why: "{why}"'))
