"""GPUs of `Gres`, and of gres.conf."""

from __future__ import annotations

import pytest

from hpcforge.starter.readers.slurm.partitions import GresGpus, by_node, gpus, gres_lines, reason, with_gres_conf
from hpcforge.starter.readers.slurm_words import Ledger, statements

NODE = "NodeName=n1 Gres="


@pytest.mark.parametrize(
    ("value", "expected", "left"),
    [
        ("gpu:8", GresGpus(None, 8), []),
        ("gpu", GresGpus(None, 1), []),
        ("GPU:A100:4", GresGpus("a100", 4), []),
        ("gpu:3090:4", GresGpus("3090", 4), []),
        ("gpu:0", None, []),
        ("nvme:2", None, ["Gres=nvme:2"]),
        ("gpu:a100:4(S:0-1)", GresGpus("a100", 4), ["Gres=gpu:a100:4(S:0-1)"]),
        ("gpu:a100:4(IDX:0,2)", GresGpus("a100", 4), ["Gres=gpu:a100:4(IDX:0,2)"]),
        ("gpu:a100:2,gpu:v100:1,mps:200", GresGpus("a100", 2), ["Gres=mps:200", "Gres=gpu:v100:1"]),
        ("gpu:1g.10gb:7", GresGpus(None, 1, ("number of GPUs",)), ["Gres=gpu:1g.10gb:7"]),
        ("gpu:a100_1g.5gb:8", GresGpus("a100", 2, ("number of GPUs",)), ["Gres=gpu:a100_1g.5gb:8"]),
        ("gpu:h100:6,gpu:1g.10gb:14", GresGpus("h100", 8, ("number of GPUs",)), ["Gres=gpu:1g.10gb:14"]),
        ("gpu:64", None, ["Gres=gpu:64"]),
        ("gpu:4K", None, ["Gres=gpu:4K"]),
        ("gpu:a100:no_consume:2", GresGpus("a100", 2), ["Gres=gpu:a100:no_consume:2"]),
    ],
)
def test_gres_says_gpus(value: str, expected: GresGpus | None, left: list[str]) -> None:
    ledger = Ledger()
    [statement] = statements(f"NodeName=n1 Gres={value}", None, ledger)
    for word in statement.words.values():
        ledger.take(word)
    assert gpus(statement.words["gres"], ledger) == expected
    assert [each.text for each in ledger.left_out(reason)] == left


def test_lines_of_gres_conf_are_for_the_nodes_that_they_name() -> None:
    ledger = Ledger()
    text = "NodeName=n[1-2].x.org Name=gpu Type=V100 File=/dev/nvidia[0-3]\nName=gpu Count=2\nName=nic File=/dev/mlx5\n"
    lines = gres_lines(statements(text, None, ledger), ledger)
    assert [(line.model, line.count) for line in lines] == [("v100", 4), (None, 2)]
    index = by_node(lines)
    assert index == {"n1": [lines[0]], "n2": [lines[0]], None: [lines[1]]}
    assert with_gres_conf(GresGpus(None, 4), index["n1"], ledger) == GresGpus("v100", 4)
    assert with_gres_conf(None, index["n2"], ledger) is None
    assert [(each.line, each.text) for each in ledger.left_out(reason)] == [
        (2, "Name=gpu Count=2"),
        (3, "Name=nic File=/dev/mlx5"),
    ]
