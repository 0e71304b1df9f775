"""Addresses that are asked for machines: what is refused before any is contacted, and what a silent one leaves."""

from __future__ import annotations

import pytest

from hpcforge.errors import UsageError
from hpcforge.run.probe import addresses, probe


def test_addresses_are_expanded_once_each() -> None:
    assert addresses(["10.0.0.[1-3]", "10.0.0.2"]) == ("10.0.0.1", "10.0.0.2", "10.0.0.3")


@pytest.mark.parametrize("text", ["gpu01", "10.0.0.[1-300]", "10.0.0.0/24", "::1", "-oProxyCommand=x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        addresses([text])


def test_too_many_addresses_are_refused() -> None:
    with pytest.raises(UsageError, match="more than 1024 addresses"):
        addresses([f"10.0.{third}.[0-255]" for third in range(5)])


def test_an_address_without_a_machine_is_named() -> None:
    found = probe(["127.77.9.1"], "ops", "sudo", lambda _: None)
    assert found.machines == []
    assert "127.77.9.1" in found.silent
