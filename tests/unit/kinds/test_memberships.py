"""Members of groups in a plan."""

from __future__ import annotations

from hpcforge.kinds.memberships import Membership


def test_account_and_group_are_the_parts_of_a_name() -> None:
    assert Membership("prometheus:slurm").line({"exists": False}) == "+ prometheus in group slurm"
    assert (Membership.removal_line("a:b") or "").startswith("a removed from group b, ")
