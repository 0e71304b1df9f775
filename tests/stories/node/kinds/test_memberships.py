"""Who is in which group, on a real node."""

import pytest

from tests.stories.node.kinds.conftest import Life


def members(life: Life, group: str) -> str:
    return life.node.shell(f"getent group {group} | cut -d: -f4").strip()


@pytest.mark.lab
def test_an_account_joins_and_leaves_and_others_stay(life: Life) -> None:
    life.node.shell("sudo gpasswd -a daemon audio")
    items = [{"name": f"{account}:audio"} for account in ("ops", "daemon", "nobody")]
    assert life.found(*items) == [{"name": f"{account}:audio", "exists": False} for account in ("ops", "nobody")]
    assert life.put(*items) == {"ops:audio": "added", "nobody:audio": "added"}
    assert members(life, "audio") == "daemon,ops,nobody"
    life.remove(*items[:2])  # nobody is taken out of the list
    assert members(life, "audio") == "daemon,ops"
    life.remove()
    assert members(life, "audio") == "daemon"  # who was in it before us


@pytest.mark.lab
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ops:nogrp", "this node has no group 'nogrp'"),
        ("ghost:audio", "this node has no account 'ghost'"),
        ("--help:audio", "ACCOUNT:GROUP"),
    ],
)
def test_who_or_what_is_not_there_is_said(life: Life, name: str, why: str) -> None:
    assert why in life.refused({"name": name})
