"""Rounds that isolate a bad part, with a head that measures a small cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from hpcforge.cluster.model import Cluster, FabricOf, Gpus
from hpcforge.design.fabric.build import build as build_fabric
from hpcforge.design.fabric.cabling import Labels
from hpcforge.design.fabric.spec import Ask, Model
from hpcforge.isolation.state import BadPart, FleetLine, Judgement, Part
from hpcforge.verify.head import Completed
from hpcforge.verify.isolate import names_of, without_repeats
from hpcforge.verify.submit import launch
from hpcforge.verify.verdict_records import Recorded, dump, load
from hpcforge.verify.verdicts import Verdict, summary_line
from hpcforge.verify.verify import verify
from tests.unit.verify.conftest import shipped_program
from tests.unit.verify.test_process_verdict import with_test
from tests.unit.verify.test_verify import ScriptedHead, quiet

Build = Callable[..., Cluster]
SWITCH = Model("small", 8, 8)
Rate = Callable[[str, str], float | None]


class Measuring(ScriptedHead):
    """Measures what a round asks for: `rate` of one node to another, and of a node to itself; None: no answer."""

    def __init__(self, rate: Rate, foreign: str = "", extra: dict[str, object] | None = None, gpus: int = 1) -> None:
        super().__init__()
        self.rate, self.foreign, self.rounds = rate, foreign, 0
        self.extra, self.gpus = extra, gpus  # what w3 reports too; GPUs of a node

    def run(self, argv: Sequence[str], **rest: object) -> Completed:  # type: ignore[override]
        answer = super().run(argv, **rest)  # type: ignore[arg-type]
        told = dict(word[2:].split("=", 1) for word in argv if word.startswith("--") and "=" in word)
        if "pairs" not in told:
            return answer
        self.rounds += 1
        return Completed(0, "".join(self._lines(told)), "")

    def _lines(self, told: dict[str, str]) -> list[str]:
        names = [each.partition("=")[0] for each in told["nodes"].split(",")]
        events: dict[str, list[dict[str, object]]] = {name: [] for name in names}
        for name in filter(None, told["alone"].split(",")):
            if (rate := self.rate(name, name)) is not None:
                events[name] += [{"of": {"node": name}, "gpu": gpu, "gflop_per_s": rate} for gpu in range(self.gpus)]
            if name == "w3" and self.extra:
                events[name].append({"of": {"node": name}, "gpu": 0, "gflop_per_s": rate, **self.extra})
        for pair in filter(None, told["pairs"].split(",")):
            a, b = pair.split(":")
            for direction, rate in (("out", self.rate(a, b)), ("in", self.rate(b, a))):
                if rate is not None:
                    of = {"node": a, "peer": b, "rail": 0, "direction": direction}
                    events[self.foreign or a].append({"of": of, "gb_per_s": rate})
        lines = []
        for task, name in enumerate(name for name in names for _ in range(max(2, self.gpus))):
            said = [
                {"event": "node", "host": name},
                *({"event": "measurement", **each} for each in events.pop(name, ())),
            ]
            lines += [f"{task}: {json.dumps(each)}\n" for each in [*said, {"event": "result", "backend": "gloo"}]]
        return lines


def isolated(build: Build, rate: Rate, workers: int = 6, foreign: str = "") -> tuple[Verdict, Measuring]:
    head = Measuring(rate, foreign)
    (verdict,) = verify(with_test(build(workers), shipped_program("pairs")), head, {}, quiet)
    return verdict, head


def test_healthy_nodes_pass_after_two_rounds(build: Build) -> None:
    verdict, head = isolated(build, lambda _a, _b: 1.0)
    assert (verdict.status, head.rounds) == ("passed", 2)
    assert verdict.isolation
    assert [len(each.pairs) for each in verdict.isolation.rounds] == [0, 15]
    assert "1 GB/s between two nodes" in verdict.headline
    assert head.programs().count("sbatch") == 1


def test_the_verdict_names_the_backend_on_which_derived_bandwidth_depends(build: Build) -> None:
    verdict, _ = isolated(build, lambda _source, _target: 10.0)
    assert verdict.backend == "gloo"
    assert [*shipped_program("pairs").derived] == [("gb_per_s", "point-to-point")]


def test_a_slow_node_is_named_with_number_line_and_source(build: Build) -> None:
    verdict, head = isolated(build, lambda a, b: 0.4 if a == b == "w3" else 1.0)
    assert (verdict.status, verdict.node, head.rounds) == ("missed", "w3", 4)
    assert verdict.detail.startswith(
        "node w3: 0.4 GFLOP/s, must be at least 0.95 GFLOP/s, 0.95 of the median 1 GFLOP/s"
    )
    assert verdict.next_command == "scontrol show node w3"


def test_a_node_with_a_slow_network_is_named(build: Build) -> None:
    verdict, _ = isolated(build, lambda a, b: 0.1 if a != b and "w2" in (a, b) else 1.0)
    assert (verdict.status, verdict.node) == ("missed", "w2")
    assert verdict.detail.startswith("the network of w2: 0.1 GB/s")


@pytest.mark.parametrize(("end", "words"), [(1, "only towards w2"), (0, "only from w2"), (None, "")])
def test_a_network_that_is_slow_in_one_direction_is_named_with_it(end: int | None, words: str, build: Build) -> None:
    def rate(a: str, b: str) -> float:
        slow = "w2" in (a, b) if end is None else (a, b)[end] == "w2"
        return 0.1 if a != b and slow else 1.0

    verdict, _ = isolated(build, rate)
    assert (verdict.status, verdict.node) == ("missed", "w2")
    assert ("only" in verdict.detail) == bool(words)
    assert words in verdict.detail


def test_two_nodes_that_cannot_reach_each_other_are_named(build: Build) -> None:
    verdict, _ = isolated(build, lambda a, b: None if {a, b} == {"w1", "w4"} else 1.0)
    assert (verdict.status, verdict.node) == ("failed", None)
    assert verdict.detail.startswith("the path between w1 and w4: no answer")
    assert verdict.isolation
    assert verdict.isolation.named[0].nodes == ("w1", "w4")


def found(verdict: Judgement, *parts: Part) -> BadPart:
    return BadPart(verdict, parts, 0.1, FleetLine(0.9, 1.0), 4, 0, (2, 3))


NETWORK, AGAIN = found("bad", Part("cable", 3)), found("unsteady", Part("cable", 3))
PATHS = [found("could not tell", Part("pair", *ends)) for ends in ((3, 5), (1, 3), (3, 7))]
OTHER_PATH = found("bad", Part("pair", 1, 2))


@pytest.mark.parametrize(
    ("findings", "left"),
    [
        ([*PATHS, AGAIN], [AGAIN]),  # losses: three paths each time, all others now and then
        ([NETWORK, AGAIN, *PATHS, OTHER_PATH], [NETWORK, OTHER_PATH]),
        ([NETWORK, PATHS[0]], [NETWORK, PATHS[0]]),  # a path may be at fault by itself
        (PATHS, PATHS),
        ([found("could not tell", Part("cable", 3), Part("cable", 5)), *PATHS], None),
    ],
)
def test_a_network_is_named_once_and_not_with_each_of_its_paths(
    findings: list[BadPart], left: list[BadPart] | None
) -> None:
    assert [*without_repeats(findings)] == (findings if left is None else left)


def test_where_no_pair_answers_nothing_is_named(build: Build) -> None:
    verdict, head = isolated(build, lambda a, b: 1.0 if a == b else None)
    assert (verdict.status, verdict.node, head.rounds) == ("unknown", None, 2)
    assert verdict.detail == "no pair of nodes gave an answer"


def test_of_fewer_than_five_nodes_none_can_be_told(build: Build) -> None:
    verdict, head = isolated(build, lambda _a, _b: 1.0, workers=4)
    assert (verdict.status, head.rounds) == ("not_run", 0)


def test_two_slow_nodes_blame_no_single_one(build: Build) -> None:
    verdict, _ = isolated(build, lambda a, b: 0.4 if a == b and a in ("w2", "w3") else 1.0, workers=8)
    assert (verdict.status, verdict.node) == ("missed", None)
    assert verdict.isolation
    assert sorted(each.nodes for each in verdict.isolation.named) == [("w2",), ("w3",)]


def test_a_report_on_other_nodes_is_refused(build: Build) -> None:
    verdict, _ = isolated(build, lambda _a, _b: 1.0, foreign="w6")
    assert (verdict.status, verdict.node) == ("failed", "w6")
    assert verdict.detail == "reported unrequested measurements: w6"


def test_a_verdict_with_its_rounds_is_kept(build: Build) -> None:
    verdict, _ = isolated(build, lambda a, b: 0.1 if a != b and "w2" in (a, b) else 1.0)
    cluster = with_test(build(6), shipped_program("pairs"))
    assert cluster.acceptance
    kept = Recorded().reached(cluster.acceptance.tests, [(cluster.acceptance.tests[0], verdict, True)], 1.0)
    read = load(dump(kept))
    assert not read.problem
    assert read.kept[0].verdict.isolation == verdict.isolation


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_summary(build: Build, rate: float) -> None:
    verdict, _ = isolated(build, lambda a, b: rate if "w2" in (a, b) and a != b else 1.0)
    assert summary_line(verdict).startswith("pairs  passed" if rate == 1.0 else "pairs  missed  w2: the network of w2")


@pytest.mark.parametrize(
    "extra",
    [{"gpu": 8}, {"gpu": -1}, {"gpu": 10**9}, {"gpu": 0.5}, {"gflop_per_s": -1.0}, {"gflop_per_s": 1e299}],
    ids=str,
)
def test_a_node_that_reports_what_cannot_be_is_named_and_no_other(build: Build, extra: dict[str, object]) -> None:
    head = Measuring(lambda _a, _b: 1.0, extra=extra, gpus=8)
    cluster = with_test(build(6, gpus=Gpus("h100-sxm", 8), cores=16, memory_mib=1 << 18), shipped_program("pairs"))
    (verdict,) = verify(cluster, head, {}, quiet)
    assert (verdict.status, verdict.node) == ("failed", "w3")
    assert verdict.detail == "reported unrequested measurements: w3"


@pytest.mark.parametrize("rate", [-1.0, 1e299])
def test_the_first_of_a_pair_is_named_for_a_rate_that_cannot_be(build: Build, rate: float) -> None:
    verdict, _ = isolated(build, lambda a, b: rate if (a, b) == ("w2", "w4") else 1.0)
    assert (verdict.status, verdict.node) == ("failed", "w2")


def test_a_node_is_compared_by_its_own_gpus(build: Build) -> None:
    class Short(Measuring):
        def _lines(self, told: dict[str, str]) -> list[str]:
            return [each for each in super()._lines(told) if not ('"node": "w3"' in each and '"gpu": 7' in each)]

    cluster = with_test(build(6, gpus=Gpus("h100-sxm", 8), cores=16, memory_mib=1 << 18), shipped_program("pairs"))
    (verdict,) = verify(cluster, Short(lambda _a, _b: 1.0, gpus=8), {}, quiet)
    assert verdict.isolation
    assert [(each.part, each.nodes) for each in verdict.isolation.named] == [("GPU 7 of w3", ("w3",))]


@pytest.mark.parametrize("carrier", ["lan", "fast", None])
def test_parts_have_the_names_of_the_fabric_that_the_launch_uses(build: Build, carrier: str | None) -> None:
    cluster = build(2)
    assert cluster.acceptance
    plans = [
        Labels(made, [None] * len(made.devices))
        for name in ("lan", "fast")
        for made in [build_fabric(Ask(name, "roce", "single-switch", 100.0, 100.0, ("w1", "w2"), SWITCH, SWITCH))]
    ]
    job = launch(cluster, cluster.acceptance.tests, ("w1", "w2"))
    used = FabricOf(carrier, "roce", 100.0, 1, False) if carrier else None
    names = names_of(replace(job, fabric=used), plans)
    assert (names.labels.fabric.name if names.labels else None) == carrier


def test_without_a_plan_a_slow_link_of_the_last_gpu_is_named(build: Build) -> None:
    class EachRail(Measuring):
        def _lines(self, told: dict[str, str]) -> list[str]:
            return [line for each in super()._lines(told) for line in self._of_rails(each)]

        def _of_rails(self, line: str) -> list[str]:
            task, _, text = line.partition(": ")
            event = json.loads(text)
            if "peer" not in event.get("of", {}):
                return [line]
            ends = (event["of"]["node"], event["of"]["peer"])
            return [
                f"{task}: {json.dumps({**event, 'of': {**event['of'], 'rail': rail}, 'gb_per_s': rate})}\n"
                for rail in range(8)
                for rate in (40.0 if rail == 7 and "w2" in ends else 80.0,)
            ]

    cluster = with_test(build(6, gpus=Gpus("h100-sxm", 8), cores=16, memory_mib=1 << 18), shipped_program("pairs"))
    (verdict,) = verify(cluster, EachRail(lambda _a, _b: 80.0, gpus=8), {}, quiet)
    assert verdict.isolation
    assert [(each.part, each.nodes) for each in verdict.isolation.named] == [("the network of w2, rail 8", ("w2",))]
