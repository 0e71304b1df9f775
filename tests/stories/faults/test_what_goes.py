"""A role that is taken out goes as it says, what stays is said; and what would be refused is said before."""

from __future__ import annotations

import pytest

from tests.stories.faults.conftest import Site

pytestmark = pytest.mark.lab

MAKER = """\
description: Its own code makes a tree, and keeps a state.
on: "true"
needs: [ground]
delete_on_removal: [/opt/maker]
keep_on_removal: [{path: /var/maker, why: its state}]
"""
DEPLOY = """\
from pyinfra.operations import server

server.shell(name="Make", commands=["mkdir -p /opt/maker/a/b /var/maker && touch /opt/maker/a/b/c"])
"""
TASKS = """\
- name: Write
  ansible.builtin.copy: {content: "ours\\n", dest: /etc/site-made, mode: "0644"}
"""


BANNER = """\
description: What people read, from a file and from tasks of Ansible.
on: '"worker" in node.functions'
needs: [ground]
vars:
  text: {type: text, description: What they read.}
files:
  - {path: /etc/banner, content: "{{ vars.text }}\\n"}
inputs: {banner_text: vars.text}
checks:
  - {name: the tasks have written it as well, command: [cmp, /etc/banner, /etc/banner-too]}
"""
BANNER_TASKS = """\
- name: Write
  ansible.builtin.copy: {content: "{{ banner_text }}\\n", dest: /etc/banner-too, mode: "0644"}
"""


def test_a_role_of_a_folder_that_the_blueprint_names_comes_and_goes(site: Site) -> None:
    """Its variable is data to Jinja, to Ansible and to the shell; with the folder it goes, but for what code made."""
    site.fresh()
    tasks = site.folder / "ours/banner/tasks/main.yml"
    tasks.parent.mkdir(parents=True)
    tasks.write_text(BANNER_TASKS)
    (tasks.parents[1] / "role.yaml").write_text(BANNER)
    without = site.blueprint.read_text()
    says = without + "role_folders: [ours]\n"
    site.blueprint.write_text(says)
    refused = site.run("plan")
    assert refused.returncode == 3
    assert "the role `banner` runs here, and its variable `text` is missing" in refused.stderr
    text = "{{ 1+1 }} {% x %} $(id) `id`"
    site.blueprint.write_text(f"{says}roles: {{banner: {{text: '{text}'}}}}\n")
    site.apply()
    assert site.inside("n02", "cat /etc/banner /etc/banner-too") == f"{text}\n" * 2
    assert site.inside("n01", "ls /etc/banner /etc/banner-too 2>/dev/null || true") == ""
    assert site.run("plan").returncode == 0
    (site.folder / "ours").rename(site.folder / "elsewhere")
    assert "the folder `ours` does not exist" in site.run("plan").stderr
    site.blueprint.write_text(without)
    planned = site.run("plan")
    assert planned.returncode == 2
    assert "no longer wanted  n02\n  - banner: file /etc/banner\n" in planned.stdout
    stays = "work of banner: the node's record does not list what the role's code created"
    assert f"  = stays: {stays}" in planned.stdout
    done = site.apply()
    assert f"stays on n02:\n  {stays}" in done.stdout
    assert site.inside("n02", "ls /etc/banner /etc/banner-too 2>/dev/null || true") == "/etc/banner-too\n"
    assert site.run("plan").returncode == 0


def test_what_a_roles_code_made_goes_with_the_role(site: Site) -> None:
    site.fresh()
    folder = site.roles / "maker"
    folder.mkdir()
    (folder / "role.yaml").write_text(MAKER)
    (folder / "deploy.py").write_text(DEPLOY)
    site.apply()
    assert site.inside("n02", "ls /opt/maker/a/b") == "c\n"
    site.restore()
    planned = site.run("plan")
    assert planned.returncode == 2
    assert "no longer wanted  n[01-02]\n  - maker: /opt/maker, with its content\n" in planned.stdout
    assert "  = stays: /var/maker: its state\n" in planned.stdout
    done = site.apply()
    assert "stays on n[01-02]:\n  /var/maker: its state\n" in done.stdout
    for node in ("n01", "n02"):
        assert site.inside(node, "ls -d /opt/maker /var/maker 2>/dev/null || true") == "/var/maker\n"
    assert site.run("plan").returncode == 0


@pytest.mark.parametrize(
    ("says", "stays", "there"),
    [
        ("", "work of site_motd: the node's record does not list what the role's code created", "/etc/site-made\n"),
        ("delete_on_removal: [/etc/site-made]\n", "", ""),
        ("keep_on_removal: [{path: /etc/site-made, why: ours}]\n", "/etc/site-made: ours", "/etc/site-made\n"),
    ],
    ids=["says nothing", "delete_on_removal", "keep_on_removal"],
)
def test_a_sites_role_goes_as_it_says_or_the_plan_says_that_it_stays(
    site: Site, says: str, stays: str, there: str
) -> None:
    site.fresh()
    tasks = site.folder / "site_roles/motd/tasks/main.yml"
    tasks.parent.mkdir(parents=True, exist_ok=True)
    tasks.write_text(TASKS)
    (tasks.parents[1] / "role.yaml").write_text(says or "description: Says nothing.\n")
    (site.roles / "ground").rename(site.roles / "base")  # which a site's role needs
    text = site.blueprint.read_text().replace(
        'release: "12"}', 'release: "12"}\n  site_roles: [{path: site_roles/motd, on: worker}]'
    )
    without = site.blueprint.read_text()
    for role in ("client", "relay", "wall"):
        path = site.roles / role / "role.yaml"
        path.write_text(path.read_text().replace("ground", "base"))
    site.blueprint.write_text(text)
    site.apply()
    assert site.inside("n02", "cat /etc/site-made") == "ours\n"
    site.blueprint.write_text(without)
    planned = site.run("plan")
    assert planned.returncode == 2
    assert "no longer wanted  n02\n" in planned.stdout
    assert (f"  = stays: {stays}" if stays else "  - site_motd: /etc/site-made, with its content") in planned.stdout
    done = site.apply()
    assert ("stays on n02:\n  " + stays if stays else "n02") in done.stdout
    assert site.inside("n02", "ls /etc/site-made 2>/dev/null || true") == there
    assert site.run("plan").returncode == 0


def test_what_apply_would_refuse_is_said_before_and_its_node_left_out(site: Site) -> None:
    site.fresh()
    site.inside("n02", "useradd --uid 3001 squatter; mkdir -p /etc/faults/client.conf; ln -s nowhere /var/lib/faults")
    planned = site.run("plan")
    assert planned.returncode == 5
    for said in (
        "n02: left out, and nothing is changed there until this is resolved:\n",
        "  ! ground: directory /var/lib/faults: /var/lib/faults is a symbolic link where a directory is expected;",
        "  ! ground: account fora: uid and gid 3001 for 'fora' belong to 'squatter' on this node; choose another",
        "      run there: usermod --uid 3002 squatter\n",
        "  ! client: file /etc/faults/client.conf: /etc/faults/client.conf is a directory where a file is expected;",
        "1 node to change: n01; left out: n02.\n",
    ):
        assert said in planned.stdout
    before = site.inside("n02", "ls -lR /etc/faults; getent passwd; dpkg-query -W | sha256sum")
    done = site.apply(code=5)
    assert "n02: ground FAILED: account fora: uid and gid 3001 for 'fora' belong to 'squatter'" in done.stderr
    assert "; directory /var/lib/faults: /var/lib/faults is a symbolic link" in done.stderr
    assert site.inside("n02", "ls -lR /etc/faults; getent passwd; dpkg-query -W | sha256sum") == before
    assert site.inside("n02", "test -e /var/lib/hpcforge/receipt.json || echo none") == "none\n"
    assert site.inside("n01", "systemctl is-active client") == "active\n"
    site.inside("n02", "usermod --uid 3002 squatter; groupmod --gid 3002 squatter")
    site.inside("n02", "rm -r /etc/faults /var/lib/faults")
    site.apply()
    assert site.run("plan").returncode == 0
