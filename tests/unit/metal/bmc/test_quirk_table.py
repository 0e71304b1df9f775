"""The table of what controllers do wrong: each row says all of it, has a fake that does it, and needs no code."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import pytest

import hpcforge.metal
from hpcforge.metal.bmc import Login
from hpcforge.metal.bmc.quirk_table import WORDS, Do, QuirkTableError, quirks, read_quirks
from hpcforge.metal.bmc.redfish import Redfish
from hpcforge.metal.bmc.verbs import Wish, carry_out
from tests.support.bmc_of_make import OF_MAKES
from tests.support.fake_bmc import PASSWORD, SYSTEM, USER, FakeBmc, Reply, serving

SUPPORT = Path(__file__).parents[3] / "support"
SHOWN_OTHERWISE = {
    "unavailable": "busy_s",
    **dict.fromkeys(OF_MAKES, "FakeBmc"),
}  # it ends after a while; test_makes.py
TEXTS = "seen: it does so\n  then: hpcforge does that\n  source: a test"


def test_each_quirk_has_a_fake_controller() -> None:
    fakes = (SUPPORT / "fake_bmc.py").read_text()
    for name, row in quirks().items():
        assert row.seen and row.then and row.source
        if row.protocol == "redfish":
            assert SHOWN_OTHERWISE.get(name, f'"{name}"') in fakes or name == "once-becomes-continuous"


def test_waits_are_of_those_that_wait() -> None:
    assert {name for name, row in quirks().items() if row.wait_s} == {
        "unavailable",
        "no-effect",
        "refused-in-post",
        "late-override",
    }


def test_each_word_has_an_effect_and_a_row() -> None:
    assert set(get_args(Do)) == set(WORDS) == {row.do for row in quirks().values()}


def test_no_code_names_a_row() -> None:
    texts = {
        node.value
        for path in Path(hpcforge.metal.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert not texts & set(quirks())


@pytest.mark.parametrize(
    ("row", "reply"),
    [
        ("do: retry-after\n  statuses: [599]\n  not_processed: [599]\n  wait_s: 5\n  every_s: 0.02", Reply(599)),
        ("do: send-etag\n  statuses: [409]", Reply(409)),
        ("do: report-value\n  properties: [BootSourceOverrideMode]\n  values: [UEFI]", None),
        ("do: use-settings\n  properties: [BootSourceOverrideMode]", None),
    ],
)
def test_a_second_row_with_a_word_is_data_alone(tmp_path: Path, row: str, reply: Reply | None) -> None:
    fake = FakeBmc(does=("settings-resource",) if "use-settings" in row else ())
    if reply is not None:  # once
        fake.replies[SYSTEM], fake.clears = reply, {SYSTEM}
    table = {**quirks(), **read_quirks(f"toy:\n  {TEXTS}\n  {row}\n", "toy.yaml")}
    if "use-settings" in row:
        del table["settings-resource"]
    with serving(tmp_path, [fake]) as at:
        machine = Redfish(Login(at.addresses[0], USER, PASSWORD, at.port, at.certificate), table)
        if "send-etag" in row:
            boot = {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}
            machine.send("PATCH", SYSTEM, {"Boot": boot}, lambda: '"7"')
            assert (fake.target, len([asked for asked in fake.asked if asked.startswith("PATCH")])) == ("Pxe", 2)
        else:
            assert carry_out(machine, Wish("boot-once"), table).boot.device == "network"
        assert "toy" in machine.quirks


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("do: dance", r"toy\.yaml:5: toy\.do: `dance` is not a word of `do`: retry-after, .*use-ipmi"),
        ("do: stop", r"toy\.yaml:1: toy: the parameters of `stop` are statuses, not none"),
        ("do: stop\n  statuses: [401]\n  wait_s: 3", "the parameters of `stop` are statuses, not statuses, wait_s"),
        ("do: stop\n  statuses: [x]", r"toy\.yaml:6: toy\.statuses: Input should be a valid integer"),
        ("do: stop\n  statuses: [401]\n  sees: it", r"toy\.yaml:7: toy\.sees: Extra inputs"),
    ],
)
def test_a_wrong_row_is_refused_with_its_line(row: str, message: str) -> None:
    with pytest.raises(QuirkTableError, match=message):
        read_quirks(f"toy:\n  {TEXTS}\n  {row}\n", "toy.yaml")


def test_a_word_without_parameters_is_of_one_row() -> None:
    rows = "".join(f"{name}:\n  {TEXTS}\n  do: choose-system\n" for name in ("a", "b"))
    with pytest.raises(QuirkTableError, match=r"toy\.yaml:6: b: another row has `do: choose-system`"):
        read_quirks(rows, "toy.yaml")
