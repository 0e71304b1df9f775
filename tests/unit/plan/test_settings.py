"""What roles have a file of another say, as the template of that file knows it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.role import RoleError, load_roles

DAEMON = """
description: Has a file that others speak in.
on: "node.name == 'head'"
files:
  - path: /etc/daemon.conf
    content: "{% for one in settings['/etc/daemon.conf'] %}{{ one.key }}={{ one.value }}\\n{% endfor %}"
"""
FIRST = """
description: Wants something of the daemon.
on: "'worker' in node.functions"
settings:
  - {file: /etc/daemon.conf, key: Interval, value: "{{ 2 * 30 }}"}
  - {file: /etc/daemon.conf, key: Flags, value: contain, several: true}
  - {file: /etc/daemon.conf, key: Never, value: none, when: "false"}
"""
SECOND = """
description: Wants something of it, too.
on: "true"
settings:
  - {file: /etc/daemon.conf, key: Flags, value: "{{ item }}", several: true, for_each: "['contain', 'x11']"}
  - {file: /etc/daemon.conf, key: Interval, value: "60"}
"""


def compiled(cluster: Cluster, folder: Path, **roles: str) -> str:
    for name, text in {"daemon": DAEMON, **roles}.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "role.yaml").write_text(text)
    desired = compile_desired(cluster, load_roles(folder), {})
    (file,) = (one for wanted in desired.nodes["head"] for one in wanted.of(File))
    return desired.texts[str(file.digest)]


def test_a_file_says_what_all_roles_want_of_it_each_once(cluster: Cluster, tmp_path: Path) -> None:
    assert compiled(cluster, tmp_path) == ""
    found = compiled(cluster, tmp_path, first=FIRST, second=SECOND)
    assert sorted(found.splitlines()) == ["Flags=contain,x11", "Interval=60"]


def test_a_role_that_runs_nowhere_wants_nothing(cluster: Cluster, tmp_path: Path) -> None:
    assert compiled(cluster, tmp_path, first=FIRST.replace("on: \"'worker' in node.functions\"", 'on: "false"')) == ""


def test_two_that_do_not_agree_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(RoleError, match=r"sets Interval=(60|5), and role (first|second) (60|5)"):
        compiled(cluster, tmp_path, first=FIRST, second=SECOND.replace('value: "60"', 'value: "5"'))
    with pytest.raises(RoleError, match="sets Flags="):  # a list for one, and a word for the other
        compiled(cluster, tmp_path, first=FIRST.replace("contain, several: true", "contain"), second=SECOND)


def test_a_file_that_no_role_has_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(RoleError, match=r"sets Interval in /etc/other[.]conf, but no role has such a file"):
        compiled(
            cluster, tmp_path, first=FIRST.replace("/etc/daemon.conf, key: Interval", "/etc/other.conf, key: Interval")
        )


@pytest.mark.parametrize("value", ["a # b", "two\\nlines", ""])
def test_what_is_no_line_is_refused(cluster: Cluster, tmp_path: Path, value: str) -> None:
    with pytest.raises(RoleError, match="is no value: one line, without #") as refused:
        compiled(cluster, tmp_path, first=FIRST.replace("{{ 2 * 30 }}", value))
    assert "first/role.yaml:5:" in refused.value.shown()


def test_it_is_the_same_for_all_nodes(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(RoleError, match="node"):
        compiled(cluster, tmp_path, first=FIRST.replace("{{ 2 * 30 }}", "{{ node.name }}"))


SLURM = """
description: Has slurm.conf.
on: "node.name == 'head'"
files:
  - {path: /etc/slurm/slurm.conf, content: "# nothing"}
"""
OF_SLURM = """
description: Wants something of Slurm.
on: "true"
settings:
  - {file: /etc/slurm/slurm.conf, key: KillWiat, value: "31"}
"""


def test_a_setting_that_slurm_does_not_have_is_refused_with_its_place(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(RoleError) as refused:
        compiled(cluster, tmp_path, daemon=SLURM, wants=OF_SLURM)
    shown = refused.value.shown()
    assert "KillWiat: Slurm 22.05 has no setting of this name; did you mean `KillWait`?" in shown
    assert "wants/role.yaml:5:" in shown
    compiled(cluster, tmp_path, daemon=SLURM, wants=OF_SLURM.replace("KillWiat", "killwait"))
    unknown = dataclasses.replace(cluster, os=dataclasses.replace(cluster.os, slurm="99.05"))
    compiled(unknown, tmp_path, daemon=SLURM, wants=OF_SLURM)
