"""What the head keeps of verdicts, and what a change takes from it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hpcforge.cluster.model import Acceptance, SmokeTest
from hpcforge.run.smoke_tests import chosen
from hpcforge.verify.verdict_records import KeptVerdicts, Recorded, dump, load
from hpcforge.verify.verdicts import Assertion, Verdict
from tests.support.three_nodes import CLUSTER
from tests.unit.verify.test_verdicts import FAILED, PASSED, TRAINED

THREE = SmokeTest("allreduce", ("w01", "w02", "w03"), 600)
RECORD = Recorded().reached([THREE], [(THREE, PASSED, True)], 1000.5)
PAIR = replace(PASSED, nodes=("w01", "w02"), ranks=4)


def stands_for(recorded: Recorded) -> tuple[str, ...]:
    [kept] = recorded.kept
    return kept.stands_for


def test_what_was_dumped_is_loaded() -> None:
    one = replace(RECORD.kept[0], part=FAILED, part_s=1001.0)
    recorded = Recorded((one, KeptVerdicts(TRAINED, 3.0, ("g1",)), KeptVerdicts(FAILED, 4.0, (), served=False)))
    assert load(dump(recorded)) == recorded
    assert load(None) == Recorded()


def test_options_are_kept_with_the_verdict_and_others_are_not_what_was_tested() -> None:
    passed = replace(PASSED, options={"sizes_kib": "4,1024"})
    recorded = load(dump(Recorded().reached([THREE], [(THREE, passed, True)], 1000.5)))
    assert recorded.kept[0].verdict.options == {"sizes_kib": "4,1024"}
    asked = replace(THREE, options=(("sizes_kib", "4,1024"),))
    acceptance = Acceptance("tests", (asked,))
    assert chosen(replace(CLUSTER, acceptance=acceptance), recorded, "touched", (), {}).runs == ()
    silent = replace(CLUSTER, acceptance=Acceptance("tests", (THREE,)))
    (run,) = chosen(silent, recorded, "touched", (), {}).runs
    assert (run.why, run.whole) == ("other options", True)


def test_a_change_takes_its_nodes_out_and_a_pass_brings_them_back() -> None:
    changed = RECORD.changed({"w02", "w09"}, served=False)
    assert stands_for(changed) == ("w01", "w03")
    assert changed.kept[0].changed == ("w02",)
    again = changed.reached([THREE], [(THREE, PAIR, False)], 2000.0)
    assert set(stands_for(again)) == set(THREE.nodes)
    [kept] = again.changed({"w02"}, served=True).kept
    assert kept.changed == ("w02",)
    [kept] = again.kept
    assert (kept.verdict, kept.time_s, kept.last, kept.last_s, kept.served) == (PASSED, 1000.5, PAIR, 2000.0, True)


def test_a_part_that_fails_leaves_nothing_standing_and_a_wait_changes_nothing() -> None:
    changed = RECORD.changed({"w02"}, served=True)
    assert stands_for(changed.reached([THREE], [(THREE, replace(FAILED, left_out={}), False)], 1.0)) == ()
    waits = Verdict("allreduce", "pending", ("w01", "w02"), waits_for=("job 7, ada's train on w02",))
    assert changed.reached([THREE], [(THREE, waits, False)], 1.0) == changed
    stuck = replace(waits, waits_for=())
    assert changed.reached([THREE], [(THREE, stuck, False)], 1.0).kept[0].last == stuck


def test_a_set_that_grows_or_shrinks_is_the_same_and_another_test_is_not() -> None:
    grown = replace(THREE, nodes=(*THREE.nodes, "w04"))
    assert RECORD.of(grown) == RECORD.of(replace(THREE, nodes=("w01",))) == RECORD.kept[0]
    assert RECORD.of(replace(THREE, name="train_ddp")) is None
    assert RECORD.of(replace(THREE, nodes=("x1",))) is None
    again = RECORD.reached([grown], [(grown, replace(PAIR, nodes=("w01", "w04")), False)], 2.0)
    assert set(stands_for(again)) == set(grown.nodes)


def test_sets_are_kept_apart_and_those_that_are_no_more_are_dropped() -> None:
    sets = [SmokeTest("allreduce", (name,), 600) for name in ("a", "b")]
    recorded = RECORD.reached(sets, [(one, replace(PASSED, nodes=one.nodes), True) for one in sets], 5.0)
    assert [kept.stands_for for kept in recorded.kept] == [("a",), ("b",)]
    assert [kept.stands_for for kept in recorded.changed({"b"}, served=True).kept] == [("a",), ()]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"schema_version": 2}',
        '{"schema_version": 2, "kept": [{"verdict": {}, "time_s": "x", "stands_for": ""}]}',
        '{"schema_version": 2, "kept": [{"verdict": {"test": "allreduce"}, "time_s": 1, "stands_for": ""}]}',
        '{"schema_version": 2, "kept": [{"verdict": {"test": "a", "status": "passed", "nodes": []}, "time_s": 1,'
        ' "stands_for": "w[2-1]"}]}',
        "\x00\x01",
        "[" * 100_000,
    ],
)
def test_damaged_text_is_said_to_be_damaged(text: str) -> None:
    recorded = load(text)
    assert recorded.kept == ()
    assert recorded.problem
    assert recorded.problem.startswith("damaged")


def test_another_version_is_told() -> None:
    text = json.dumps({"schema_version": 1, "time_s": 1, "verdicts": []})
    assert load(text).problem == "written by another version of hpcforge (schema 1)"


def test_every_cut_of_a_record_is_noticed() -> None:
    text = dump(RECORD)
    assert all(load(text[:length]).problem for length in range(0, len(text.rstrip()), 7))


def test_what_was_compared_is_kept_and_a_damaged_number_is_found() -> None:
    held = Assertion("ddp: loss", 4.0, 4.0, 1e-7, 1e-5, 1e-9, 1, "w1")
    recorded = Recorded((replace(RECORD.kept[0], verdict=replace(PASSED, assertions=(held,))),))
    assert load(dump(recorded)) == recorded
    assert load(dump(recorded).replace("1e-07", "1e999")).problem == "damaged: a number of an assertion is not finite"


def test_numbers_of_thousands_of_ranks_do_not_cost_the_verdicts() -> None:
    row = {"host": "w1", "gflop_per_s": 1.5, "checksum": "0" * 64}
    many = replace(RECORD.kept[0], verdict=replace(PASSED, measurements=(row,) * 40_000))
    text = dump(Recorded((many,)))
    assert len(text) < 4 * 2**20
    [kept] = load(text).kept
    assert (kept.verdict.status, kept.stands_for, kept.verdict.measurements) == ("passed", many.stands_for, ())
