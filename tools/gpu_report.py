"""Run every claim that one NVIDIA GPU can settle, and report which hold. It never changes the card.

    python3 -m tools.gpu_report --out FOLDER            # all parts, at most 8 minutes
    python3 -m tools.gpu_report --out FOLDER --quick    # the most valuable ones, 3 minutes
    python3 -m tools.gpu_report --out FOLDER --only hang --only die
    python3 -m tools.gpu_report --out FOLDER --cpu      # a rehearsal by CPUs and gloo, which shows nothing of a GPU

It takes this repository and a Python with PyTorch. FOLDER gets `report.json`, `report.txt` and `raw.tar.gz`, which are
written before the first part and after each one, so that a run that is killed keeps what it had: `finished` is false.
Older ones there are replaced. Persistence, clocks, power, ECC and MIG stay as they are, no managed memory is used, and
a part that heats the GPU to 85 C is ended.

Exit status: 0 all as claimed, 1 a claim is broken or was not reached in time, 2 wrong use, 3 no GPU, 130 stopped.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import platform
import shutil
import signal
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hpcforge.atomic import write_atomically
from tools.gpu.parts import Judgement, Part, parts
from tools.gpu.runs import STOP, Place, Smi, query, run

WHOLE_S, QUICK_S = 480.0, 180.0
BROKEN, USAGE, NO_GPU, STOPPED = 1, 2, 3, 130


@dataclass(frozen=True)
class Result:
    """The result of a part. `verdict`: holds, broken, not run."""

    name: str
    claim: str
    verdict: str
    why: str = ""
    seconds: float = 0.0
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass
class Report:
    """The three files, from the results so far: parts that have not run yet are `pending`."""

    folder: Path
    raw: Path
    about: dict[str, Any]
    results: dict[str, Result]
    finished: bool = False

    def add(self, *results: Result, finished: bool = False) -> None:
        """Put results in their places and write all files again."""
        self.results |= {result.name: result for result in results}
        self.finished = finished
        about = {**self.about, "finished": finished, "result": self.summary()}
        text = json.dumps({**about, "parts": [asdict(result) for result in self.results.values()]}, indent=1)
        write_atomically(self.folder / "report.json", text, 0o644)
        write_atomically(self.folder / "report.txt", self.text(), 0o644)
        packed = self.folder / ".raw.tar.gz"
        with tarfile.open(packed, "w:gz") as archive:
            archive.add(self.raw, "raw")
        packed.rename(self.folder / "raw.tar.gz")

    def summary(self) -> str:
        """Return the number of claims that hold, and a mark if some were not reached."""
        counts = Counter(result.verdict for result in self.results.values())
        words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        return words if self.finished else f"{words}; NOT FINISHED"

    def text(self) -> str:
        """Return the report for people."""
        head = ", ".join(f"{key} {value}" for key, value in self.about.items() if value)
        lines = [head, self.summary(), ""]
        for result in self.results.values():
            lines.append(f"{result.verdict:8} {result.seconds:6.1f} s  {result.name}: {result.claim}")
            lines += [f"{'':19}{result.why}"] * bool(result.why)
            numbers = [f"{key} {shown(value)}" for key, value in result.numbers.items()]
            lines += [f"{'':19}{', '.join(numbers)}"] * bool(numbers)
        return "\n".join(lines) + "\n"


def shown(value: object) -> str:
    """Return a number with four digits, a text as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def about(gpu: bool) -> dict[str, Any]:
    """Return the context of the numbers: card, driver, versions, date."""
    torch = importlib.import_module("torch")
    name, driver = [*query("name,driver_version").split(", "), "", ""][:2] if gpu else ("", "")
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if gpu else ""
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds"),
        "card": (name or torch.cuda.get_device_name(0)) if gpu else "none: a rehearsal on CPUs",
        "driver": driver.splitlines()[0] if driver else "",
        "torch": torch.__version__,
        "nccl": nccl,
        "python": platform.python_version(),
    }


def take(part: Part, place: Place, raw: Path, left_s: float) -> Result:
    """Run a part and judge it."""
    if reason := part.absent():
        return Result(part.name, part.claim, "not run", reason)
    run_result = run(part.processes(place), raw / part.name, min(part.limit_s, left_s), part.may_remain)
    judgement = Judgement()
    try:
        part.judge(run_result, judgement)
    except (ValueError, LookupError, TypeError, AttributeError) as error:  # output that is not as the part expects
        judgement.broken.append(f"its output cannot be read: {type(error).__name__}: {error}")
    if STOP.is_set():
        return Result(part.name, part.claim, "not run", "stopped", run_result.seconds)
    broken = [run_result.stopped] * bool(run_result.stopped) + judgement.broken
    return Result(
        part.name,
        part.claim,
        "broken" if broken else "holds",
        "; ".join(broken)[:1000],
        run_result.seconds,
        judgement.numbers,
    )


def has_gpu() -> bool:
    """Return whether PyTorch is there and sees a GPU."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        sys.stderr.write(f"{sys.executable} has no PyTorch: use a Python that has one\n")
        sys.exit(USAGE)
    return bool(torch.cuda.is_available())


def chosen(options: argparse.Namespace, parser: argparse.ArgumentParser) -> list[Part]:
    """Return the selected parts. Ends with a message for an unknown one."""
    every = list(parts(gpu=not options.cpu))
    unknown = sorted({*options.only} - {part.name for part in every})
    if unknown:
        parser.error(f"no part {unknown[0]}: there are {', '.join(part.name for part in every)}")
    if options.only:
        return [part for part in every if part.name in options.only]
    return [part for part in every if part.quick or not options.quick]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="gpu_report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the three files")
    parser.add_argument("--only", action="append", default=[], metavar="PART", help="run this part; can be repeated")
    parser.add_argument("--quick", action="store_true", help="the most valuable parts, 3 minutes")
    parser.add_argument("--cpu", action="store_true", help="rehearse the parts on CPUs")
    options = parser.parse_args(arguments)
    selected = chosen(options, parser)
    if not has_gpu() and not options.cpu:
        sys.stderr.write("PyTorch sees no GPU here; --cpu rehearses the parts on CPUs\n")
        return NO_GPU
    scratch = Path(tempfile.mkdtemp(prefix="gpu-report-"))
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        return report(selected, options, scratch)
    except OSError as error:
        sys.stderr.write(f"{options.out}: {error.strerror or error}: name a folder that can be written\n")
        return USAGE
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def report(selected: Sequence[Part], options: argparse.Namespace, scratch: Path) -> int:
    """Take parts in turn, and write the files after each."""
    until = time.monotonic() + (QUICK_S if options.quick else WHOLE_S)
    files = Report(options.out, scratch / "raw", about(gpu=not options.cpu), {})
    place = Place(scratch / "work", gpu=not options.cpu)
    files.raw.mkdir()
    (place.scratch / "shared").mkdir(parents=True)
    files.add(*(Result(part.name, part.claim, "pending") for part in selected))
    for number, part in enumerate(selected, 1):
        write(f"{number}/{len(selected)} {part.name}: {part.claim}, {part.limit_s:g} s at most\n")
        left_s = until - time.monotonic()
        if left_s < part.limit_s / 3:
            result = Result(part.name, part.claim, "not run", "out of time")
        else:
            result = take(part, place, files.raw, left_s)
        if STOP.is_set():
            files.add(result)
            write(f"stopped: {options.out}/report.txt has what ran\n")
            return STOPPED
        files.add(result, finished=part is selected[-1])
        write(f"{result.verdict:8} {result.seconds:6.1f} s  {result.name}  {result.why}\n")
    write(f"{files.summary()}: {options.out}/report.txt\n")
    if not options.cpu and not Smi.answers:
        write("nvidia-smi does not answer: the GPU's temperature was not watched\n")
    bad = [entry for entry in files.results.values() if entry.verdict == "broken" or entry.why == "out of time"]
    return BROKEN if bad else 0


def write(text: str) -> None:
    """Write progress at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: STOP.set())
    os.environ.setdefault("PYTHONWARNINGS", "ignore:Failed to initialize NumPy")
    sys.exit(main())
