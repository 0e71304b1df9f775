"""What the head keeps of measurements: bounded, and never believed."""

from __future__ import annotations

import json

import pytest

from hpcforge.verify.baselines import (
    MOST_BASELINES,
    MOST_RUNS,
    PastVerification,
    SavedTest,
    Verifications,
    difference,
    dump,
    load,
)

SOFTWARE = {"kernel": "6.1", "torch": "2.13"}


def one(value: float, **software: str) -> dict[str, SavedTest]:
    return {"copy": SavedTest({**SOFTWARE, **software}, {"rate": {"w1": [value]}})}


def test_the_median_of_the_last_five_counts() -> None:
    kept = Verifications()
    for value in (1000, 1, 2, 3, 4, 90):
        kept = kept.saved("quiet", 1.0, one(value))
    again = load(dump(kept))
    found = again.baseline("quiet")
    assert found and found.tests["copy"].medians() == {"rate": {"w1": 3}}
    assert again.problem is None


def test_other_software_begins_from_the_start() -> None:
    kept = Verifications().saved("quiet", 1.0, one(1)).saved("quiet", 2.0, one(5, kernel="6.2"))
    found = kept.baseline("quiet")
    assert found and found.tests["copy"].values == {"rate": {"w1": [5]}}
    assert difference(SOFTWARE, {**SOFTWARE, "kernel": "6.0"}) == "kernel 6.1, the baseline has 6.0"
    assert difference(SOFTWARE, SOFTWARE) == ""


def test_usual_rates_are_of_one_software_and_of_the_last_five_runs() -> None:
    kept = Verifications()
    for value in (1, 2, 3, 4, 5, 6):
        kept = load(dump(kept.with_usual(one(value))))
    assert kept.usual["copy"].values == {"rate": {"w1": [2, 3, 4, 5, 6]}}
    assert kept.with_usual(one(9, kernel="6.2")).usual["copy"].values == {"rate": {"w1": [9]}}
    damaged = dump(kept).replace("[2.0,", "[NaN,")
    assert load(damaged).problem == "damaged: a value is not finite"
    assert load('{"schema_version": 1, "baselines": [], "runs": []}').usual == {}  # as it was written before


def test_all_of_it_is_bounded() -> None:
    kept = Verifications()
    for number in range(60):
        kept = kept.saved(f"b{number}", 1.0, one(1)).with_run(PastVerification(1.0, "ada", {"copy": "passed"}))
    assert (len(kept.baselines), len(kept.runs)) == (MOST_BASELINES, MOST_RUNS)
    assert kept.baselines[-1].name == "b59"
    large = {"copy": SavedTest(SOFTWARE, {"rate": {f"w{number}": [1.0 / 3] for number in range(100_000)}})}
    text = dump(Verifications().saved("old", 1.0, large).saved("new", 2.0, large))
    assert len(text) <= 4 * 2**20
    assert [baseline.name for baseline in load(text).baselines] == ["new"]
    assert len(dump(Verifications().with_usual(large | {"other": large["copy"]}))) <= 4 * 2**20


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"schema_version": 9}', '{"schema_version": 1, "baselines": 3, "runs": []}', "[" * 100_000],
)
def test_damaged_text_gives_a_problem(text: str) -> None:
    assert load(text).problem


def test_numbers_that_are_not_finite_are_damage() -> None:
    document = json.loads(dump(Verifications().saved("quiet", 1.0, one(1))))
    document["baselines"][0]["tests"]["copy"]["values"]["rate"]["w1"] = [1e999]
    assert load(json.dumps(document)).problem == "damaged: a value is not finite"
    assert load(None) == Verifications()


def test_nodes_that_a_later_save_did_not_measure_stay() -> None:
    kept = Verifications().saved("quiet", 1.0, one(1))
    later = {"copy": SavedTest(SOFTWARE, {"rate": {"w2": [7]}})}
    found = kept.saved("quiet", 2.0, later).baseline("quiet")
    assert found and found.tests["copy"].medians() == {"rate": {"w1": 1, "w2": 7}}
