"""Inventory and blueprint are changed by one process at a time, and never over a change that was not read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from hpcforge.blueprint import positions
from hpcforge.cli.pin import PinOptions, pin
from hpcforge.cli.site import open_site
from hpcforge.cluster import Loaded, load
from hpcforge.errors import ChangedFileError
from hpcforge.locks import folder_lock
from hpcforge.metal import discover
from hpcforge.metal.machine_matching import Machine, MachineMatches
from hpcforge.metal.serve import record_keys, records_of, want
from hpcforge.run import trust
from hpcforge.run.site import Site, add_values, write_texts
from tests.support.fake_bmc import Serving
from tests.support.metal_site import NAMES, MetalSite, metal_site

KEY, OTHER = ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + letter * 42 + "A" for letter in "BC")


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MetalSite:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return metal_site(tmp_path, Serving(tuple(f"127.0.0.{place}" for place in range(1, 5)), 443, "a" * 64))


def opened(there: MetalSite) -> Site:
    return open_site(there.blueprint, None, None, None, needs_lab=False)


def nodes(there: MetalSite) -> dict[str, dict[str, object]]:
    return dict(yaml.safe_load(there.inventory.read_text())["nodes"])


def insert(there: MetalSite, node: str, line: str) -> None:
    """As another program or a person does it meanwhile."""
    text = there.inventory.read_text()
    assert text.count(f"  {node}:\n") == 1
    there.inventory.write_text(text.replace(f"  {node}:\n", f"  {node}:\n    {line}\n"))


def installed(site: Site, names: Sequence[str]) -> None:
    want(site, names, {}, "img", 1.0)
    for name in names:
        records_of(site).change(name, lambda now: now and replace(now, state="installed", host_keys=(KEY,)))


def at_once(works: Sequence[Callable[[], object]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_host_keys_that_are_recorded_at_once_are_all_kept(there: MetalSite) -> None:
    site = opened(there)
    installed(site, NAMES)
    at_once([lambda name=name: record_keys(site, [name]) for name in NAMES])  # type: ignore[misc]
    assert [found["host_keys"] for found in nodes(there).values()] == [[KEY]] * len(NAMES)


def test_a_host_key_is_recorded_in_the_inventory_as_it_is_by_then(there: MetalSite) -> None:
    """A change since the site was read stays; a key that was recorded meanwhile is not replaced."""
    site = opened(there)
    installed(site, NAMES)
    insert(there, "head", "note: moved in May")
    insert(there, "w1", f"host_keys: [{OTHER}]")
    text = there.inventory.read_text()
    there.inventory.write_text(text.replace("02:00:00:00:00:04", "02:00:00:00:00:77"))  # w2 is another machine
    assert record_keys(site) == ("store", "head")
    assert nodes(there)["head"]["note"] == "moved in May"
    assert nodes(there)["w1"]["host_keys"] == [OTHER] and "host_keys" not in nodes(there)["w2"]


def test_a_controller_adds_nothing_that_the_inventory_has_by_now(there: MetalSite) -> None:
    there.inventory.write_text(there.inventory.read_text().replace("    serial: SN3\n", ""))
    site = opened(there)
    insert(there, "w1", "serial: BYHAND")
    machine = Machine("127.0.0.3", serial="SN7", macs=("02:00:00:00:00:03",))
    assert discover.record(site, MachineMatches({"w1": machine}, {"w1": "mac"}, (), ())) == {}
    assert nodes(there)["w1"]["serial"] == "BYHAND"


def test_a_key_that_a_machine_shows_is_not_written_over_one_that_was_recorded_meanwhile(there: MetalSite) -> None:
    site = opened(there)
    insert(there, "w1", f"host_keys: [{OTHER}]")
    reread = trust.record(site, trust.MachineKeys({"w1": KEY, "w2": KEY}, {}))
    assert nodes(there)["w1"]["host_keys"] == [OTHER] and nodes(there)["w2"]["host_keys"] == [KEY]
    assert reread.cluster.by_name["w1"].host_keys == (OTHER,)


def test_a_file_that_changes_while_values_are_checked_is_not_written(there: MetalSite) -> None:
    loaded = load(there.blueprint)

    def values(now: Loaded) -> dict[tuple[str, str], object]:
        insert(there, "head", "note: moved in May")
        return {("w1", "host_keys"): [KEY]}

    with pytest.raises(ChangedFileError, match=r"machines\.yaml has changed since this command read it; nothing was"):
        add_values(loaded, values)
    assert nodes(there)["head"]["note"] == "moved in May" and "host_keys" not in nodes(there)["w1"]


def test_texts_are_written_only_if_every_file_is_as_it_was_read(there: MetalSite) -> None:
    loaded = load(there.blueprint)
    there.blueprint.write_text(there.blueprint.read_text() + "# checked\n")
    with pytest.raises(ChangedFileError, match=r"metal\.yaml has changed"):
        write_texts(loaded, {there.inventory: "schema: 1\n"})
    assert set(nodes(there)) == set(NAMES)


def test_positions_are_not_pinned_over_a_change(there: MetalSite, monkeypatch: pytest.MonkeyPatch) -> None:
    with_positions = positions.with_positions

    def meanwhile(*given: object) -> str:
        insert(there, "w1", "note: moved in May")
        return with_positions(*given) + "positions: {}\n"  # type: ignore[arg-type]

    monkeypatch.setattr(positions, "with_positions", meanwhile)
    with pytest.raises(ChangedFileError):
        pin(PinOptions(blueprint=there.blueprint))
    assert nodes(there)["w1"]["note"] == "moved in May"


def test_a_change_waits_for_the_one_under_way(there: MetalSite) -> None:
    loaded = load(there.blueprint)
    done = threading.Event()

    def add() -> None:
        add_values(loaded, lambda _now: {("w1", "host_keys"): [KEY]})
        done.set()

    with folder_lock(there.folder):
        adding = threading.Thread(target=add)
        adding.start()
        insert(there, "w1", "note: moved in May")
        assert not done.is_set()
    adding.join()
    assert nodes(there)["w1"]["host_keys"] == [KEY] and nodes(there)["w1"]["note"] == "moved in May"
