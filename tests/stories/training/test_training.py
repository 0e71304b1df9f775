"""Every way in which users train, on nodes: in all modes, saved and continued, with a killed rank, as a search."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_site import Rehearsal

pytestmark = pytest.mark.lab

SITE = Path(__file__).parent / "site.yaml"
OF_DATA = (
    "ddp",
    "ddp_accumulated",
    "ddp_bf16",
    "fsdp_zero3",
    "fsdp_zero2",
    "fsdp_hybrid",
    "fsdp_accumulated",
    "fsdp_bf16",
)
MODES = (*OF_DATA, "tensor", "fsdp_tensor", "pipeline_1f1b", "pipeline_interleaved")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    here = Rehearsal(tmp_path_factory.mktemp("training"), f"test-training-{os.getpid()}")
    try:
        yield here
    finally:
        here.cli("rehearse", "down")


@pytest.fixture(scope="module")
def verdicts(site: Rehearsal) -> dict[str, dict[str, Any]]:
    site.cli("rehearse", "up", str(SITE), "--nodes", "head,w[01-04]")
    site.cli("apply", str(SITE), "--yes", "--verify", "none")
    said = site.cli("verify", str(SITE), "--json")
    return {verdict["test"]: verdict for verdict in json.loads(said[said.index("{\n") :])["verdicts"]}


def test_every_mode_agrees_with_one_process(verdicts: dict[str, dict[str, Any]]) -> None:
    for name, modes in (("train_parallel", MODES), ("train_3d", ("pipeline_fsdp_tensor",))):
        verdict = verdicts[name]
        print(f"{name}: {verdict['seconds']} s")
        assert verdict["status"] == "passed", verdict
        whats = [assertion["what"] for assertion in verdict["assertions"]]
        assert [what for what in whats if what.endswith("gradients, 2-norm")] == [
            f"{m}: gradients, 2-norm" for m in modes
        ]
        for assertion in verdict["assertions"]:
            assert assertion["at_least"] <= assertion["error"] <= assertion["tolerance"]
        curves = [line for line in verdict["measurements"] if "loss_expected" in line]
        assert len(curves) == 6 * len(modes)
    assert (verdicts["train_parallel"]["ranks"], verdicts["train_3d"]["ranks"]) == (4, 8)


def test_a_checkpoint_of_four_ranks_continues_on_two(verdicts: dict[str, dict[str, Any]]) -> None:
    verdict = verdicts["checkpoint"]
    print(f"checkpoint: {verdict['headline']}, {[launch['seconds'] for launch in verdict['launches']]} s")
    assert [(launch["name"], launch["ranks"]) for launch in verdict["launches"]] == [("save", 4), ("load", 2)]
    assert verdict["status"] == "passed", verdict
    (saved,) = (line for line in verdict["measurements"] if "checkpoint_bytes" in line)
    assert saved["checkpoint_bytes"] > 64 << 20
    assert saved["files"] == 5  # one of each rank, and the list of what is in them


def test_a_killed_rank_costs_no_step(verdicts: dict[str, dict[str, Any]]) -> None:
    verdict = verdicts["restart"]
    print(f"restart: {verdict['headline']}")
    assert verdict["status"] == "passed", verdict
    (told,) = (line for line in verdict["measurements"] if "resume_s" in line)
    assert (told["resumed_after_step"], told["starts"]) == (6, 2)


def test_compare_says_what_the_storage_is(site: Rehearsal, verdicts: dict[str, dict[str, Any]]) -> None:
    assert verdicts
    said = site.cli("rehearse", "compare", "--full", str(SITE))
    assert "/scratch (nfs) is one folder of this machine, which all nodes share" in said


def test_a_search_loses_nothing_when_a_task_is_killed(verdicts: dict[str, dict[str, Any]]) -> None:
    verdict = verdicts["hpo_array"]
    assert verdict["status"] == "passed", verdict
    assert [(launch["name"], launch["ends"]) for launch in verdict["launches"]] == [
        ("first", "killed"),
        ("again", "done"),
    ]
    assert len(verdict["assertions"]) == 8
