"""Smoke tests of a blueprint: their nodes, times and user."""

from __future__ import annotations

from typing import get_args

import pytest

from hpcforge import bundled
from hpcforge.blueprint.node_sets import named
from hpcforge.blueprint.sections.acceptance import (
    SmokeTestSection,
    acceptance_findings,
    acceptance_model,
    asked_min,
    sets_of,
    time_limit_s,
)
from hpcforge.blueprint.smoke_tests import load_smoke_tests
from tests.unit.blueprint.drafts import draft, errors, places

WORKERS = ("w01", "w02", "w03", "w04")
WORDS = named(["head", *WORKERS], WORKERS, partition={"main": WORKERS, "fast": ("w01",)})
MAIN = {"main": (WORKERS, "01:00:00")}
TEST = "tests: {allreduce: {nodes: all}}"


@pytest.mark.parametrize(("limit_s", "minutes"), [(0, 1), (60, 2), (61, 3), (120, 3)])
def test_a_job_is_given_a_minute_more_than_its_tests(limit_s: float, minutes: int) -> None:
    assert asked_min(limit_s) == minutes


def test_a_time_limit_is_the_blueprints_or_the_tests_own() -> None:
    section = draft(("{nodes: all}}}", "{nodes: all, time_limit: 2min}}}")).sections["acceptance"]
    spec = section.tests.folders["allreduce"].spec
    assert time_limit_s(section.tests.by_name()["allreduce"], spec) == 120
    own = draft().sections["acceptance"].tests.by_name()["allreduce"]
    assert time_limit_s(own, spec) == time_limit_s(SmokeTestSection(nodes=("all",), time_limit=spec.time_limit), spec)


@pytest.mark.parametrize(
    ("nodes", "sets"),
    [
        (("all",), (WORKERS,)),
        (("w01", "w[02-03]", "w01"), (("w01",), ("w02", "w03"))),
        (("each partition",), (WORKERS, ("w01",))),
    ],
)
def test_each_set_of_nodes_has_a_launch(nodes: tuple[str, ...], sets: tuple[tuple[str, ...], ...]) -> None:
    assert sets_of(SmokeTestSection(nodes=nodes), WORDS, [WORKERS, ("w01",), WORKERS]) == sets


@pytest.mark.parametrize(
    ("tests", "wrong"),
    [
        ("allreduce: {nodes: all}", []),
        ("allreduce: {nodes: head}", ["nodes"]),
        ("allreduce: {nodes: nosuch}", ["nodes"]),
        ("allreduce: {nodes: [all, nosuch]}", ["nodes.1"]),
        ("allreduce: {nodes: [all, each partition]}", ["nodes"]),
        ("allreduce: {nodes: all, time_limit: 59min}", []),
        ("allreduce: {nodes: all, time_limit: 60min}", ["nodes"]),
    ],
)
def test_a_test_that_could_never_run_is_an_error(tests: str, wrong: list[str]) -> None:
    blueprint = draft((TEST, f"tests: {{{tests}}}"))
    findings = acceptance_findings(blueprint, WORDS, WORKERS, MAIN)
    assert places(findings) == errors(*(f"acceptance.tests.allreduce.{place}" for place in wrong))


def test_nodes_of_a_set_are_in_one_partition() -> None:
    halves = {"one": (WORKERS[:2], "infinite"), "two": (WORKERS[2:], "infinite")}
    blueprint = draft()
    assert places(acceptance_findings(blueprint, WORDS, WORKERS, halves)) == errors("acceptance.tests.allreduce.nodes")
    assert places(acceptance_findings(blueprint, WORDS, WORKERS, {**halves, **MAIN})) == []
    assert places(acceptance_findings(blueprint, None, WORKERS, halves)) == []  # nodes are in doubt


def test_a_test_of_five_nodes_never_runs_on_four() -> None:
    five = tuple(f"w{number:02}" for number in range(1, 6))
    blueprint = draft((TEST, "tests: {pairs: {nodes: all}}"))
    for workers, wrong in ((five, []), (five[:4], errors("acceptance.tests.pairs.nodes"))):
        words = named(["head", *workers], workers)
        findings = acceptance_findings(blueprint, words, workers, {"main": (workers, "infinite")})
        assert places(findings) == wrong


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ((("run_as: ada", "run_as: eve"),), errors("acceptance.run_as")),
        ((("uid: 2001", "uid: 2001, admin: true"),), errors("acceptance.run_as")),
        ((("user: ops", "user: ada"),), errors("acceptance.run_as")),
        ((("uid: 2001", "uid: 2001, expires: 2030-01-01"),), errors("users.ada.expires")),
        (((TEST, "tests: {}"),), errors("acceptance.tests")),
    ],
)
def test_the_user_of_the_tests_is_an_ordinary_one(
    changes: tuple[tuple[str, str], ...], wrong: list[tuple[str, str]]
) -> None:
    assert places(acceptance_findings(draft(*changes), WORDS, WORKERS, MAIN)) == wrong


def test_options_are_those_of_the_test() -> None:
    for option, intact in (("seconds: 2", True), ("nosuch: 2", False)):
        blueprint = draft((TEST, f"tests: {{pairs: {{nodes: all, options: {{{option}}}}}}}"))
        assert blueprint.intact("acceptance", "tests", "pairs") is intact


def test_only_tests_that_a_blueprint_names_have_models_of_their_own() -> None:
    tests = load_smoke_tests(bundled.smoke_tests())
    made = acceptance_model(tests, {"pairs"}).model_fields["tests"].annotation
    assert made is not None
    kinds = {name: get_args(field.annotation)[0] for name, field in made.model_fields.items()}
    assert kinds.keys() == tests.keys()
    assert [name for name, kind in kinds.items() if kind is not SmokeTestSection] == ["pairs"]
