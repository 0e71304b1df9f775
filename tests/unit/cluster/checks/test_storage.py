"""File systems against the kinds of the catalog."""

from __future__ import annotations

import pytest

from hpcforge.cluster.checks.storage import storage_kind_findings
from hpcforge.cluster.load.loaded import catalog_of
from tests.unit.blueprint.drafts import SMALL, draft, errors, places

DRIVE = "samsung-pm9a3-3840"
HARDWARE = f"hardware: {{ours: {{like: generic-1u, nvme: 8 x {DRIVE}}}}}\n"


def wrong(system: str, text: str = SMALL) -> list[tuple[str, str]]:
    blueprint = draft(text=f"{text}storage: {{s: {{{system}}}}}\n")
    return places(storage_kind_findings(blueprint, catalog_of(blueprint)))


@pytest.mark.parametrize(
    ("system", "keys"),
    [
        ('kind: nfs, external: "nas:/p", mount: /p', []),
        ("kind: nfs, server: head, path: /srv/p, mount: /p", []),
        ('kind: nfs, external: "nas", mount: /p', ["external"]),
        ('kind: lustre, external: "10.20.2.9@tcp:/proj", mount: /p', []),
        ("kind: lustre, server: head, path: /srv/p, mount: /p", ["server"]),  # no role serves it
        ('kind: glusterfs, external: "nas:/p", mount: /p', ["kind"]),
        ('kind: xfs, external: "nas:/p", mount: /p', ["external"]),
        (f'kind: nfs, external: "nas:/p", drives: 8 x {DRIVE}, mount: /p', ["drives"]),
    ],
)
def test_a_kind_has_addresses_and_places_of_its_own(system: str, keys: list[str]) -> None:
    text = HARDWARE + SMALL.replace("hardware: rehearsal-node", "hardware: ours")
    assert wrong(system, text) == errors(*(f"storage.s.{key}" for key in keys))


@pytest.mark.parametrize(
    ("options", "places_"),
    [
        ("[ro, nconnect=8]", []),
        ("[soft]", ["options.0"]),  # not safe
        ("[ro, suid]", ["options.1"]),
        ("[_netdev]", ["options.0"]),  # hpcforge's own
        ("[x-systemd.automount]", ["options.0"]),
        ("[nconnect=8, nconnect=4]", ["options.1"]),
        ("[ro, ro]", ["options.1"]),
    ],
)
def test_options_are_safe_and_a_sites_own(options: str, places_: list[str]) -> None:
    system = f'kind: nfs, external: "nas:/p", mount: /p, options: {options}'
    assert wrong(system) == errors(*(f"storage.s.{place}" for place in places_))


@pytest.mark.parametrize(
    ("drives", "right"),
    [(f"8 x {DRIVE}", True), (f"2 x {DRIVE}", True), (f"9 x {DRIVE}", False), ("2 x 3.84TB", False)],
)
def test_drives_are_those_of_the_hardware(drives: str, right: bool) -> None:
    text = HARDWARE + SMALL.replace("hardware: rehearsal-node", "hardware: ours")
    assert wrong(f"kind: xfs, drives: {drives}, mount: /p", text) == errors(*["storage.s.drives"] * (not right))


def test_containers_have_no_drives() -> None:
    text = HARDWARE + SMALL.replace("hardware: rehearsal-node", "hardware: ours") + "inventory: {lab: nspawn}\n"
    assert wrong(f"kind: xfs, drives: 2 x {DRIVE}, mount: /p", text) == errors("storage.s.drives")
