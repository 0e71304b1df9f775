"""Differences between an association and what sacctmgr shows; tests/stories/accounting/test_accounting.py has more."""

import pytest

from hpcforge.kinds.associations import Association
from hpcforge.node.kinds import associations

# As `sacctmgr show association wopl` and `show qos` of 22.05 have them.
ACCOUNT = {
    **dict.fromkeys(associations._OF_ACCOUNT, ""),
    "fairshare": "10",
    "grptres": "cpu=5,mem=1.50T",
    "maxwall": "1-00:00:00",
    "qos": "high,normal",
    "parent": "root",
}
QOS = {**dict.fromkeys(associations._QOS, ""), "priority": "0", "preemptmode": "cluster"}


def changes(settings: str, there: dict[str, str], name: str = "account vision") -> str:
    return associations._words(associations._changes(Association(name, settings), there))


def test_the_same_otherwise_spelled_is_the_same() -> None:
    said = "fairshare=10 grptres=mem=1536G,cpu=5 maxwall=1-00:00:00 qos=normal,high"
    assert changes(said, ACCOUNT) == ""
    assert changes("", QOS, "qos high") == ""


def test_what_differs_is_told_and_what_is_wanted_no_more_is_taken_away() -> None:
    said = "parent=speech fairshare=3 grptres=gres/gpu=4,cpu=6 maxjobs=2"
    assert changes(said, ACCOUNT) == (
        "grptres=gres/gpu=4,cpu=6,mem=-1 maxwall=-1 fairshare=3 maxjobs=2 qos= parent=speech"
    )
    assert changes("", {**QOS, "priority": "7", "preempt": "low"}, "qos high") == "priority=0 preempt="


def test_the_default_account_of_who_has_one_alone_is_nobodys_business() -> None:
    there = {**dict.fromkeys(associations._OF_ACCOUNT, ""), "fairshare": "1", "defaultaccount": "speech"}
    assert changes("", there, "user ada account=vision") == ""
    assert changes("defaultaccount=vision", there, "user ada account=vision") == "defaultaccount=vision"


def test_a_qos_that_hpcforge_added_for_slurmctld_was_not_there_before() -> None:
    assert not associations._was_there({**QOS, "description": "hpcforge"})
    assert associations._was_there({**QOS, "description": "low"})
    assert associations._was_there(ACCOUNT)
    assert not associations._was_there(None)


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("user ada", "", "must be `qos NAME`"),
        ("user ada account=a b", "", "must be `qos NAME`"),
        ("account a;b", "", "must be `qos NAME`"),
        ("cluster a", "", "must be `qos NAME`"),
        ("account a", "users=ada", "unknown setting"),
        ("account a", "fairshare=$(id)", "unknown setting"),
        ("qos a", "fairshare=1", "unknown setting"),
    ],
)
def test_what_sacctmgr_would_take_for_something_else_is_refused(name: str, settings: str, why: str) -> None:
    assert why in str(associations.obstacle(Association(name, settings), None))
    assert associations.obstacle(Association("user ada account=a", "fairshare=1 maxwall=-1"), None) is None
