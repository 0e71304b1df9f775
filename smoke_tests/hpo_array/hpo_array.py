"""A search over hyper-parameters as an array of tasks, one of them killed and run again; the best is one process's.

    PYTHONPATH=smoke_tests python smoke_tests/hpo_array/hpo_array.py --launch again --scratch /tmp/here

A task trains a small transformer with each of its settings, one after the other, and writes each loss to a file of the
setting's number. What is there already is not done again, so a task that is killed and started again loses nothing. In
the launch `first`, the last task kills itself before its last setting. In the launch `again` all tasks run; task 0 then
waits for every file, computes all settings in its own process, and compares. Tasks are counted by SLURM_ARRAY_TASK_ID
in a job array, else by SLURM_PROCID.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from itertools import product
from pathlib import Path

import torch
from tiny_gpt import TinyGpt, batch, loss_of, relative

SETTINGS = tuple(product((0.05, 0.1, 0.2, 0.4), (0.0, 0.9)))  # rate and momentum of gradient descent
STEPS = 10
TOLERANCE = 1e-5  # relative, of a loss: processors of another make round otherwise
WAIT_S = 120  # for other tasks
WRONG, FAILED = 3, 1


def loss(number: int) -> float:
    """The loss after some steps with a setting."""
    rate, momentum = SETTINGS[number]
    model = TinyGpt()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)
    for step in range(STEPS):
        inputs, targets = batch(step)
        optimizer.zero_grad()
        last = loss_of(model(inputs), targets)
        last.backward()
        optimizer.step()
    return float(last.detach())


def search(folder: Path, mine: list[int], killed: bool) -> int:
    """Do what is not done of a task's settings; returns how many that were."""
    todo = [number for number in mine if not (folder / f"{number}.json").exists()]
    for number in todo:
        if killed and number == todo[-1]:
            os.kill(os.getpid(), signal.SIGKILL)
        beside = folder / f"{number}.new"
        beside.write_text(json.dumps(loss(number)))
        beside.rename(folder / f"{number}.json")
    return len(todo)


def collected(folder: Path) -> dict[int, float]:
    """The losses of all settings, once all tasks have written theirs; those that are there after a while."""
    until = time.monotonic() + WAIT_S
    while True:
        there = [number for number in range(len(SETTINGS)) if (folder / f"{number}.json").exists()]
        if len(there) == len(SETTINGS) or time.monotonic() > until:
            return {number: json.loads((folder / f"{number}.json").read_text()) for number in there}
        time.sleep(0.2)


def compare(asked: argparse.Namespace, folder: Path) -> int:
    """Compare what the tasks found with what this process computes alone."""
    found, alone, code = collected(folder), [loss(number) for number in range(len(SETTINGS))], 0
    if asked.fault == "lost":
        found.pop(3)
    if asked.fault == "exchanged":
        found[0], found[1] = found[1], found[0]
    if missing := sorted(set(range(len(SETTINGS))) - set(found)):
        say(
            asked.json, f"failed: no loss of settings {missing}", event="failed", error=f"no loss of settings {missing}"
        )
        return FAILED
    for number, expected in enumerate(alone):
        error = relative(found[number], expected)
        what = f"loss with rate {SETTINGS[number][0]:g}, momentum {SETTINGS[number][1]:g}"
        told = {"what": what, "expected": expected, "got": found[number], "error": error, "tolerance": TOLERANCE}
        say(asked.json, "", event="assertion", **told)
        if not error <= TOLERANCE:
            text = f"wrong: {what}: expected {expected}, got {found[number]}"
            say(asked.json, text, event="wrong", where=what, expected=str(expected), got=str(found[number]))
            code = WRONG
    best, best_alone = min(found, key=lambda number: found[number]), min(range(len(alone)), key=lambda n: alone[n])
    if best != best_alone:
        text = f"wrong: the best is setting {best}, of one process {best_alone}"
        say(asked.json, text, event="wrong", where="the best setting", expected=str(best_alone), got=str(best))
        code = WRONG
    rate, momentum = SETTINGS[best]
    text = f"best of {len(SETTINGS)}: rate {rate:g}, momentum {momentum:g}, loss {found[best]:.4f}"
    best_of = {"best_loss": round(found[best], 6), "best_rate": rate, "best_momentum": momentum}
    say(asked.json, text, event="measurement", settings=len(SETTINGS), **best_of)
    return code


def say(as_json: bool, text: str, **event: object) -> None:
    """One event, as a line of JSON or of text."""
    line = json.dumps(event) if as_json else text
    if line:
        print(line, flush=True)


def main() -> int:
    """A task's part of the search; task 0 compares at the end. 0 if all is right, 1 if not done, 3 if wrong."""
    options = argparse.ArgumentParser(description="A search over hyper-parameters: tasks find what one process finds.")
    options.add_argument("--json", action="store_true", help="one JSON object a line instead of text")
    options.add_argument(
        "--launch", default="again", help="first: the last task is killed; again: what is left is done"
    )
    options.add_argument("--scratch", required=True, help="the folder that the tasks share")
    faults = ("", "lost", "exchanged")
    options.add_argument("--fault", choices=faults, default="", help="for testing this test: a result is lost or wrong")
    asked = options.parse_args()
    torch.set_num_threads(1)
    array = "SLURM_ARRAY_TASK_ID" in os.environ
    task = int(os.environ.get("SLURM_ARRAY_TASK_ID" if array else "SLURM_PROCID", "0"))
    tasks = int(os.environ.get("SLURM_ARRAY_TASK_COUNT" if array else "SLURM_NTASKS", "1"))
    folder = Path(asked.scratch)
    killed = asked.launch == "first" and task == tasks - 1
    done = search(folder, list(range(len(SETTINGS)))[task::tasks], killed)
    say(asked.json, f"task {task} of {tasks}: {done} settings", event="measurement", tasks=tasks)
    code = compare(asked, folder) if task == 0 and asked.launch == "again" else 0
    if not code:
        say(asked.json, "", event="result", torch=torch.__version__, torch_path=str(Path(torch.__file__).parent))
    return code


if __name__ == "__main__":
    sys.exit(main())
