"""Passwords of controllers: a wrong line never means the common one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.cluster import load
from hpcforge.cluster.model import Node
from hpcforge.metal.bmc_passwords import read_passwords
from hpcforge.secrets.secrets import SecretsError

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def nodes() -> tuple[Node, ...]:
    return tuple(load(ROOT / "blueprints" / "air-cooled-16.yaml", None).cluster.nodes)


def read(lines: bytes, nodes: tuple[Node, ...]) -> dict[str, str]:
    return read_passwords({"bmc_password": b"common", "bmc_passwords": lines}, nodes)[1]


def test_lines_are_of_nodes_or_addresses(nodes: tuple[Node, ...]) -> None:
    assert read_passwords({}, nodes) == ("", {})
    text = b"\ng01 two words \r\n10.51.0.10   its-own\n10.9.9.9 strange\n"
    assert read(text, nodes) == {"g01": "two words", nodes[0].name: "its-own", "10.9.9.9": "strange"}


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (b"g01 s3cret\ng02\ts3cret\n", "line 2: a tab"),
        (b"g01 s3cret\n\ng99 s3cret\n", "line 3: its first word is neither a node"),
        (b"s3cret\n", "line 1: no password after the node"),
        (b"g01 \n", "line 1: no password after the node"),
        (b"g01 s3cret\ng01 s3cret\n", "line 2: an earlier line is for the same"),
        (b"10.51.0.10 s3cret\nhead01 s3cret\n", "line 2: an earlier line is for the same"),
        (b"g[01-02] s3cret\n", "line 1: its first word"),
        (b"g01 s3cret\xff\n", "not UTF-8"),
        (b"g01 s3cret\x00\n", "line 1: a tab or another"),
    ],
)
def test_a_wrong_line_is_refused_by_its_number(lines: bytes, why: str, nodes: tuple[Node, ...]) -> None:
    with pytest.raises(SecretsError, match=why) as raised:
        read(lines, nodes)
    assert "s3cret" not in raised.value.shown()
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("password", [b"s3cret\n", b"s3cret\r", b"two\nlines", b"s3cret\xff"])
def test_a_common_password_that_cannot_be_typed_is_refused(password: bytes, nodes: tuple[Node, ...]) -> None:
    with pytest.raises(SecretsError, match="bmc_password: ") as raised:
        read_passwords({"bmc_password": password}, nodes)
    assert "s3cret" not in raised.value.shown()
