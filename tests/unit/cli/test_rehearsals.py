"""Which rehearsal is meant by what stands on the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.cli import rehearsals, rehearse
from hpcforge.cli import site as sites
from hpcforge.cli.rehearsals import RehearsalName, named_one, one_of_all, parted, refer_to
from hpcforge.engines.host_keys import UnreachableError, host_keys
from hpcforge.engines.tasks import Target
from hpcforge.errors import UsageError
from hpcforge.lab.names import default_lab_name


def test_a_blueprint_is_what_ends_so() -> None:
    site = Path("a/site.yaml")
    assert parted(["a/site.yaml", "head", "ls"], None) == (RehearsalName(site, None), ["head", "ls"])
    assert parted(["head", "site.yaml"], None) == (RehearsalName(None, None), ["head", "site.yaml"])
    assert parted([], "mine") == (RehearsalName(None, "mine"), [])
    assert one_of_all(RehearsalName(site, None)) == default_lab_name(site)
    assert one_of_all(RehearsalName(site, "mine")) == "mine"


def test_it_is_named_as_shortly_as_can_be() -> None:
    site = Path("a/site.yaml")
    assert refer_to(site, default_lab_name(site)).typed("ssh", "head").endswith(" rehearse ssh a/site.yaml head")
    assert refer_to(site, "mine").typed("down").endswith(" rehearse down --lab mine")
    assert refer_to(site, "mine").up().endswith(" rehearse up a/site.yaml --lab mine")


def test_without_a_name_the_only_one_is_meant_but_not_to_take_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsals, "require_root", lambda: None)
    monkeypatch.setattr(rehearsals, "blueprint_of", lambda name: Path("/srv/site.yaml"))
    there = ["one"]
    monkeypatch.setattr(rehearsals.labs, "lab_names", lambda: tuple(there))
    nothing = RehearsalName(None, None)
    assert one_of_all(nothing) == "one"
    with pytest.raises(UsageError, match="name the rehearsal") as refused:
        named_one(nothing, "down", "w01")
    assert refused.value.hint.endswith(" rehearse down w01 --lab one")
    there.append("two")
    with pytest.raises(UsageError, match="this machine has 2 rehearsals: one, two"):
        one_of_all(nothing)
    there.clear()
    with pytest.raises(UsageError, match="no rehearsal"):
        one_of_all(nothing)


def test_a_node_that_was_never_started_is_started_not_trusted() -> None:
    start = "hpcforge rehearse up site.yaml"
    with pytest.raises(UnreachableError) as refused:
        host_keys(Target("w04", "10.77.0.14", "ops", "sudo", start=start))
    assert str(refused.value) == f"not started yet: {start}"


def test_nodes_are_of_a_kind_that_there_is() -> None:
    blueprint = Path(__file__).parents[3] / "blueprints" / "rehearsal.yaml"
    with pytest.raises(UsageError, match="'submarine' is not a kind of rehearsal") as refused:
        rehearse.up(rehearse.RehearseUpOptions(blueprint=blueprint, lab="mine", on="submarine", no_image=True))
    assert refused.value.hint == "--on takes nspawn or vm or vagrant"


def test_a_site_that_has_a_rehearsal_says_once_that_it_is_meant_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blueprint = Path(__file__).parents[3] / "blueprints" / "dgx-h100-unit.yaml"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(sites, "lab_directory", lambda name: tmp_path / "none")
    sites._say_which.cache_clear()
    sites.open_site(blueprint, None, None, None)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sites, "lab_directory", lambda name: tmp_path)
    sites._say_which.cache_clear()
    for _ in range(2):
        sites.open_site(blueprint, None, None, None)
    said = f"these are the site's own nodes; for those of their rehearsal: --lab {default_lab_name(blueprint)}\n"
    assert capsys.readouterr().err == said
