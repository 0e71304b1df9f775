from pathlib import Path

import pytest

from hpcforge.cluster import load
from hpcforge.plan.admission import DeclaredWorker, drains, shortfalls
from hpcforge.slurm.nodes import parse_slurm_nodes

BLUEPRINTS = Path(__file__).parents[3] / "blueprints"
WORKER = DeclaredWorker(
    "w02", memory_mib=4096, needed_memory_mib=3072, cpus=2, gpus=2, gpu_model="fake", gpu_kind="fake"
)
ENOUGH = {"memory_kib": 3072 << 10, "cpus": 2, "gpus": {"fake": 2}}


def test_memory_is_compared_less_the_reserve() -> None:
    assert shortfalls(WORKER, ENOUGH, gpus_ready=True) == ()
    (short,) = shortfalls(WORKER, {**ENOUGH, "memory_kib": (3072 << 10) - 1}, gpus_ready=True)
    assert short.what == "memory"


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"memory_kib": 2900 << 10}, "memory"),
        ({"cpus": 1}, "CPUs"),
        ({"gpus": {"fake": 1}}, "GPUs"),
        ({"gpus": {}}, "GPUs"),
    ],
)
def test_the_override_that_is_offered_is_one_that_the_blueprint_takes(
    facts: dict[str, object], what: str, tmp_path: Path
) -> None:
    (short,) = shortfalls(WORKER, {**ENOUGH, **facts}, gpus_ready=True)
    assert short.what == what
    text = (BLUEPRINTS / "rehearsal.yaml").read_text().replace("site_roles: [{path: site_roles/motd, on: head}]", "")
    (tmp_path / "b.yaml").write_text(f"{text}\noverrides:\n  {short.override}\n")
    node = load(tmp_path / "b.yaml").cluster.by_name["w02"]
    accepted = DeclaredWorker(
        "w02", node.memory_mib, node.memory_mib - 1024, node.cpus, node.gpus.count if node.gpus else 0, "fake", "fake"
    )
    assert shortfalls(accepted, {**ENOUGH, **facts}, gpus_ready=True) == ()


def test_gpus_are_not_counted_before_their_devices_can_be_there() -> None:
    assert shortfalls(WORKER, {**ENOUGH, "gpus": {}}, gpus_ready=False) == ()


@pytest.mark.parametrize(
    "reason", ["Low RealMemory (reported:1 < 2)", "gres/shard count reported lower than configured (0 < 4)"]
)
def test_a_node_that_slurm_drained_itself_for_the_same_cause_is_resumed(reason: str) -> None:
    output = f"NodeName=w02 Arch=x State=IDLE+DRAIN+INVALID_REG Threads=1 Reason={reason} [slurm@t]"
    nodes = parse_slurm_nodes(output + "\nsomething else\n")
    assert nodes == {"w02": ("IDLE+DRAIN+INVALID_REG", reason)}
    assert [drain.action for drain in drains((), nodes)] == ["resume"]
