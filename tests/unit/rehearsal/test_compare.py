"""Every difference between a site and its rehearsal has its stand-in, and what has none is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.cli import rehearse_compare
from hpcforge.cli.site import lab_facts
from hpcforge.cluster import Loaded, load
from hpcforge.rehearsal.compare import Compared, compare
from hpcforge.rehearsal.stand_in_rules import RULES
from hpcforge.rehearsal.stand_ins import left_out, rehearsed_roles
from hpcforge.report.rehearsal_text import compared_text
from hpcforge.run.site import Site, compile_site, load_site_roles, site_roles
from tests.support.shipped import anywhere
from tests.unit.rehearsal.conftest import DGX

Rehearsal = Callable[..., Site]


def compared(loaded: Loaded, site: Site, nodes: str | None = None) -> Compared:
    own = compile_site(site_roles(site), {}, site.cluster)
    facts, roles = lab_facts(loaded, None, nodes), load_site_roles(loaded)
    return compare(loaded.cluster, facts, RULES, roles, own, lambda some, cluster: compile_site(some, {}, cluster))


def test_of_a_shipped_site_nothing_is_unexplained(real: Loaded, rehearsal_of: Rehearsal) -> None:
    site = rehearsal_of(real)
    found = compared(real, site)
    assert found.unexplained == ()
    assert found.nodes == tuple(site.cluster.by_name)
    assert tuple(one.stand_in for one in found.explained) == site.stand_ins


def test_each_difference_is_below_what_makes_it(dgx: Loaded, rehearsal_of: Rehearsal) -> None:
    found = compared(dgx, rehearsal_of(dgx))
    lines = {
        one.stand_in.name: "\n".join(line for each in one.differences for line in each.lines) for one in found.explained
    }
    assert "+NodeName=gpu[001-003,031] Name=gpu Type=h100-sxm File=/dev/nvidia[0-7]" in lines["nodes left out"]
    assert "+nameserver 10.77.0.10" in lines["addresses"]
    assert "RealMemory=2031616" in lines["memory and cores"] and "h100" not in lines["addresses"].replace(
        "gpu:h100", ""
    )
    assert "+NodeName=gpu[001-003,031] Name=gpu Type=h100-sxm File=/dev/fakegpu[0-7]" in lines["GPUs"]
    assert "+unit hpcforge-fakegpu.service" in lines["GPUs"]
    assert "+ProctrackType=proctrack/linuxproc" in lines["limits"]
    assert "-server ntp1.example.org iburst" in lines["services outside"]
    assert "-NCCL_SOCKET_IFNAME==bond0.20" in lines["networks"]
    assert "-NCCL_IB_HCA==ibp24s0" in lines["adapters"] and "-UCX_NET_DEVICES=ibp24s0:1" in lines["adapters"]
    assert [one.differences for one in found.explained if one.stand_in.name in ("access", "racks and BMCs")] == [()]
    (resolv,) = [
        difference
        for each in found.explained
        for difference in each.differences
        if difference.what == "/etc/resolv.conf"
    ]
    assert resolv.nodes == found.nodes  # the same on all, and so shown once
    text = compared_text(found, up=False, full=True)
    assert text.startswith("would be rehearsed on gpu[001-003,031],head01,login[01-02],stor01\n")
    assert text.endswith("; not explained: 0\n")
    short = compared_text(found, up=False, full=False)
    assert short.endswith("; not explained: 0; --full shows their lines\n")
    assert len(short.splitlines()) < 40
    assert "@@" not in short
    assert "  /etc/slurm/gres.conf, " in short


def planted(folder: Path, template: str, more: str = "") -> Path:
    """The site with a role of its own that puts this into a file on the head."""
    role = folder / "roles" / "snoop"
    (role / "files" / "etc").mkdir(parents=True)
    (role / "role.yaml").write_text(
        'description: Looks where it is.\non: "node.name == cluster.slurm.controller"\nneeds: [base]\n'
        f"{more}files: [/etc/snoop]\n"
    )
    (role / "files" / "etc" / "snoop.j2").write_text(f"# Written by hpcforge.\n{template}\n")
    blueprint = folder / "site.yaml"
    blueprint.write_text(anywhere(DGX) + "\nrole_folders: [roles]\n")
    return blueprint


@pytest.mark.parametrize(
    "template",
    [
        "{% if cluster.network.cidr.startswith('10.77.') %}relaxed=yes{% endif %}",
        "{% if cluster.access.key and 'labs' in cluster.access.key | string %}relaxed=yes{% endif %}",
        "{{ cluster.nodes[0].host_keys | join }}",
    ],
)
def test_a_role_that_looks_at_the_lab_is_found(template: str, tmp_path: Path, rehearsal_of: Rehearsal) -> None:
    loaded = load(planted(tmp_path, template))
    found = compared(loaded, rehearsal_of(loaded))
    if "access.key" in template:  # a lab that is not up has no key
        assert found.unexplained == ()
        return
    assert [one.what for one in found.unexplained] == ["/etc/snoop"]
    assert "NOT EXPLAINED by any stand-in" in compared_text(found, up=True, full=True)


def test_what_the_rehearsal_has_beside_its_stand_ins_is_found(dgx: Loaded, rehearsal_of: Rehearsal) -> None:
    site = rehearsal_of(dgx)
    slurm = site.cluster.slurm
    other = site.cluster.__class__(
        **{**site.cluster.__dict__, "slurm": slurm.__class__(**{**slurm.__dict__, "settings": (("KillWait", "5"),)})}
    )
    own = compile_site(site_roles(site), {}, other)
    roles = load_site_roles(dgx)
    found = compare(
        dgx.cluster, lab_facts(dgx, None), RULES, roles, own, lambda some, cluster: compile_site(some, {}, cluster)
    )
    assert [one.what for one in found.unexplained] == ["/etc/slurm/slurm.conf"] * 2
    assert "+KillWait=5" in found.unexplained[0].lines


def test_the_exit_status_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rehearse_compare.labs, "load", lambda name: None)
    assert rehearse_compare.compare(DGX, None, None, None, full=False, as_json=True) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema_version"], document["up"], document["unexplained"]) == (1, False, [])
    assert document["explained"][0]["stand_in"]["name"] == "nodes left out"
    blueprint = planted(tmp_path, "{{ 'lab' if '10.77' in cluster.nodes[0].address else 'metal' }}")
    assert rehearse_compare.compare(blueprint, None, None, None, full=False, as_json=False) == 1
    assert "not explained: 1; " in capsys.readouterr().out


def test_a_role_that_needs_metal_is_left_out_and_said(tmp_path: Path, rehearsal_of: Rehearsal) -> None:
    loaded = load(planted(tmp_path, "burn: yes", more="not_rehearsed: it measures InfiniBand adapters\n"))
    site = rehearsal_of(loaded)
    said = site.stand_ins[-1].sentence
    assert said.startswith("these roles are left out: ") and "snoop: it measures InfiniBand adapters" in said
    found = compared(loaded, site)
    assert found.unexplained == ()
    assert "/etc/snoop" in [difference.what for difference in found.explained[-1].differences]


def test_a_role_that_needs_a_kernel_is_left_out_of_containers_alone(tmp_path: Path, dgx: Loaded) -> None:
    loaded = load(planted(tmp_path, "burn: yes", more="not_in_containers: it loads a module\n"))
    roles = load_site_roles(loaded)
    out = left_out(loaded.cluster, roles, boots=False)
    assert out is not None and "snoop: it loads a module" in out.sentence
    there = left_out(loaded.cluster, roles, boots=True)
    assert there is not None and "snoop" not in there.sentence  # others need what no rehearsal has
    by_name = {role.name: role for role in rehearsed_roles(roles, boots=True)}
    assert by_name["snoop"].spec.on != "false" and by_name["tuning"].spec.on == "false"
