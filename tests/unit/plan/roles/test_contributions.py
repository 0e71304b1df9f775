"""What roles contribute to the files of other roles."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.roles.role import RoleError, load_roles

FIREWALL = """
description: Opens the ports that roles contribute.
on: "true"
accepts:
  open_ports:
    description: A port.
    scope: node
    fields:
      port: {type: ports, description: A port or a range.}
      protocol: {one_of: [tcp, udp], default: tcp, description: Its transport.}
      why: {type: comment, description: Its purpose.}
    unique: [port, protocol, why]
contributes:
  open_ports: [{port: "22", why: ssh}]
files:
  - path: /etc/firewall
    scope: node
    content: |
      {% for open in contributions.open_ports[node.name] %}
      {{ open.protocol }} {{ open.port }} {{ open.why }}
      {% endfor %}
"""
PAGES = """
description: Pages on workers.
on: "'worker' in node.functions"
contributes:
  open_ports:
    - {port: "{{ 440 + 3 }}", why: pages}
    - {port: 30000-30100, protocol: udp, why: "calls, see {{ '{{ this }}' }}"}
    - {port: "22", why: ssh}
    - {port: "9", why: none, when: "false"}
"""
DAEMON = """
description: Has a file with lines of other roles.
on: "node.name == 'head'"
accepts:
  daemon_conf:
    description: A line of daemon.conf.
    fields:
      key: {type: key, description: Its name.}
      value: {type: setting, description: Its value.}
      list: {type: truth, default: false, description: It is a list.}
    unique: [key]
    known: "['Interval', 'Flags'] if cluster.name != 'other' else none"
    joined: value
    joined_if: list
files:
  - path: /etc/daemon.conf
    content: |
      {% for line in contributions.daemon_conf %}
      {{ line.key }}={{ line.value }} {{ line.role }} {{ line.nodes | map(attribute='name') | fold }}
      {% endfor %}
"""
FIRST = """
description: Contributes two lines.
on: "'worker' in node.functions"
contributes:
  daemon_conf:
    - {key: Interval, value: "{{ 2 * 30 }}"}
    - {key: Flags, value: contain, list: true}
    - {key: Never, value: none, when: "false"}
"""
SECOND = """
description: Contributes to the same lines.
on: "true"
contributes:
  daemon_conf:
    - {key: Flags, value: "{{ item }}", list: true, for_each: "['contain', 'x11']"}
    - {key: Interval, value: "60"}
"""
RULES = """
description: Has a file for each text.
on: "node.name == 'head'"
accepts:
  rules:
    description: Rules.
    text: true
    fields: {title: {type: text, description: Their title.}}
files:
  - {path: "/etc/rules/{{ item.role }}", for_each: contributions.rules, content: "{{ item.title }}: {{ item.text }}"}
"""
WITH_RULES = """
description: Has rules.
on: "'worker' in node.functions"
contributes:
  rules: [{title: usual, source: rules.yaml}]
"""


def compiled(cluster: Cluster, folder: Path, **roles: str) -> dict[str, dict[str, str]]:
    """The texts of files by node and path."""
    for name, text in roles.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "role.yaml").write_text(text)
    desired = compile_desired(cluster, load_roles(folder), {})
    return {
        node: {file.path: desired.texts[str(file.digest)] for role in roles for file in role.of(File)}
        for node, roles in desired.nodes.items()
    }


def daemon_conf(cluster: Cluster, folder: Path, **roles: str) -> str:
    return compiled(cluster, folder, daemon=DAEMON, **roles)["head"]["/etc/daemon.conf"]


def refused(cluster: Cluster, folder: Path, **roles: str) -> str:
    with pytest.raises(RoleError) as error:
        compiled(cluster, folder, **roles)
    return error.value.shown()


def test_a_node_gets_those_of_its_own_roles_each_once(cluster: Cluster, tmp_path: Path) -> None:
    found = compiled(cluster, tmp_path, firewall=FIREWALL, pages=PAGES)
    assert found["head"]["/etc/firewall"] == "tcp 22 ssh\n"
    lines = sorted(found["w1"]["/etc/firewall"].splitlines())
    assert lines == ["tcp 22 ssh", "tcp 443 pages", "udp 30000-30100 calls, see {{ this }}"]


@pytest.mark.parametrize("port", ["0", "65536", "http", "22; drop", "30-20", "-1", "22-", "１２"])
def test_other_text_is_no_port(cluster: Cluster, tmp_path: Path, port: str) -> None:
    shown = refused(cluster, tmp_path, firewall=FIREWALL, pages=PAGES.replace('"{{ 440 + 3 }}"', f'"{port}"'))
    assert "is neither a port nor a range FIRST-LAST of ports" in shown
    assert "pages/role.yaml:6:7:" in shown


@pytest.mark.parametrize("why", ['a \\" drop', "two\\nlines", "back\\\\slash", "x" * 101])
def test_other_text_is_no_comment(cluster: Cluster, tmp_path: Path, why: str) -> None:
    shown = refused(cluster, tmp_path, firewall=FIREWALL, pages=PAGES.replace("why: pages", f'why: "{why}"'))
    assert "one line of up to 100 ASCII characters" in shown


def test_a_file_has_the_lines_of_all_roles_each_once(cluster: Cluster, tmp_path: Path) -> None:
    assert daemon_conf(cluster, tmp_path) == ""
    found = daemon_conf(cluster, tmp_path, first=FIRST, second=SECOND)
    assert found.splitlines() == ["Interval=60 first head,w[1-2]", "Flags=contain,x11 first head,w[1-2]"]


def test_a_role_that_runs_nowhere_contributes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    nowhere = FIRST.replace("on: \"'worker' in node.functions\"", 'on: "false"')
    assert daemon_conf(cluster, tmp_path, first=nowhere) == ""


def test_two_different_values_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    shown = refused(cluster, tmp_path, daemon=DAEMON, first=FIRST, second=SECOND.replace('value: "60"', 'value: "5"'))
    assert "daemon_conf: Interval has value 5, and 60 in role first" in shown
    assert "second/role.yaml:7:7:" in shown
    word = FIRST.replace("contain, list: true", "contain")  # a list in one role, a word in the other
    assert "daemon_conf: Flags has list" in refused(cluster, tmp_path, daemon=DAEMON, first=word, second=SECOND)


@pytest.mark.parametrize("value", ["a # b", "two\\nlines", ""])
def test_other_text_is_no_setting(cluster: Cluster, tmp_path: Path, value: str) -> None:
    shown = refused(cluster, tmp_path, daemon=DAEMON, first=FIRST.replace("{{ 2 * 30 }}", value))
    assert "without #" in shown
    assert "first/role.yaml:6:7:" in shown


def test_what_is_the_same_on_all_nodes_cannot_use_node(cluster: Cluster, tmp_path: Path) -> None:
    shown = refused(cluster, tmp_path, daemon=DAEMON, first=FIRST.replace("{{ 2 * 30 }}", "{{ node.name }}"))
    assert "'node' is undefined" in shown


def test_an_unknown_value_is_refused_with_the_nearest(cluster: Cluster, tmp_path: Path) -> None:
    unknown = FIRST.replace("key: Interval", "key: Intreval")
    shown = refused(cluster, tmp_path, daemon=DAEMON, first=unknown)
    assert "there is no `Intreval`; did you mean `Interval`?" in shown
    compiled(cluster, tmp_path, daemon=DAEMON, first=FIRST.replace("key: Interval", "key: interval"))
    other = dataclasses.replace(cluster, name="other")
    assert "Intreval=60" in daemon_conf(other, tmp_path, first=unknown)


def test_unknown_kinds_and_fields_are_refused_at_their_place(cluster: Cluster, tmp_path: Path) -> None:
    shown = refused(cluster, tmp_path, daemon=DAEMON, first=FIRST.replace("daemon_conf:", "daemon_cnf:"))
    assert "no role accepts `daemon_cnf`" in shown
    assert "did you mean `daemon_conf`?" in shown
    assert "first/role.yaml:6:5:" in shown
    shown = refused(
        cluster, tmp_path, daemon=DAEMON, first=FIRST.replace("{key: Interval, value", "{key: Interval, vale")
    )
    assert "daemon_conf has no field `vale`" in shown
    assert "did you mean `value`?" in shown
    shown = refused(cluster, tmp_path, daemon=DAEMON, first=FIRST.replace("{key: Interval, ", "{"))
    assert "daemon_conf: key is missing" in shown
    shown = refused(cluster, tmp_path, daemon=DAEMON, again=DAEMON)
    assert "role again accepts it, too" in shown or "role daemon accepts it, too" in shown


def test_a_text_comes_from_a_file_of_the_contributing_role(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "with_rules").mkdir()
    (tmp_path / "with_rules" / "rules.yaml").write_text("- expr: up{job='{{ $labels.job }}'}")  # it is not rendered
    found = compiled(cluster, tmp_path, rules=RULES, with_rules=WITH_RULES)
    assert found["head"] == {"/etc/rules/with_rules": "usual: - expr: up{job='{{ $labels.job }}'}"}
    (tmp_path / "with_rules" / "rules.yaml.j2").write_text("{{ cluster.name }} {{ 1 + 1 }}")
    rendered = WITH_RULES.replace("rules.yaml", "rules.yaml.j2")
    found = compiled(cluster, tmp_path, rules=RULES, with_rules=rendered)
    assert found["head"] == {"/etc/rules/with_rules": f"usual: {cluster.name} 2"}


def test_a_text_that_is_missing_or_outside_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "with_rules").mkdir()
    assert "rules.yaml: No such file" in refused(cluster, tmp_path, rules=RULES, with_rules=WITH_RULES)
    (tmp_path / "with_rules" / "rules.yaml").symlink_to("/etc/hostname")
    assert "cannot be read" in refused(cluster, tmp_path, rules=RULES, with_rules=WITH_RULES)
    without = WITH_RULES.replace(", source: rules.yaml", "")
    assert "rules has a text" in refused(cluster, tmp_path, rules=RULES, with_rules=without)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("unique: [key]", "unique: [kye]", "`kye` is none of its fields"),
        ("      list:", "      nodes: {type: text, description: Nodes.}\n      list:", "`nodes` cannot be a field"),
        ("    joined: value", "    joined: list", "`joined` is for a field of type text or setting"),
        ("    joined_if: list", "    joined_if: key", "`joined_if` is for a field of type truth"),
        ("    joined: value\n", "", "`joined_if` is for a field of type truth, beside `joined`"),
        ("    unique: [key]\n", "", "`known` without `unique`"),
    ],
)
def test_mistakes_in_accepts_are_named(cluster: Cluster, tmp_path: Path, old: str, new: str, says: str) -> None:
    assert says in refused(cluster, tmp_path, daemon=DAEMON.replace(old, new))


@pytest.mark.parametrize("key", ["ports", "settings"])
def test_the_keys_of_0_1_are_refused_with_the_new_way(cluster: Cluster, tmp_path: Path, key: str) -> None:
    shown = refused(cluster, tmp_path, old=f"description: Old.\non: 'true'\n{key}: []\n")
    assert f"unknown key `{key}`" in shown
    assert "since 0.2 write `contributes: {" in shown


LIMITS = """
description: Limits units that roles contribute.
on: "true"
accepts:
  limited_units:
    description: A unit.
    scope: node
    fields: {unit: {type: text, description: Its name.}}
files:
  - for_each: contributions.limited_units[node.name]
    path: "/etc/systemd/system/{{ item.unit }}.d/limits.conf"
    scope: node
    content: "[Service]"
restarts:
  - {for_each: "contributions.limited_units[node.name]", name: "{{ item.unit }}"}
"""
LIMITED = """
description: Has a unit.
on: "'worker' in node.functions"
contributes:
  limited_units: [{unit: web.service}]
units: [web.service]
"""


def test_a_role_restarts_units_that_others_contribute_and_comes_before_them(cluster: Cluster, tmp_path: Path) -> None:
    for name, text in (("limits", LIMITS), ("api", LIMITED)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "role.yaml").write_text(text)
    [limits, api] = compile_desired(cluster, load_roles(tmp_path), {}).nodes["w1"]
    assert (limits.role, api.role) == ("limits", "api")
    assert [restart.unit for restart in limits.restarts] == ["web.service"]


def test_a_unit_that_no_role_has_is_not_restarted(cluster: Cluster, tmp_path: Path) -> None:
    assert compiled(cluster, tmp_path, limits=LIMITS)["w1"] == {}  # no role contributes one
    named = LIMITS.replace('name: "{{ item.unit }}"', "name: web.service")
    assert "restarts 'web.service', but no other role has such a unit" in refused(cluster, tmp_path, limits=named)
