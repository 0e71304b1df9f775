"""Numbers that rank 0 reports for each rank, and texts that like nodes must have alike."""

from __future__ import annotations

from hpcforge.cluster.model import Measure, SmokeTestProgram, Threshold
from hpcforge.verify.measurements import headline, missed, numbers, uneven, unreported

RATES = SmokeTestProgram(
    launcher="torchrun",
    measures=(Measure("tflops", "TFLOPS", "higher", per="rank"), Measure("repeats", "1")),
    headline="{tflops} TFLOPS, least {tflops:worst} on {tflops:worst_node}",
    lines=(Threshold("tflops", "at_least_of_median", 0.9),),
)
TEXTS = SmokeTestProgram(launcher="plain", measures=(Measure("kernel", "1", shown="text"),))


def rate(host: str, rank: int, tflops: float) -> dict[str, float | int | str]:
    return {"host": host, "rank": rank, "tflops": tflops}


def test_a_limit_of_each_rank_names_the_node() -> None:
    said = [rate("w1", 0, 10.0), rate("w1", 1, 9.9), rate("w2", 2, 10.1), rate("w2", 3, 8.0), rate("w3", 4, 10.0)]
    of = numbers(RATES, [*said, {"host": "w1", "repeats": 3}])
    assert of == {"tflops": {"w1": 9.9, "w2": 8.0, "w3": 10.0}, "repeats": {"": 3.0}}
    short = missed(RATES, of)
    assert short is not None
    assert short.node == "w2"
    assert headline(RATES, of) == "9.9 TFLOPS, least 8 on w2"


def kernels(**of: str) -> list[dict[str, float | int | str]]:
    return [{"host": host, "task": task, "kernel": text} for task, (host, text) in enumerate(of.items())]


def test_a_node_with_another_text_than_most_of_its_hardware_is_named() -> None:
    like = {"w1": "dgx", "w2": "dgx", "w3": "dgx", "c1": "xe", "c2": "xe"}
    assert uneven(TEXTS, kernels(w1="6.1", w2="6.1", w3="6.1", c1="6.6", c2="6.6"), like) is None
    short = uneven(TEXTS, kernels(w1="6.1", w2="6.0", w3="6.1", c1="6.6", c2="6.6"), like)
    assert short is not None
    assert (short.node, short.text) == ("w2", "kernel differs: w2 has 6.0; 2 nodes of dgx have 6.1")
    short = uneven(TEXTS, kernels(w1="6.1", w2="6.1", w3="6.1", c1="6.6", c2="6.5"), like)
    assert short is not None
    assert (short.node, short.text) == (None, "kernel differs: c1 has 6.6, c2 has 6.5")


def test_a_node_that_reports_no_text_is_named() -> None:
    short = uneven(TEXTS, kernels(w1="6.1", w2="6.1"), {"w1": "dgx", "w2": "dgx", "w3": "dgx"})
    assert short is not None
    assert (short.node, short.text) == ("w3", "kernel differs: w3 has not reported; 2 nodes of dgx have 6.1")
    assert uneven(TEXTS, [], {"w1": "dgx"}) is not None


def test_a_text_is_not_missed_as_a_number() -> None:
    assert unreported(TEXTS, numbers(TEXTS, kernels(w1="6.1")), ("w1",)) is None
