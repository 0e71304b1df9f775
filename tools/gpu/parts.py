"""The parts of the report: the claim, the processes and the judgement of each. Most valuable first.

They need only Python with PyTorch. A part without its program does not run, and reports the reason.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tools.gpu import judgements as judge
from tools.gpu.judgements import Judgement
from tools.gpu.runs import Place, Process, Run, free_port, program


@dataclass(frozen=True)
class Part:
    """One part. `absent` says why it cannot run here; "": it can."""

    name: str
    claim: str
    processes: Callable[[Place], list[Process]]
    judge: Callable[[Run, Judgement], None]
    limit_s: float
    quick: bool = False
    may_remain: int = 0
    absent: Callable[[], str] = lambda: ""


def command(*words: str) -> Callable[[Place], list[Process]]:
    """Return a part's single process; `{scratch}` in a word is the folder of the parts."""
    return lambda place: [Process(tuple(word.replace("{scratch}", str(place.scratch)) for word in words))]


def ranks(test: str, count: int, arguments: str = "") -> Callable[[Place], list[Process]]:
    """Return a part's ranks; `{scratch}` in the arguments is the folder that they share."""
    return lambda place: place.ranks(test, count, arguments.format(scratch=place.scratch / "shared"))


def agents(place: Place) -> list[Process]:
    """Return two launchers of one rank each, which restart both ranks after one was killed."""
    port, processes = free_port(), []
    for number in range(2):
        words = ["--nnodes=2", "--nproc_per_node=1", "--rdzv_backend=c10d", "--rdzv_id=1", "--max_restarts=2"]
        words += [f"--rdzv_endpoint=127.0.0.1:{port}", f"--rdzv_conf=is_host={str(number == 0).lower()}"]
        words += ["--local_addr=127.0.0.1", "--monitor_interval=0.5", program("restart"), "--json", "--timeout-s=30"]
        words += [f"--scratch={place.scratch / 'restart'}", "--size-mib=4"]
        environment = {**place.node(number, 2), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        processes.append(Process((sys.executable, "-m", "torch.distributed.run", *words), environment))
    (place.scratch / "restart").mkdir(parents=True, exist_ok=True)
    return processes


def pair(place: Place) -> list[Process]:
    """Return two nodes that measure each other."""
    return [_node_of_pair(place, number, "w1:w2") for number in (1, 2)]


def half_a_pair(place: Place) -> list[Process]:
    """Return two of three nodes in two pairs: the third node is missing."""
    return [_node_of_pair(place, number, "w1:w3,w1:w2", "--timeout=6") for number in (1, 2)]


def _node_of_pair(place: Place, number: int, pairs: str, *more: str) -> Process:
    nodes = ",".join(f"w{n}=127.0.0.1" for n in (1, 2, 3))
    words = [f"--nodes={nodes}", "--alone=w1,w2", f"--pairs={pairs}", f"--gpus={int(place.gpu)}", "--seconds=1"]
    port = 20000 + sum(map(ord, str(place.scratch) + pairs)) % 9000  # the same for both
    environment = {**place.node(number, 2), "SLURMD_NODENAME": f"w{number}", "SLURM_LOCALID": "0"}
    return Process((sys.executable, program("pairs"), *words, f"--port={port}", *more), environment)


READ = """
import json
from hpcforge.node import facts
from hpcforge.node.gpus import nvml
print(json.dumps(nvml.end(nvml.begin(), sorted(facts._nvidia_devices(facts._PCI)))))
"""


def reader(_place: Place) -> list[Process]:
    """Return the node program's reader, and nvidia-smi."""
    return [Process((sys.executable, "-c", READ)), Process(("nvidia-smi", "-q", "-x"))]


METRICS = """
import importlib.util, json, sys, tempfile
sys.path.insert(0, "roles/node_exporter")
import metric_sources
spec = importlib.util.spec_from_file_location("gpu_metrics", "roles/gpu_metrics/gpu_metrics.py")
program = importlib.util.module_from_spec(spec)
spec.loader.exec_module(program)
folder = metric_sources.LOCKS = tempfile.mkdtemp(dir=sys.argv[2])
metric_sources.ENVIRONMENT["PATH"] = sys.argv[1]
program.WANTED, program.XIDS, program.CURSOR = (f"{folder}/{name}" for name in ("wanted", "xids", "cursor"))
declared = {"model": "any", "vendor": "nvidia", "devices": ["/dev/nvidia0"], "count": 1}
with open(program.WANTED, "w") as file:
    json.dump(declared, file)
program.main()
"""


def no_smi() -> str:
    """Say that nvidia-smi is not there."""
    return "" if shutil.which("nvidia-smi") else "no nvidia-smi"


def no_jax() -> str:
    """Say that JAX with a GPU is not there."""
    installed = importlib.util.find_spec("jax") and importlib.util.find_spec(
        "jax_cuda13_plugin" if _cuda() == "13" else "jax_cuda12_plugin"
    )
    return "" if installed else "JAX with its CUDA plugin is not installed"


def _cuda() -> str:
    torch = importlib.import_module("torch")
    return str(torch.version.cuda or "").partition(".")[0]


def parts(gpu: bool) -> Iterable[Part]:
    """Yield the parts; without a GPU those that CPUs can rehearse."""
    allowed = 15.0
    yield Part(
        "hang",
        "eight ranks, one hangs: each other says where it waits, and ends within 5 s of the limit of 12 s",
        ranks("train_ddp", 8, "--steps 4 --inject hang:1 --timeout-s 12"),
        judge.waited(1, 12, dies=False),
        75,
        True,
        1,
    )
    yield Part(
        "die",
        "eight ranks, one is killed: each other says where it waits, and ends within 5 s of the limit of 15 s",
        ranks("train_ddp", 8, f"--steps 4 --inject die:2 --timeout-s {allowed:g}"),
        judge.waited(2, allowed, dies=True),
        75,
        True,
    )
    yield Part(
        "train_ddp",
        "four ranks train as one process does",
        ranks("train_ddp", 4, "--steps 10 --timeout-s 30"),
        judge.over_nccl,
        40,
        True,
    )
    yield Part(
        "allreduce",
        "sums of four ranks are exact",
        ranks("allreduce", 4, "--sizes-kib 4,1024,16384 --repeats 5 --timeout-s 30"),
        judge.over_nccl,
        40,
        True,
    )
    yield Part("restart", "a killed rank: training is resumed", agents, judge.resumed, 90, True)
    if gpu:
        yield Part(
            "reader",
            "the node program reads what nvidia-smi reads",
            reader,
            judge.as_nvidia_smi,
            40,
            True,
            absent=no_smi,
        )
        yield Part(
            "metrics",
            "the metrics program has the GPU",
            command(sys.executable, "-c", METRICS, "/usr/bin:/bin", "{scratch}"),
            judge.metrics,
            40,
            True,
        )
        yield Part(
            "metrics_alone",
            "without journalctl it has the GPU, too",
            command(sys.executable, "-c", METRICS, "/nonexistent", "{scratch}"),
            judge.metrics,
            40,
            True,
        )
        yield Part(
            "gemm",
            "products have the same bits each time",
            ranks("gemm", 1, "--seconds 2 --dtypes float32,bfloat16,float16"),
            judge.same_bits,
            60,
            True,
        )
    yield Part(
        "allreduce_alone",
        "one rank alone reports no bandwidth: nothing moved",
        ranks("allreduce", 1),
        judge.nothing_moved,
        40,
        True,
    )
    yield Part(
        "train_parallel",
        "twelve modes of training on four ranks are right",
        ranks("train_parallel", 4, "--timeout-s 60"),
        judge.modes,
        120,
    )
    yield Part(
        "collectives",
        "five collectives of four ranks are exact",
        ranks("collectives", 4, "--sizes-kib 64,1024 --repeats 3 --timeout-s 30"),
        judge.over_nccl,
        40,
    )
    yield Part("pairs", "two nodes measure each other", pair, judge.both_ways, 60)
    yield Part("pairs_silent", "a node that is not there costs its pair alone", half_a_pair, judge.one_is_silent, 90)
    yield Part("gemm_ranks", "four ranks have the same bits", ranks("gemm", 4, "--seconds 1"), judge.well, 60)
    yield Part("straggler", "four ranks are timed apart", ranks("straggler", 4, "--timeout-s 30"), judge.well, 40)
    if gpu:
        yield Part("host_device", "bytes between host and GPU arrive", ranks("host_device", 1), judge.well, 40)
    yield Part(
        "memory_copy",
        "memory of the host is copied",
        command(sys.executable, program("memory_copy"), "--json", "--seconds", "1"),
        judge.well,
        40,
    )
    yield Part(
        "save",
        "four ranks save a checkpoint",
        ranks("checkpoint", 4, "--launch save --scratch {scratch} --timeout-s 30"),
        judge.well,
        40,
    )
    yield Part(
        "load",
        "two ranks continue from it",
        ranks("checkpoint", 2, "--launch load --scratch {scratch} --timeout-s 30"),
        judge.errors_below(1e-5),
        40,
    )
    yield Part(
        "train_3d",
        "three dimensions on eight ranks are right",
        ranks("train_3d", 8, "--timeout-s 60"),
        judge.errors_below(1e-5),
        90,
    )
    yield Part(
        "wrong_gemm",
        "a rank with a flipped bit is named",
        ranks("gemm", 4, "--seconds 0.5 --inject wrong:2"),
        judge.names_wrong(2),
        60,
    )
    yield Part(
        "wrong_ddp",
        "a rank with wrong gradients is named",
        ranks("train_ddp", 4, "--steps 4 --inject wrong:1 --timeout-s 30"),
        judge.names_wrong(1),
        40,
    )
    yield Part(
        "lost_share",
        "a share lost in tensor parallel is found",
        ranks("train_parallel", 4, "--modes tensor,pipeline_1f1b --fault tensor:lost --timeout-s 30"),
        judge.is_found,
        60,
    )
    yield Part(
        "jax",
        "JAX trains on the GPU",
        command(sys.executable, program("jax_train"), "--json"),
        judge.on_gpu,
        60,
        absent=no_jax if gpu else lambda: "no GPU",
    )
    yield Part(
        "burn_in",
        "products keep their bits under load",
        ranks("burn_in", 1, "--minutes 0.4 --scratch {scratch}"),
        judge.well,
        60,
    )
