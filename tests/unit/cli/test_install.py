"""`--install` of plan and apply: what is shown and asked, up to where something is served."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hpcforge.cli import install as verb
from hpcforge.cli import run, signals
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.install import ended, install_nodes, planned, show, with_installs
from hpcforge.cli.options import InstallOptions
from hpcforge.cli.plan import _without_system
from hpcforge.cli.site import open_site
from hpcforge.errors import UsageError
from hpcforge.image.manifest import Disk, Lock, Manifest
from hpcforge.image.request import ImageRequest
from hpcforge.metal import arrivals
from hpcforge.metal import install as work
from hpcforge.metal.bmc.makes import Traits
from hpcforge.metal.install import Installation
from hpcforge.metal.serve import default_key
from hpcforge.plan.plan import Install
from hpcforge.report.plan_text import installs_text, plan_text
from hpcforge.run.make_plan import compare_unseen
from hpcforge.run.site import Site, goal
from tests.support.bmc_of_make import BmcOfMake
from tests.support.fake_bmc import FakeBmc, Serving, serving
from tests.support.metal_site import metal_site
from tests.support.plans import with_fields

IMAGE = Manifest(
    "img", Lock(ImageRequest("debian", "12", (), ()), "", (), 0, (), ()), (), "", 0, 0.0, "", Disk("d" * 64, 1)
)
CHOSEN = (Install("w1", "Debian 12", "img"), Install("w2", "Debian 12", "img", ("S9",)))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(verb, "image_named", lambda _name: IMAGE)
    found = metal_site(tmp_path, Serving(("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"), 443, "a" * 64))
    return open_site(found.blueprint, None, None, tmp_path / "key", needs_lab=False)


def asked(nodes: str | None = "w[1-2]", *wipe: str) -> InstallOptions:
    return InstallOptions(install=nodes, wipe=list(wipe))


def test_the_plan_says_what_is_installed_and_whose_data_goes(site: Site) -> None:
    wanted = goal(site, make=False)
    plan = compare_unseen(site, dataclasses.replace(wanted, nodes=("head", "w1", "w2")))
    text = plan_text(with_installs(plan, CHOSEN))
    assert "install  w1\n  ! switched off at once, then started from the network: Debian 12, image img\n" in text
    assert "  ! writes a blank disk; nothing is written where none is blank\n" in text
    assert "install  w2\n" in text
    assert "  ! writes the disk with serial number S9: THIS DESTROYS ITS DATA\n" in text
    assert "2 nodes to install: w[1-2]" in text


@pytest.mark.parametrize(
    ("wipes", "said"),
    [
        ((), "2 blank disks of one size (RAID 1); nothing is written where fewer are blank"),
        (("S9",), "the disk with serial number S9: THIS DESTROYS ITS DATA; and a blank one of its size (RAID 1)"),
        (("S8", "S9"), "the disks with serial numbers S8, S9: THIS DESTROYS THEIR DATA"),
    ],
)
def test_the_plan_names_each_disk_of_mirrors(wipes: tuple[str, ...], said: str) -> None:
    assert f"  ! writes {said}" in installs_text([Install("w1", "Debian 12", "img", wipes, 2)])


def test_options_that_do_not_fit_are_refused(site: Site) -> None:
    with pytest.raises(UsageError, match="belong to --install"):
        planned(site, asked(None, "w1=S1"), None, trust=False, plan_file=None)
    with pytest.raises(UsageError, match="records host keys itself"):
        planned(site, asked(), None, trust=True, plan_file=None)
    with pytest.raises(UsageError, match="nodes that answer"):
        planned(site, asked(), None, trust=False, plan_file=Path("x"))
    with pytest.raises(UsageError, match="not NODE=SERIAL"):
        planned(site, asked("w1", "w2=S1"), None, trust=False, plan_file=None)
    assert run(["plan", str(site.loaded.blueprint_path), "--offline", "--install", "w1"]) == 3


def test_nodes_that_stay_as_they_are_are_named_with_the_reason(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "choose", lambda *_: (CHOSEN[:1], {"w2": "its host key is recorded"}))
    assert planned(site, asked(), None, trust=False, plan_file=None) == CHOSEN[:1]
    assert "w2: not installed: its host key is recorded" in capsys.readouterr().err


def test_the_plan_says_which_makes_need_ipmitool_and_why(
    tmp_path: Path, site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "choose", lambda *_: (CHOSEN, {}))
    make = Traits("Supermicro", "", "Supermicro", "AS -1015CS-TNR-EU", "ASPEED", "01.02.03")
    bmcs = [FakeBmc(), FakeBmc(), BmcOfMake(traits=make), FakeBmc(does=("answers-nonsense",))]
    with serving(tmp_path, bmcs) as at:
        found = metal_site(tmp_path, at)
        here = open_site(found.blueprint, None, None, tmp_path / "key", needs_lab=False)
        installs = planned(here, asked(), None, trust=False, plan_file=None)
        assert not any(request.startswith(("PATCH", "POST")) for bmc in bmcs for request in bmc.asked)
    text = "\n".join(installs_text(installs))
    first, second = text.split("install  w2\n")
    assert "  ! Supermicro AS-1015CS-TNR (H13): where Redfish does not take a boot override, ipmitool sets it" in first
    assert "read Disabled and Legacy" in first
    assert "ipmitool" not in second  # it cannot be used, which the installation says
    (tmp_path / "metal.age").unlink()
    assert planned(here, asked(), None, trust=False, plan_file=None) == CHOSEN
    assert "management controllers were not asked: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "where", "hint"),
    [
        ('preinstalled: {driver: "535.261.03"}', "`preinstalled` installs nothing", "instead of `driver`"),
        ("", "by an image", "write `nvidia: {driver:"),
        ('nvidia: {driver: "535.261.03", modules: open}', "", ""),
    ],
)
def test_nodes_that_would_be_installed_without_a_driver_are_named(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, where: str, hint: str
) -> None:
    path = site.loaded.blueprint_path
    text = path.read_text()
    path.write_text(text.replace('{name: debian, release: "12"}', f'{{name: debian, release: "12"}}, {line}'))
    here = open_site(path, None, None, site.identity, needs_lab=False)
    assert not capsys.readouterr().err
    monkeypatch.setattr(work, "choose", lambda *_: (CHOSEN[:1], {}))
    planned(here, asked(), None, trust=False, plan_file=None)
    said = capsys.readouterr().err
    assert ("warning: w1 get no NVIDIA driver by an image" in said) is bool(where)
    assert where in said and hint in said


def serve(monkeypatch: pytest.MonkeyPatch, done: Callable[..., list[Installation]]) -> None:
    @contextmanager
    def serving(_what: Any) -> Iterator[Callable[[], None]]:
        yield lambda: None

    monkeypatch.setattr(verb, "services", SimpleNamespace(serving=serving, started=lambda _check: None))
    monkeypatch.setattr(verb, "served", lambda *_: nullcontext())
    monkeypatch.setattr(verb, "default_key", lambda _site: Path("key"))
    monkeypatch.setattr(signals, "at_once", lambda: None)
    monkeypatch.setattr(work, "choose", lambda *_: (CHOSEN, {}))
    monkeypatch.setattr(arrivals, "left_out", lambda *_: [])
    monkeypatch.setattr(arrivals, "install", done)


def installed_beside(site: Site, *, yes: bool = True, as_json: bool = False) -> Exit:
    """As apply does it, with nothing else to do."""
    installs = planned(site, asked(), None, trust=False, plan_file=None)
    with install_nodes(site, installs, lambda: site, proxy_dhcp=False, yes=yes, as_json=as_json) as found:
        assert found is not None
        code = ended(found, print, wait=True, as_json=as_json)
    if not as_json:
        show(found)
    return code


def test_a_node_that_failed_is_shown_with_its_console_and_decides_the_exit_status(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    phases = {"power": 3.0, "firmware": 14.0, "kernel": 6.0, "install": 90.0, "start": 31.0}
    done = [Installation("w1", 1, "", (), phases), Installation("w2", 2, "no \x1b disk", ("network is up",))]

    def install(*_: Any, finished: Callable[[Installation], None]) -> list[Installation]:
        for node in done:
            finished(node)
        return done

    serve(monkeypatch, install)
    assert installed_beside(site) == Exit.FAILED
    said = capsys.readouterr()
    assert "THIS DESTROYS ITS DATA" in said.out
    assert "w1    installed  1      3         14           6          90          31" in said.out
    assert "failed" in said.out and "\x1b" not in said.out
    assert "w2 | network is up" in said.out
    assert "left out of this run" in said.err
    installed_beside(site, as_json=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["event"], line["node"], line["tries"]) for line in lines] == [
        ("installed", "w1", 1),
        ("installed", "w2", 2),
    ]


def test_where_nodes_cannot_be_served_the_run_does_not_begin(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(*_: Any, **__: Any) -> list[Installation]:
        raise UsageError("the password is not set")

    serve(monkeypatch, ends)
    head = dataclasses.replace(CHOSEN[0], node=site.cluster.slurm.controller)
    monkeypatch.setattr(work, "choose", lambda *_: ((head,), {}))
    with pytest.raises(UsageError, match="the password is not set"):
        installed_beside(site)


def test_without_a_terminal_nothing_is_installed_unasked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, lambda *_, **__: pytest.fail("installed"))
    with pytest.raises(UsageError, match="needs a terminal"):
        installed_beside(site, yes=False)


def test_the_key_is_the_blueprints_or_the_operators(site: Site, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no ssh key for nodes is set") as raised:
        default_key(site)
    assert raised.value.hint == "in the inventory: `access: {key: FILE}`"  # the blueprint has no such key
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_ed25519.pub").write_text("x")
    assert default_key(site) == tmp_path / ".ssh" / "id_ed25519.pub"


def test_a_plan_names_the_silent_nodes_that_may_have_no_operating_system(site: Site) -> None:
    wanted = goal(site, make=False)
    plan = compare_unseen(site, dataclasses.replace(wanted, nodes=("head", "w1")))
    silent = with_fields(plan, unreachable=dict.fromkeys(("head", "w1"), "no route"))
    assert _without_system(site.cluster, silent) == ["head", "w1"]
    assert _without_system(site.cluster, plan) == []
