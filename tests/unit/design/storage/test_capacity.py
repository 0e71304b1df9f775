"""What a server of files holds and carries."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.sections.hardware import Raid
from hpcforge.design.storage import capacity
from hpcforge.design.storage.capacity import grouped
from tests.unit.design.storage.test_rule_checks import loaded


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
