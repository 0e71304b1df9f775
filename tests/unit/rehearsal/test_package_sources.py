"""Package sources in a rehearsal: what passes the lab's proxy, and which roles are left out where none is reached."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcforge.cli.site import lab_facts, package_origins
from hpcforge.cluster import Loaded, load
from hpcforge.rehearsal.compare import Compared, compare
from hpcforge.rehearsal.lab_facts import LabFacts
from hpcforge.rehearsal.package_sources import every, out_of_reach, passed
from hpcforge.rehearsal.stand_in_rules import RULES
from hpcforge.rehearsal.stand_ins import rehearsed, rehearsed_roles
from hpcforge.report.rehearsal_text import compared_text
from hpcforge.run.site import compile_site, load_site_roles
from tests.support.shipped import ROOT, anywhere

MIRROR = "https://mirror.example.org"
KEY = ROOT / "tests" / "unit" / "roles" / "blueprints" / "mirror.asc"  # nobody has its private part
INSTALLED = f"""nvidia: {{driver: "570.172.08", modules: open}}
  sources:
    nvidia:
      url: {MIRROR}/cuda/debian12/
      key: {KEY}
      fingerprint: 0DF39604D862657B8D2640878EBC827A82862855
      licence_accepted: true"""
DEBIANS = {"http://deb.debian.org"}


@pytest.fixture(name="site", scope="module")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """The shipped site, whose nodes get NVIDIA's driver from a mirror of NVIDIA's repository."""
    path = tmp_path_factory.mktemp("site") / "site.yaml"
    text = anywhere(ROOT / "blueprints" / "dgx-h100-site.yaml")
    path.write_text(text.replace('preinstalled: {driver: "535.261.03", fabric_manager: matched}', INSTALLED))
    return load(path, judged=True)


def compared(site: Loaded, lab: LabFacts) -> Compared:
    """As `rehearse compare` compares it, with the roles that the rehearsal of this lab has."""
    roles = load_site_roles(site)
    cluster, _ = rehearsed(site.cluster, lab, RULES)
    away = out_of_reach(package_origins(site, cluster), lab.sources)
    own = compile_site(rehearsed_roles(roles, boots=lab.boots, away=away), {}, cluster)
    return compare(site.cluster, lab, RULES, roles, own, lambda some, there: compile_site(some, {}, there))


def facts(site: Loaded, sources: dict[str, bool] | None) -> LabFacts:
    return replace(lab_facts(site, None), sources=sources)


def test_sources_are_those_of_the_roles_that_run(site: Loaded, dgx: Loaded) -> None:
    assert package_origins(dgx, dgx.cluster) == {}
    found = package_origins(site, site.cluster)
    assert list(found) == ["nvidia_driver"]
    assert {MIRROR} == {*every(found)} - DEBIANS


def test_a_source_that_is_reached_passes_and_is_said(site: Loaded) -> None:
    for sources in (None, {MIRROR: True}):
        found = compared(site, facts(site, sources))
        text = compared_text(found, up=sources is not None, full=True)
        assert f"package sources: {MIRROR}: nodes fetch from there through this machine's proxy" in text
        assert "nvidia_driver: its" not in text
        assert found.unexplained == ()


@pytest.mark.parametrize(
    ("sources", "why"),
    [({MIRROR: False}, "which this machine cannot reach"), ({}, "which `rehearse up` has not tried yet")],
)
def test_roles_whose_source_is_not_reached_are_left_out_and_said(
    site: Loaded, sources: dict[str, bool], why: str
) -> None:
    found = compared(site, facts(site, sources))
    text = compared_text(found, up=True, full=True)
    assert f"nvidia_driver: its packages come from {MIRROR}, {why}" in text
    assert "\npackage sources: " not in text
    assert "package nvidia-driver-cuda" in "".join(
        line for difference in found.explained[-1].differences for line in difference.lines
    )
    assert found.unexplained == ()


def test_plain_http_is_left_out_only_where_it_was_seen_to_be_away() -> None:
    found = {"own": ("http://mirror.example.org:8080",), "other": ("https://[2001:db8::1]:8443",)}
    assert out_of_reach(found, {}).keys() == {"other"}
    assert out_of_reach(found, dict.fromkeys(every(found), False)).keys() == {"own", "other"}
    assert out_of_reach(found, None) == {}
    said = passed(found, dict.fromkeys(every(found), True))
    assert said is not None and said.sentence.startswith("https://[2001:db8::1]:8443: nodes fetch")
    assert passed(found, {}) is None
