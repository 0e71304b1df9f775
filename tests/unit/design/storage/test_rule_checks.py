"""What rules say of servers of files: each of `CASES` is tests/unit/design/storage/site.yaml with something else in it.

What is said is in cases/NAME.expected, and it is about the rules that the case names and no other.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import render_all
from hpcforge.cluster import Loaded, load
from hpcforge.cluster.design import designed, to_json
from hpcforge.design.storage.rules import RULES
from hpcforge.report.design import text as design_text
from hpcforge.report.html.design import design_page

SITE = Path(__file__).parent / "site.yaml"
Changes = tuple[tuple[str, str], ...]
NEEDS = "needs: {capacity_tib: 60, read_gb_per_s: 40, write_gb_per_s: 30}"
DRIVES = "nvme: 24 x samsung-pm9a3-3840"
RAID = "raid: {data: 10, parity: 2}"
OF_ONE = "kind: nfs\n    server: stor01"
OWN = "STORAGE-009"  # said of each array that the site builds, as all here that are on no volume
_NEEDS_LESS = "needs: {capacity_tib: 29, read_gb_per_s: 40, write_gb_per_s: 30}"


def _on_volume(count: int, level: int | None, raid: str = RAID) -> Changes:
    """The projects on a volume of so many drives, with what the hardware says of RAID."""
    said = f", raid: {level}" if level is not None else ""
    drives = f"drives: {count} x samsung-pm9a3-3840{said}"
    flash = f"  flash: {{kind: xfs, {drives}, mount: /flash, on: stor01, keep_after_jobs: true}}\n"
    needs = _NEEDS_LESS if count > 2 else ""
    return (
        (f"    {RAID}\n", f"    {raid}\n" if raid else ""),
        ("storage:\n  projects", f"storage:\n{flash}  projects"),
        ("path: /srv/projects", "path: /flash/projects"),
        ("path: /srv/apps", "path: /flash/apps"),
        (f"    {NEEDS}\n", f"    {needs}\n" if needs else ""),
        ("needs: {capacity_tib: 5}", f"needs: {{capacity_tib: {5 if count > 2 else 1}}}"),
    )


CASES: dict[str, Changes] = {
    "valid": (),
    "STORAGE-001": (("capacity_tib: 60", "capacity_tib: 65"),),  # with the 5 of the other: just too much
    "STORAGE-001_raw": ((f"    {RAID}\n", ""), (NEEDS, "needs: {capacity_tib: 80}")),
    "STORAGE-001_groups": ((RAID, "raid: {data: 10, parity: 2, groups: 1}"),),
    "STORAGE-002": (("read_gb_per_s: 40", "read_gb_per_s: 49.6"),),
    "STORAGE-002_one_link": ((", bond: 802.3ad", ""), (NEEDS, "needs: {read_gb_per_s: 40}")),
    "STORAGE-002_drives": ((DRIVES, "nvme: 6 x samsung-pm9a3-3840"), (RAID, "raid: {data: 4, parity: 2}"),
                           (NEEDS, "needs: {capacity_tib: 8, read_gb_per_s: 45}")),
    "STORAGE-003": ((RAID, "raid: {data: 1, parity: 1}"), (NEEDS, "needs: {write_gb_per_s: 45}")),
    "STORAGE-004": ((RAID, "raid: {data: 12, parity: 0}"),),
    "STORAGE-005": ((RAID, "raid: {data: 30, parity: 2}"),),
    "STORAGE-005_groups": ((RAID, "raid: {data: 6, parity: 2, groups: 4}"), (NEEDS, "needs: {capacity_tib: 1}")),
    "volume": _on_volume(12, 6),
    "STORAGE-004_volume": _on_volume(12, 0, raid=""),
    "STORAGE-004_one_drive": _on_volume(1, None, raid=""),
    "STORAGE-008": _on_volume(12, 0),
    "STORAGE-008_mirrors": _on_volume(2, 1),
    "STORAGE-001_volume": (*_on_volume(12, 6), (_NEEDS_LESS, "needs: {capacity_tib: 35}")),
    "STORAGE-002_volumes": (*_on_volume(12, 6), (_NEEDS_LESS, "needs: {read_gb_per_s: 40}"),
                            ("needs: {capacity_tib: 5}", "needs: {read_gb_per_s: 10}"),
                            ("path: /flash/apps", "path: /srv/apps")),
    "STORAGE-009": (),
    "unknown_groups": ((f"    {RAID}\n", ""), (NEEDS, "needs: {capacity_tib: 60, read_gb_per_s: 1}")),
    "unknown_drives": ((DRIVES, "nvme: 24 x 3.84TB"),),
    "unknown_link": (("{fabric: ether, ", "{"),),
    "unknown_server": ((f"    {DRIVES}\n", ""),),
    "unknown_external": (("server: stor01\n    path: /srv/projects", 'external: "nas:/projects"'),),
}  # fmt: skip


def altered(folder: Path, changes: Changes) -> Path:
    text = SITE.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    (folder / SITE.name).write_text(text, encoding="utf-8")
    return folder / SITE.name


def loaded(folder: Path, *changes: tuple[str, str]) -> Loaded:
    return load(altered(folder, changes), judged=False)


@pytest.mark.parametrize("name", CASES)
def test_what_rules_say(
    name: str, golden: Callable[[Path, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    altered(tmp_path, CASES[name])
    monkeypatch.chdir(tmp_path)
    one = load(Path(SITE.name), judged=False)
    said = [entry for entry in (*one.diagnostics, *one.not_checked) if "STORAGE-" in entry.message]
    broken = {entry.message.partition(":")[0] for entry in said if entry.severity != "not-checked"}
    code = name.partition("_")[0] if name[0].isupper() else None
    said = [entry for entry in said if code == OWN or not entry.message.startswith(OWN)]
    assert broken - {OWN} == {code} - {OWN, None}
    assert (OWN in broken) == any(each.raid and each.drives and not each.volume for each in one.served)
    assert bool(said) == (name not in ("valid", "volume"))
    golden(Path(__file__).parent / "cases" / f"{name}.expected", render_all(said) or "nothing\n")


def test_every_rule_has_its_case() -> None:
    assert sorted(RULES) == sorted({name.partition("_")[0] for name in CASES if name[0].isupper()})


def test_it_is_in_the_design(golden: Callable[[Path, str], None], tmp_path: Path) -> None:
    one_site = loaded(tmp_path, *CASES["STORAGE-002"])
    design = designed(one_site, SITE.name)
    text = design_text.summary(design)
    section = text[text.index("Storage\n") : text.index("Bill of materials")]
    golden(Path(__file__).parent / "cases" / "design.txt", section)
    [one, _] = to_json(design)["storage"]
    assert (one["needed_tib"], one["read"]["needed_gb_per_s"], one["read"]["bound"]) == (60, 49.6, "links")
    page = design_page(design, one_site.cables)
    assert 'id="storage"' in page
    assert "49.5 GB/s (links), 49.6 GB/s needed" in page


def test_without_a_server_nothing_of_it_is_shown(tmp_path: Path) -> None:
    text = SITE.read_text(encoding="utf-8")
    (tmp_path / SITE.name).write_text(text[: text.index("storage:\n")], encoding="utf-8")
    one = load(tmp_path / SITE.name)
    design = designed(one, SITE.name)
    assert design.storage == ()
    assert "Storage" not in design_text.summary(design)
    assert 'id="storage"' not in design_page(design, one.cables)


MGMT = "mgmt: {fabric: ether, cidr: 10.60.0.0/24, mtu: 9000}"
SLOW = "slow: {kind: ethernet, rate_gbps: 25, topology: leaf-pair, switch: sn2410, nodes: all}"
FILES = "files: {fabric: ether, cidr: 10.61.0.0/24, mtu: 9000}"
TWO_NETWORKS = (
    ("  ether: {kind: ethernet, ", f"  {SLOW}\n  ether: {{kind: ethernet, "),
    (MGMT, f"mgmt: {{fabric: slow, cidr: 10.60.0.0/24, boot: true}}, {FILES}"),
)
OVER_FILES = ("path: /srv/projects", "network: files\n    path: /srv/projects")


def rates(folder: Path, *changes: tuple[str, str]) -> list[str]:
    said = loaded(folder, *TWO_NETWORKS, OVER_FILES, *changes).diagnostics
    return [one.message for one in said if "STORAGE-002" in one.message]


def test_each_network_of_a_server_is_judged_by_itself_and_its_drives_once(tmp_path: Path) -> None:
    apps = "needs: {capacity_tib: 5}"
    much = ("read_gb_per_s: 40", "read_gb_per_s: 48")  # with that of the other more than the links of either carry
    assert rates(tmp_path, much, (apps, "needs: {read_gb_per_s: 2.9}")) == []
    (slow,) = rates(tmp_path, (apps, "needs: {read_gb_per_s: 3}"))
    assert "stor01 is read slower than `apps` needs: 3.0 GB/s > 2.9 GB/s = 1 x 25 Gb/s of slow" in slow
    few = ((DRIVES, "nvme: 6 x samsung-pm9a3-3840"), (RAID, "raid: {data: 4, parity: 2}"), ("capacity_tib: 60, ", ""))
    (drives,) = rates(tmp_path, *few, ("read_gb_per_s: 40", "read_gb_per_s: 37"), (apps, "needs: {read_gb_per_s: 2.9}"))
    assert "stor01 is read slower than `projects` and `apps` need: 39.9 GB/s > 39.0 GB/s = 1 x 6 drives" in drives
    text = design_text.summary(designed(loaded(tmp_path, *TWO_NETWORKS, OVER_FILES), SITE.name))
    assert (
        "links      2 x 200 Gb/s of ether x 0.990 payload / 8 = 49.5 GB/s\n    links      1 x 25 Gb/s of slow" in text
    )
