#!/usr/bin/python3 -IS
"""Note which job has which GPU, for the metrics of GPUs: slurmd runs this before each job and after it.

A file for each GPU, `/run/hpcforge_gpu_jobs/INDEX`, holds the job's number; several jobs that share a GPU are several
lines. Whatever happens it succeeds: slurmd would drain the node. Standard library, Python 3.9.
"""

import contextlib
import fcntl
import os
import re
from collections.abc import Iterable

FOLDER = "/run/hpcforge_gpu_jobs"
MOST = 64  # GPUs of a node, and jobs of a GPU


def indices(text: str) -> list[int]:
    """The numbers in SLURM_JOB_GPUS, `0,2` or `0-3`; nothing of another form counts."""
    found: list[int] = []
    for part in text.split(","):
        span = re.fullmatch(r"(\d{1,2})(?:-(\d{1,2}))?", part.strip())
        if span:
            found += range(int(span[1]), int(span[2] or span[1]) + 1)
    return sorted({index for index in found if index < MOST})


def changed(lines: Iterable[str], job: str, begins: bool) -> list[str]:
    """The jobs of a GPU after one has begun or ended."""
    others = [line for line in lines if line != job]
    return [*others, job][-MOST:] if begins else others


def main() -> None:
    """Note the job that begins or ends, on each of its GPUs."""
    context, job = os.environ.get("SLURM_SCRIPT_CONTEXT", ""), os.environ.get("SLURM_JOB_ID", "")
    gpus = indices(os.environ.get("SLURM_JOB_GPUS", ""))
    if context not in ("prolog_slurmd", "epilog_slurmd") or not re.fullmatch(r"\d{1,10}", job) or not gpus:
        return
    os.makedirs(FOLDER, 0o755, exist_ok=True)
    for index in gpus:
        with open(os.path.join(FOLDER, str(index)), "a+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            jobs = changed(file.read(4096).split(), job, context == "prolog_slurmd")
            file.truncate(0)
            file.write("".join(f"{one}\n" for one in jobs))


if __name__ == "__main__":
    with contextlib.suppress(Exception):
        main()
