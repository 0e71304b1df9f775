"""`make break-roles` sees what golden files show, and names what they do not."""

from __future__ import annotations

from pathlib import Path

from tools import break_roles

ROLE_YAML = """\
description: Tells.
on: "'head' in node.functions"
packages: [tell]
files:
  - {path: /etc/tell.conf, mode: "0600", scope: node}
vars:
  loud: {type: truth, default: false, description: Loudly.}
"""
TEMPLATE = """\
{# what it
   tells #}
tell {{ cluster.name }}
{% if vars.loud %}
loudly
{% endif %}
"""


def test_each_value_and_each_line_is_broken_once(tmp_path: Path) -> None:
    folder = tmp_path / "roles" / "tell"
    (folder / "files" / "etc").mkdir(parents=True)
    (folder / "role.yaml").write_text(ROLE_YAML)
    (folder / "files" / "etc" / "tell.conf.j2").write_text(TEMPLATE)
    (folder / "files" / "etc" / "motd").write_text("Hello.\n")
    found = {f"{one.file.name}: {one.where}": one.text for one in break_roles.breaks_of(tmp_path, "tell")}
    assert list(found) == [
        "motd: one line more",
        "tell.conf.j2: line 3, another word",
        "tell.conf.j2: line 4, the opposite condition",
        "tell.conf.j2: line 5, another word",
        "role.yaml: line 2, on",
        "role.yaml: line 3, packages.0",
        "role.yaml: line 3, packages.0.gone",
        "role.yaml: line 5, files.0.path",
        "role.yaml: line 5, files.0.mode",
        "role.yaml: line 5, files.0.gone",
        "role.yaml: line 7, vars.loud.default",
    ]
    assert "{% if not (vars.loud) %}\n" in found["tell.conf.j2: line 4, the opposite condition"]
    assert "\npackages: []\nfiles" in found["role.yaml: line 3, packages.0.gone"]
    assert "default: true," in found["role.yaml: line 7, vars.loud.default"]


def test_what_no_golden_file_shows_is_missed(tmp_path: Path) -> None:
    break_roles.copy_to(tmp_path)
    roles = tmp_path / "tests" / "unit" / "roles"
    (roles / "shown.yaml").write_text("whole: []\nroles: {rehearsal: [names]}\n")
    for golden in (roles / "golden").glob("*/*"):
        if golden.parts[-2:] != ("rehearsal", "names.txt"):
            golden.unlink()
    lines = break_roles.begun(tmp_path, ["names", "munge"]).communicate()[0].splitlines()
    assert len(lines) > 40
    missed = {line for line in lines if line.startswith("MISSED")}
    missed -= {
        line for line in missed if "names/files/etc/resolv.conf.j2: line 7" in line
    }  # the rehearsal has its own DNS server
    assert {line.split("/")[1] for line in missed} == {"munge"}
    seen = {line for line in lines if "roles/munge/" in line} - missed
    assert "caught roles/munge/files/etc/systemd/system/munge.service.d/hpcforge.conf: one line more" in seen
