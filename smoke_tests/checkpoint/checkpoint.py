"""Save a training run on all ranks to the storage that jobs use, and continue it on half of them.

    export PYTHONPATH=smoke_tests
    torchrun --standalone --nproc_per_node 4 smoke_tests/checkpoint/checkpoint.py --launch save --scratch /tmp/here
    torchrun --standalone --nproc_per_node 2 smoke_tests/checkpoint/checkpoint.py --launch load --scratch /tmp/here

The first launch trains, saves, trains on and keeps its losses. The second reads every file and compares size and
SHA-256 with what was written, loads, compares each weight bit for bit and each rank's shard of known numbers,
and trains on: each loss must be that of the first launch within 1e-6, and that of one process in float64 within 1e-5.

The write rate is all bytes over the time of the slowest rank, synced. The files are read soon after they were written,
perhaps from memory, so no read rate is reported.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from ranks import Job, Turn, main, options_parser
from resumable import Resumable, alone, checksums, sizes, write_synced
from tiny_gpt import relative

BEFORE, AFTER = 4, 4  # steps of training
CURVE, ONE_PROCESS = 1e-6, 1e-5  # relative errors of losses


def save(job: Job, folder: Path, size_mib: int) -> None:
    """Train, save, and train on."""
    batch_size, known_numbers = sizes(job, size_mib)
    training = Resumable(job, batch_size, known_numbers)
    for _ in range(BEFORE):
        training.step()
    began = time.perf_counter()
    training.save(folder / "saved")
    seconds = job.slowest([time.perf_counter() - began])[0]
    weights = training.weights()
    losses = [training.step() for _ in range(AFTER)]
    if job.rank > 0:
        return
    names = sorted(path.name for path in (folder / "saved").iterdir())
    files = checksums(folder / "saved", names)
    write_synced(
        folder / "saved.json",
        {"files": files, "weights": weights, "losses": losses, "batch": batch_size, "known": known_numbers},
    )
    total = sum(size for size, _ in files.values())
    rate = round(total / seconds / 1e6, 1)
    job.say("", event="measurement", checkpoint_bytes=total, files=len(files), write_mb_per_s=rate, write_s=seconds)
    job.say(f"saved {total} bytes in {len(files)} files in {seconds:.2f} s: {rate} MB/s")


def load(job: Job, folder: Path, fault: str) -> None:
    """Check what was saved, load it, and train on."""
    written = json.loads((folder / "saved.json").read_text(encoding="utf-8"))
    mine = sorted(written["files"])[job.rank :: job.world_size]
    if fault == "file" and mine:
        _flip(folder / "saved" / mine[-1])
    for name, (size, digest) in checksums(folder / "saved", mine).items():
        expected_size, expected = written["files"][name]
        if size != expected_size:
            job.wrong(f"size of {name}, bytes", expected_size, size)
        elif digest != expected:
            job.wrong(f"SHA-256 of {name}", expected, digest)
    job.agree(checksums(folder / "saved", mine) == {name: tuple(written["files"][name]) for name in mine})
    training = Resumable(job, written["batch"], written["known"])
    training.load(folder / "saved")
    if fault == "shard" and job.rank == 1:
        training.spoil()
    in_place = training.shards_in_place()
    if not in_place:
        job.wrong("the shard of known numbers that was loaded", "that of this rank", "another")
    weights = training.weights()
    differing = sorted(name for name, digest in written["weights"].items() if weights.get(name) != digest)
    for name in differing[:1]:
        job.wrong(f"{name} as loaded (SHA-256; {len(differing)} differ)", written["weights"][name], weights.get(name))
    job.agree(in_place and not differing)
    _continue(job, training, written["losses"])


def _continue(job: Job, training: Resumable, before: list[float]) -> None:
    """The losses after loading, against those of the first launch, and of one process."""
    if job.fault.falsifies(job.rank):
        training.spoil()
    losses = [training.step() for _ in range(AFTER)]
    reference = alone(BEFORE + AFTER, training.batch_size)[BEFORE:] if job.rank == 0 else losses
    right, worst = True, 0.0
    for step, loss in enumerate(losses):
        if job.rank == 0:
            told = {
                "step": BEFORE + step,
                "loss": loss,
                "loss_expected": before[step],
                "loss_one_process": reference[step],
            }
            job.say("", event="measurement", **told)
        error = relative(loss, before[step])
        worst = max(worst, error)
        right &= job.check(f"loss of step {BEFORE + step} after loading", before[step], loss, error, CURVE, of_all=True)
        of_one = relative(loss, reference[step])
        right &= job.check(
            f"loss of step {BEFORE + step}, one process", reference[step], loss, of_one, ONE_PROCESS, of_all=True
        )
    job.agree(right)
    if job.rank == 0:
        job.say(f"continued on {job.world_size} ranks: largest error of a loss {worst:.2g}")
        job.say("", event="measurement", error_max=float(f"{worst:.3g}"), loss_last=round(losses[-1], 6))


def _flip(path: Path) -> None:
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def run(job: Job, options: argparse.Namespace) -> None:
    """One of the two launches."""
    header, began = job.header(), time.perf_counter()
    if options.launch not in ("save", "load") or not options.scratch:
        raise RuntimeError("it takes --launch save or --launch load, and --scratch FOLDER")
    job.fault.strike(job.rank)
    folder = Path(options.scratch)
    if options.launch == "save":
        save(job, folder, options.size_mib)
    else:
        load(job, folder, options.fault)
    job.agree(right=True)
    if job.rank == 0:
        elapsed = round(time.perf_counter() - began, 3)
        job.say(f"{options.launch}: {elapsed} s", event="result", **header, seconds=elapsed)


def parser() -> argparse.ArgumentParser:
    """The options of this test."""
    options = options_parser("A checkpoint, saved on all ranks and loaded on half of them: the same training.")
    options.add_argument("--size-mib", type=int, default=64, help="known numbers in it, MiB (default: 64)")
    faults = ("", "file", "shard")
    options.add_argument(
        "--fault", choices=faults, default="", help="for testing this test: what is wrong when loading"
    )
    return options


if __name__ == "__main__":
    by_itself = parser().parse_args()
    main([Turn("checkpoint", by_itself.json, lambda: (by_itself, run))])
