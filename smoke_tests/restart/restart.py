"""A rank is killed in the middle of training; all ranks start again and resume at the last complete checkpoint.

    PYTHONPATH=smoke_tests TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --standalone --max_restarts 2 \
        --nproc_per_node 4 smoke_tests/restart/restart.py --scratch /tmp/here

Every third step is saved to the scratch folder. Rank 1 kills itself after step 7, when the checkpoint of step 6 is
complete and that of step 7 has begun. Rank 0 keeps a line for every step. In the end

- the run resumed at step 6, though there is a newer checkpoint, which is incomplete;
- the lines have each step once, apart from what was trained after the checkpoint and is trained again;
- the optimizer counts as many steps as there are: none was lost or doubled;
- each loss is that of one process in float64 within 1e-5, and what was trained twice has the same loss within 1e-6.

Where Slurm requeues a job after a node failed, the same program resumes in the same way, with the same scratch folder.
`--kill-step 0` kills nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from pathlib import Path

from ranks import Job, Turn, main, options_parser
from resumable import Resumable, alone, sizes, write_synced
from tiny_gpt import relative

EVERY, STEPS, KILLED_RANK, KILL_STEP = 3, 12, 1, 7
TWICE, ONE_PROCESS = 1e-6, 1e-5  # relative errors of losses
COMPLETE = "complete"  # a file in a checkpoint


def last_complete(folder: Path) -> int:
    """The step of the last complete checkpoint, 0 if there is none."""
    steps = [int(path.name[4:]) for path in folder.glob("step*") if (path / COMPLETE).exists()]
    return max(steps, default=0)


def checkpoint(job: Job, training: Resumable, folder: Path, complete: bool = True) -> None:
    """Save; complete only once all ranks have written."""
    path = folder / f"step{training.steps}"
    training.save(path)
    job.agree(right=True)
    if complete and job.rank == 0:
        write_synced(path / COMPLETE, training.steps)


def lines(folder: Path) -> list[dict[str, float]]:
    """What rank 0 has written of each step."""
    path = folder / "steps"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def train(job: Job, training: Resumable, folder: Path, start: int, options: argparse.Namespace) -> None:
    """Train to the end, or up to the step at which a rank is killed."""
    while training.steps < options.steps:
        loss = training.step()
        if job.rank == 0:
            with (folder / "steps").open("a") as file:
                told = {"start": start, "step": training.steps, "loss": loss, "at_s": time.time()}
                file.write(json.dumps(told) + "\n")
                file.flush()
                os.fsync(file.fileno())
        if training.steps % EVERY == 0:
            checkpoint(job, training, folder)
        if training.steps == options.kill_step and not (folder / "killed").exists():
            checkpoint(job, training, folder, complete=False)
            if job.rank == KILLED_RANK:
                write_synced(folder / "killed", time.time())
                os.kill(os.getpid(), signal.SIGKILL)
        if options.step_s:
            time.sleep(options.step_s)


def judge(job: Job, folder: Path, options: argparse.Namespace) -> bool:
    """On rank 0: whether what was done is what one process does."""
    done, reference, right = lines(folder), alone(options.steps, sizes(job, 0)[0]), True
    last = {int(line["step"]): line for line in done}
    for line in done:
        step, loss = int(line["step"]), line["loss"]
        expected, again = reference[step - 1], last[step]["loss"]
        job.say("", event="measurement", step=step, loss=loss, loss_expected=expected)
        error = relative(loss, expected)
        right &= job.check(f"loss of step {step}, one process", expected, loss, error, ONE_PROCESS, of_all=True)
        if line is not last[step]:
            what = f"loss of step {step}, trained twice"
            right &= job.check(what, loss, again, relative(again, loss), TWICE, of_all=True)
    finished = [int(line["step"]) for line in done if line["start"] == done[-1]["start"]]
    first = last_complete_before(options.kill_step) + 1 if (folder / "killed").exists() else finished[0]
    right &= _same(job, "first step after the last start", first, finished[0])
    whole = finished == list(range(finished[0], options.steps + 1)) and len(last) == options.steps
    right &= _same(job, "steps, each once", options.steps, len(last), whole)
    if options.kill_step:
        right &= _same(job, "ranks that were killed", 1, int((folder / "killed").exists()))
    if right and options.kill_step:
        killed_s = json.loads((folder / "killed").read_text())
        back_s = next(line["at_s"] for line in done if line["start"] == done[-1]["start"]) - killed_s
        measured = {"resume_s": round(back_s, 2), "resumed_after_step": finished[0] - 1}
        starts = len({line["start"] for line in done})
        job.say("", event="measurement", loss_last=round(last[options.steps]["loss"], 6), starts=starts, **measured)
        job.say(f"resumed after step {finished[0] - 1}, {back_s:.1f} s after the kill")
    return right


def last_complete_before(step: int) -> int:
    """The last step before a kill that has a complete checkpoint."""
    return step - step % EVERY


def _same(job: Job, what: str, expected: int, got: int, same: bool = True) -> bool:
    """Whether two counts are equal, and more is `same`."""
    return job.check(what, expected, got, 0.0 if same and got == expected else 1.0, 0.0, of_all=True)


def run(job: Job, options: argparse.Namespace) -> None:
    """Resume, train and judge."""
    if not options.scratch:
        raise RuntimeError("it takes --scratch FOLDER, the same for every start")
    header, began = job.header(), time.perf_counter()
    job.fault.strike(job.rank)
    folder, training, start = Path(options.scratch), Resumable(job, *sizes(job, options.size_mib)), time.time()
    step = last_complete(folder)
    if step:
        training.load(folder / f"step{step}")
        _spoilt(job, training, options.fault)
    in_place = training.steps == 0 or training.shards_in_place()
    if not in_place:
        job.wrong("the shard of known numbers that was loaded", "that of this rank", "another")
    job.agree(in_place)
    train(job, training, folder, start, options)
    updates = {int(state["step"]) for state in training.optimizer.state.values()}
    if updates != {options.steps}:
        job.wrong("steps that the optimizer has made", options.steps, sorted(updates))
    job.agree(updates == {options.steps})
    job.agree(right=job.rank > 0 or judge(job, folder, options))
    if job.rank == 0:
        elapsed = round(time.perf_counter() - began, 3)
        job.say(f"{options.steps} steps, none lost or doubled ({elapsed} s)", event="result", **header, seconds=elapsed)


def _spoilt(job: Job, training: Resumable, fault: str) -> None:
    """Inject a fault into what was loaded, to test this test."""
    if fault == "lost":
        training.steps += 1
    if fault == "doubled":
        training.steps -= 1
    if fault == "shard" and job.rank == KILLED_RANK:
        training.spoil()


def parser() -> argparse.ArgumentParser:
    """The options of this test."""
    options = options_parser("A rank is killed: training resumes at the last complete checkpoint.")
    options.add_argument("--steps", type=int, default=STEPS, help=f"steps of training (default: {STEPS})")
    options.add_argument("--size-mib", type=int, default=16, help="known numbers in a checkpoint, MiB (default: 16)")
    options.add_argument("--step-s", type=float, default=0.0, help="pause after each step, s (default: 0)")
    text = f"step after which rank {KILLED_RANK} kills itself, once; 0: none does (default: {KILL_STEP})"
    options.add_argument("--kill-step", type=int, default=KILL_STEP, help=text)
    faults = ("", "lost", "doubled", "shard")
    text = "for testing this test: after the restart a step is lost or doubled, or a shard is wrong"
    options.add_argument("--fault", choices=faults, default="", help=text)
    return options


if __name__ == "__main__":
    by_itself = parser().parse_args()
    main([Turn("restart", by_itself.json, lambda: (by_itself, run))])
