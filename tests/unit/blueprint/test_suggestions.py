"""Guesses at invalid values: text that may be copied, a whole hint, or none."""

from __future__ import annotations

from typing import Any

import pytest

from hpcforge.blueprint import suggestions


@pytest.mark.parametrize(
    ("guess", "text", "right"),
    [
        (suggestions.whole, "010", "10"),
        (suggestions.whole, "1,024", "1024"),
        (suggestions.whole, "0x7d1", "2001"),
        (suggestions.whole, "4.0", "4"),
        (suggestions.whole, "2TB", None),
        (suggestions.whole, "1.5", None),
        (suggestions.number, "1,35", "1.35"),
        (suggestions.number, "80 %", "0.8"),
        (suggestions.number, ".8", "0.8"),
        (suggestions.duration, "10m", "10min"),
        (suggestions.duration, "90", "90s"),
        (suggestions.duration, "2 hours", "2h"),
        (suggestions.duration, "00:10:00", "10min"),
        (suggestions.duration, "1 fortnight", None),
        (suggestions.time_limit, "48:00:00", "2-00:00:00"),
        (suggestions.time_limit, "90", "01:30:00"),
        (suggestions.time_limit, "UNLIMITED", "infinite"),
        (suggestions.counted, "8x400G", "8 x 400G"),
        (suggestions.mac, "3C-EC-EF-12-34-56", "3c:ec:ef:12:34:56"),
        (suggestions.camel_case, "tree_width", "TreeWidth"),
        (suggestions.name, "My Cluster,", "my-cluster"),
        (suggestions.pairs, "gres/gpu=2", "{gpu: 2}"),
        (suggestions.pairs, "cpu=16,gres/gpu=2, node = 1", "{cpu: 16, gpu: 2, node: 1}"),
        (suggestions.pairs, "gpu:2", None),
        (suggestions.pairs, "cpu=16,2", None),
    ],
)
def test_what_was_meant(guess: Any, text: str, right: str | None) -> None:
    assert guess(text) == right


@pytest.mark.parametrize(
    ("key", "text", "number"),
    [
        ("interval_s", "30m", "1800: interval_s is in seconds"),
        ("interval_s", "1h", "3600: interval_s is in seconds"),
        ("interval_min", "90 s", None),
        ("keep_days", "48 hours", "2: keep_days is in days"),
        ("repeat_h", "1d", "24: repeat_h is in hours"),
        ("cores", "30m", None),
        ("interval_s", "soon", None),
    ],
)
def test_a_time_is_written_in_the_unit_of_its_key(key: str, text: str, number: str | None) -> None:
    assert suggestions.in_unit(key, text) == number


@pytest.mark.parametrize(
    ("guess", "text", "right"),
    [
        (suggestions.joined, " rack a  1;", "rack-a-1"),
        (suggestions.mail_address, "Ops <ops@example.org>", "ops@example.org"),
        (suggestions.mail_address, "mailto:ops@example.org,", "ops@example.org"),
        (suggestions.url, "hooks.example.org/x", "https://hooks.example.org/x"),
        (suggestions.url, "ftp://hooks.example.org", None),
        (suggestions.guid, "B83F:D203:004A:1C80", "0xb83fd203004a1c80"),
        (suggestions.guid, "0xb83fd203004a1c80", "0xb83fd203004a1c80"),
        (suggestions.camel_case, "TreeWidth", None),
        (suggestions.counted, "0 x 400G", None),
        (suggestions.whole, "000", "0"),
        (suggestions.whole, "0b101", "5"),
        (suggestions.whole, "1" * 101, None),
        (suggestions.duration, "0s", None),
        (suggestions.time_limit, "1-00:00:01", "1-00:00:01"),
    ],
)
def test_guesses_by_kind(guess: Any, text: str, right: str | None) -> None:
    assert guess(text) == right


@pytest.mark.parametrize(
    ("hint", "text", "right"),
    [
        (suggestions.address, "10.20.0.11/22", "without the length of the prefix: 10.20.0.11"),
        (suggestions.address, "10.20.0.11-14", "did you mean `10.20.0.[11-14]`?"),
        (suggestions.address, "10.20.0.11-10.20.0.14", "did you mean `10.20.0.[11-14]`?"),
        (suggestions.address, "10.20.0.11-10.20.1.14", "four numbers from 0 to 255, for example 10.20.0.11"),
        (suggestions.address, "fd00::1", "IPv4 only, for example 10.20.0.11"),
        (suggestions.subnet, "10.20.1.5/22", "did you mean `10.20.0.0/22`?"),
        (suggestions.subnet, "10.20.0.0", "say how long its prefix is, for example 10.20.0.0/24"),
        (suggestions.subnet, "10.0.0.0/7", "for example 10.20.0.0/22"),
        (suggestions.subnet, "ten", "for example 10.20.0.0/22"),
    ],
)
def test_hints_of_addresses_and_subnets(hint: Any, text: str, right: str) -> None:
    assert hint(text) == right
