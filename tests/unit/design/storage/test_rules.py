"""What rules say of servers of files: each of `CASES` is tests/unit/design/storage/site.yaml with something else in it.

What is said is in cases/NAME.expected, and it is about the rules that the case names and no other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import render_all
from hpcforge.blueprint.sections.hardware import Raid
from hpcforge.cluster import Loaded, load
from hpcforge.cluster.design import designed, to_json
from hpcforge.design.storage import capacity
from hpcforge.design.storage.capacity import grouped
from hpcforge.design.storage.rules import RULES, markdown
from hpcforge.report.design import page as design_html
from hpcforge.report.design import text as design_text
from tests.support.in_process import hpcforge

ROOT = Path(__file__).parents[4]
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


def test_figures_by_hand(tmp_path: Path) -> None:
    """24 drives of 3,840 GB, 6.5 and 3.5 GB/s, in two groups of 10 + 2, behind 2 x 200 Gb/s and an MTU of 9,000."""
    [one, other] = loaded(tmp_path).served
    assert one.capacity_tib == pytest.approx(2 * 10 * 3_840e9 / 1_099_511_627_776) == pytest.approx(69.849, abs=5e-4)
    assert one.of_drives("read") == pytest.approx(24 * 6.5)
    assert one.of_drives("write") == pytest.approx(20 * 3.5)
    assert one.of_link == pytest.approx(50 * (9_000 - 52) / (9_000 + 38)) == pytest.approx(49.502, abs=5e-4)
    assert (one.gives("read"), one.bound("read")) == (one.of_link, "links")
    assert one.clients == 8
    assert one.each("read") == pytest.approx((one.of_link or 0) / 8)
    assert (other.capacity_tib, other.gives("write")) == (one.capacity_tib, one.gives("write"))  # they share them


def test_a_client_gets_no_more_than_its_own_links_carry(tmp_path: Path) -> None:
    """One client with one link, of a server with four."""
    fabric = "ether: {kind: ethernet, rate_gbps: 200, topology: leaf-pair, switch: sn4600, links: 2, bond: 802.3ad}"
    mine = (
        "ether: {kind: ethernet, rate_gbps: 200, topology: single-switch, switch: sn4600, links: 1, bond: 802.3ad, "
        'nodes: "head,worker", endpoints: {servers: {nodes: stor01, links: 4}}}'
    )
    changes = (
        (fabric, mine),
        ("mtu: 9000", "mtu: 9000, nodes: all"),
        ("mount: /projects", "on: w01\n    mount: /projects"),
    )
    one = loaded(tmp_path, *changes).served[0]
    assert (one.link and one.link.links, one.client_link and one.client_link.links) == (4, 1)
    assert one.each("read") == pytest.approx(25 * 8_948 / 9_038)
    assert one.gives("read") == pytest.approx(100 * 8_948 / 9_038)


def test_a_server_with_a_rate_of_its_own_is_counted_by_it(tmp_path: Path) -> None:
    """A server with 2 x 200 Gb/s in a bond, and clients with 1 x 25."""
    fabric = "ether: {kind: ethernet, rate_gbps: 200, topology: leaf-pair, switch: sn4600, links: 2, bond: 802.3ad}"
    mine = (
        "ether: {kind: ethernet, rate_gbps: 25, breakout: 4, topology: single-switch, switch: sn4600, "
        'nodes: "head,worker", endpoints: {servers: {nodes: stor01, rate_gbps: 200, links: 2, bond: 802.3ad}}}'
    )
    changes = (
        (fabric, mine),
        ("mtu: 9000", "mtu: 9000, nodes: all"),
        ("mount: /projects", "on: w01\n    mount: /projects"),
    )
    one = loaded(tmp_path, *changes).served[0]
    assert one.link and (one.link.links, one.link.rate_gbps) == (2, 200)
    assert one.client_link and (one.client_link.links, one.client_link.rate_gbps) == (1, 25)


@pytest.mark.parametrize(
    ("kind", "mtu", "tagged", "share"),
    [
        ("ethernet", None, False, 1_448 / 1_538),
        ("ethernet", 9_000, True, 8_948 / 9_042),
        ("infiniband", None, False, 1_992 / 2_082),
    ],
)
def test_what_is_left_of_a_link_for_files(kind: str, mtu: int | None, tagged: bool, share: float) -> None:
    assert capacity.payload_share(kind, mtu, tagged=tagged) == pytest.approx(share)


def test_drives_that_are_alike_form_groups_in_their_order() -> None:
    raid = Raid(data=4, parity=2)
    assert grouped((2, 24, 13), raid) == (0, 4, 2)  # two for the system, and one left over
    assert grouped((2, 24, 13), raid.model_copy(update={"groups": 5})) == (0, 4, 1)
    assert grouped((2, 24), None) == (2, 24)


def test_it_is_in_the_design(golden: Callable[[Path, str], None], tmp_path: Path) -> None:
    one_site = loaded(tmp_path, *CASES["STORAGE-002"])
    design = designed(one_site, SITE.name)
    text = design_text.summary(design)
    section = text[text.index("Storage\n") : text.index("Bill of materials")]
    golden(Path(__file__).parent / "cases" / "design.txt", section)
    [one, _] = to_json(design)["storage"]
    assert (one["needed_tib"], one["read"]["needed_gb_per_s"], one["read"]["bound"]) == (60, 49.6, "links")
    page = design_html.page(design, one_site.cables)
    assert 'id="storage"' in page
    assert "49.5 GB/s (links), 49.6 GB/s needed" in page


def test_without_a_server_nothing_of_it_is_shown(tmp_path: Path) -> None:
    text = SITE.read_text(encoding="utf-8")
    (tmp_path / SITE.name).write_text(text[: text.index("storage:\n")], encoding="utf-8")
    one = load(tmp_path / SITE.name)
    design = designed(one, SITE.name)
    assert design.storage == ()
    assert "Storage" not in design_text.summary(design)
    assert 'id="storage"' not in design_html.page(design, one.cables)


def test_what_breaks_a_rule_is_refused_and_explained(tmp_path: Path) -> None:
    path = altered(tmp_path, CASES["STORAGE-001"])
    result = hpcforge("validate", str(path))
    assert (result.returncode, "error: STORAGE-001: stor01 holds less" in result.stderr) == (3, True)
    shown = hpcforge("design", str(path), "--json")
    assert (shown.returncode, len(json.loads(shown.stdout)["storage"])) == (3, 2)
    assert "STORAGE-001 (error): a server has the required capacity" in hpcforge("explain", "storage-001").stdout


def test_the_document_lists_every_rule_and_shows_what_is_said() -> None:
    text = (ROOT / "docs" / "storage.md").read_text(encoding="utf-8")
    start, end = "<!-- rules: from hpcforge/design/storage/rules.py -->\n", "<!-- end of rules -->"
    assert text[text.index(start) + len(start) : text.index(end)] == markdown()
    result = hpcforge("design", "tests/unit/design/storage/site.yaml").stdout
    assert text[text.index("Storage\n") : text.index("...\n```")] in result


MGMT = "mgmt: {fabric: ether, cidr: 10.60.0.0/24, mtu: 9000}"
SLOW = "slow: {kind: ethernet, rate_gbps: 25, topology: leaf-pair, switch: sn2410, nodes: all}"
FILES = "files: {fabric: ether, cidr: 10.61.0.0/24, mtu: 9000}"
TWO_NETWORKS = (
    ("  ether: {kind: ethernet, ", f"  {SLOW}\n  ether: {{kind: ethernet, "),
    (MGMT, f"mgmt: {{fabric: slow, cidr: 10.60.0.0/24, boot: true}}, {FILES}"),
)
OVER_FILES = ("path: /srv/projects", "network: files\n    path: /srv/projects")


def test_numbers_are_of_the_network_over_which_it_is_served(tmp_path: Path) -> None:
    """2 x 200 Gb/s in a bond, of which `apps` has nothing: it goes over one link of 25 Gb/s."""
    projects, apps = loaded(tmp_path, *TWO_NETWORKS, OVER_FILES).served
    assert (projects.network, apps.network) == ("files", "mgmt")
    assert projects.of_link == pytest.approx(50 * 8_948 / 9_038)
    assert apps.of_link == pytest.approx(25 / 8 * 1_448 / 1_538)
    assert projects.client_link is not None and projects.client_link.fabric == "ether"


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
