"""Public test suites that `make test-suites` runs: the sources that they need, and what their results mean."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

SLURM_TABLE = Path(__file__).parents[1] / "stories" / "jobs" / "slurm_suite.yaml"
_CAUSES = ("test", "lab", "site")  # of a failure: the test itself, a rehearsal's limits, what the blueprint leaves out
_SKIPPED = 255  # -1, as the shell has it (STATUS_SKIP of Slurm's globals)
_TOOK_TOO_LONG = 124  # by timeout(1)
_RAN = re.compile(r"^Ran ([0-9]+) tests in", re.MULTILINE)
_SUMMARY = re.compile(r"^(?:OK|FAILED)(?: \(([^)\n]*)\))?$", re.MULTILINE)
_UNSUCCESSFUL = re.compile(r"^(?:ERROR|FAIL): \S+ \(([^)\n]*)\)$", re.MULTILINE)
_TEST = re.compile(r"test([0-9]+)\.([0-9]+)")


@dataclass(frozen=True)
class Source:
    """A folder of sources: a file that it has, and the command that fetches it."""

    file: str
    fetch: str


SOURCES = {
    "osu": Source("mpi/pt2pt/osu_latency.c", "git clone https://github.com/forresti/osu-micro-benchmarks osu"),
    "mpi4py": Source(
        "test/runtests.py",
        "pip download --no-deps --no-binary mpi4py mpi4py==3.1.4 && tar -xzf mpi4py-3.1.4.tar.gz && "
        "mv mpi4py-3.1.4 mpi4py",
    ),
    "slurm": Source(
        "testsuite/expect/globals",
        "git clone --depth 1 --branch slurm-22-05-8-1 https://github.com/SchedMD/slurm slurm",
    ),
    "reframe": Source("reframe/__init__.py", "python3.11 -m pip install --target reframe ReFrame-HPC"),
}


@dataclass(frozen=True)
class Expected:
    """The failures of Slurm's own tests that have a known cause: by test, the cause and the reason."""

    families: tuple[int, ...]
    failures: Mapping[str, tuple[str, str]]


def user_script(user: str, script: str) -> str:
    """Return a script that runs another as a user, prints its output, and last its exit status.

    Not by `sudo -i`: a shell of its own would fill in the script's variables first.
    """
    return f"cd /; sudo -Hu {user} sh -c {shlex.quote(script)} 2>&1; code=$?; echo; echo $code"


def status_of(output: str) -> int:
    """Return the exit status at the end of what a `user_script` printed."""
    return int(output.rsplit(maxsplit=1)[-1])


def sources_needed(folder: Path | None) -> list[str]:
    """Return a line for each folder of sources that is not in `folder`, with the command that fetches it."""
    return [
        f"{name}/{source.file}: {source.fetch}"
        for name, source in SOURCES.items()
        if folder is None or not (folder / name / source.file).is_file()
    ]


def slurm_tests(expect: Path, families: tuple[int, ...]) -> list[str]:
    """Return the tests of these families in Slurm's folder `testsuite/expect`, such as 1.35, in order."""
    numbers = [tuple(map(int, name.groups())) for path in expect.iterdir() if (name := _TEST.fullmatch(path.name))]
    return [f"{family}.{number}" for family, number in sorted(numbers) if family in families]


def read_expected(path: Path = SLURM_TABLE) -> Expected:
    """Return the known failures; ValueError for a cause that is none of the three."""
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    failures = {test: (cause, reason) for cause in _CAUSES for test, reason in written.pop(cause, {}).items()}
    families = tuple(written.pop("families"))
    if written:
        raise ValueError(f"{path.name}: {', '.join(written)} is none of families, {', '.join(_CAUSES)}")
    return Expected(families, failures)


def unexpected(results: Mapping[str, int], expected: Expected) -> list[str]:
    """Return a line for each failure without a known cause. A result is the exit status of a test."""
    return [f"{test}: {_words(results[test])}" for test in _failed(results) if test not in expected.failures]


def table(results: Mapping[str, int], expected: Expected) -> Iterator[str]:
    """Yield the lines of a table of Slurm's tests: how many passed, and each failure with its cause."""
    failed, skipped = _failed(results), list(results.values()).count(_SKIPPED)
    passed = len(results) - len(failed) - skipped
    yield f"{len(results)} tests: {passed} passed, {skipped} skipped, {len(failed)} failed"
    for test in failed:
        yield "  ".join((test, _words(results[test]), *expected.failures.get(test, ("unknown",))))


def unittest_results(output: str) -> tuple[int, list[str]]:
    """Return how many tests of unittest passed, and the names of those that did not; 0 if it did not come to its end.

    Of several ranks that print, the one that passed fewest counts.
    """
    failed = sorted(set(_UNSUCCESSFUL.findall(output)))
    counts = [
        int(ran) - sum(map(int, re.findall(r"=([0-9]+)", summary)))
        for ran, summary in zip(_RAN.findall(output), _SUMMARY.findall(output), strict=False)
    ]
    return min(counts, default=0), failed


def _failed(results: Mapping[str, int]) -> list[str]:
    return [test for test, status in results.items() if status not in (0, _SKIPPED)]


def _words(status: int) -> str:
    return "took too long" if status == _TOOK_TOO_LONG else f"exit status {status}"
