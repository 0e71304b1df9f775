"""The head's records of measurements: baselines by name, usual rates, and a line for each past verification. Pure.

A baseline has, of each test, measure and part, the last few values, and counts by their median. It holds for the
software with which it was measured: its fingerprint. A baseline that is saved again with another fingerprint begins
from the start.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from pydantic import ValidationError

from hpcforge.adapters import adapter
from hpcforge.verify.step_output import finite

VERIFICATIONS_PATH = "/var/lib/hpcforge/verifications.json"  # on the head
SCHEMA_VERSION = 1
MOST_BASELINES = 8
MOST_RUNS = 50
_VALUES = 5  # kept for each key
_LARGEST = 4 * 2**20  # bytes of the text: one request carries them easily

Values = Mapping[str, Mapping[str, Sequence[float]]]  # by measure and part, the oldest first


@dataclass(frozen=True)
class SavedTest:
    """The values of one test, and the versions of the software at that time."""

    fingerprint: Mapping[str, str]
    values: Values

    def medians(self) -> dict[str, dict[str, float]]:
        """Return the median by measure and part."""
        return {
            name: {part: median(values) for part, values in parts.items() if values}
            for name, parts in self.values.items()
        }


@dataclass(frozen=True)
class Baseline:
    """The tests of a baseline, by name. Times are seconds since 1970, UTC."""

    name: str
    time_s: float
    tests: Mapping[str, SavedTest] = field(default_factory=dict)


@dataclass(frozen=True)
class PastVerification:
    """One run of `hpcforge verify`."""

    time_s: float
    who: str
    statuses: Mapping[str, str]  # by test
    headlines: Mapping[str, str] = field(default_factory=dict)
    commit: str | None = None


@dataclass(frozen=True)
class Verifications:
    """The records of verifications. `problem` is the reason why they cannot be read."""

    baselines: tuple[Baseline, ...] = ()  # in the order of saving
    runs: tuple[PastVerification, ...] = ()
    usual: Mapping[str, SavedTest] = field(default_factory=dict)  # by test: rates of its last runs that passed
    problem: str | None = None

    def baseline(self, name: str) -> Baseline | None:
        return next((baseline for baseline in self.baselines if baseline.name == name), None)

    def saved(self, name: str, time_s: float, measured: Mapping[str, SavedTest]) -> Verifications:
        """Return these with new values in a baseline: added to those of the same software, in place of others."""
        before = self.baseline(name)
        tests = _added(before.tests if before else {}, measured)
        others = [baseline for baseline in self.baselines if baseline.name != name]
        return dataclasses.replace(self, baselines=(*others[-(MOST_BASELINES - 1) :], Baseline(name, time_s, tests)))

    def with_usual(self, measured: Mapping[str, SavedTest]) -> Verifications:
        """Return these with rates of one more run of some tests."""
        return dataclasses.replace(self, usual=_added(self.usual, measured))

    def with_run(self, run: PastVerification) -> Verifications:
        """Return these with one more verification."""
        return dataclasses.replace(self, runs=(*self.runs[-(MOST_RUNS - 1) :], run))


def difference(current: Mapping[str, str], saved: Mapping[str, str]) -> str:
    """Describe the differences between two fingerprints; "" if there are none."""
    differs = [key for key in dict.fromkeys((*saved, *current)) if current.get(key) != saved.get(key)]
    return "; ".join(
        f"{key} {current.get(key) or 'none'}, the baseline has {saved.get(key) or 'none'}" for key in differs
    )


def dump(verifications: Verifications) -> str:
    """Return JSON text of at most 4 MiB: without the oldest baselines if they do not fit, then without usual rates."""
    baselines, usual = list(verifications.baselines), dict(verifications.usual)
    while True:
        document = {
            "schema_version": SCHEMA_VERSION,
            "baselines": [dataclasses.asdict(baseline) for baseline in baselines],
            "usual": {test: dataclasses.asdict(saved) for test, saved in usual.items()},
            "runs": [dataclasses.asdict(run) for run in verifications.runs],
        }
        text = json.dumps(document, separators=(",", ":")) + "\n"
        if len(text) <= _LARGEST or not (baselines or usual):
            return text
        if baselines:
            del baselines[0]
        else:
            usual.clear()


def load(text: str | None) -> Verifications:
    """Read text of `dump`; None: no records yet. Unreadable text gives a `problem`, never an exception."""
    if text is None:
        return Verifications()
    try:
        document = json.loads(text)
        if document["schema_version"] != SCHEMA_VERSION:
            return Verifications(problem="written by another version of hpcforge")
        verifications = Verifications(
            adapter(tuple[Baseline, ...]).validate_python(document["baselines"]),
            adapter(tuple[PastVerification, ...]).validate_python(document["runs"]),
            adapter(dict[str, SavedTest]).validate_python(document.get("usual", {})),
        )
    except ValidationError as error:
        first = error.errors()[0]
        return Verifications(problem=f"damaged: {'.'.join(map(str, first['loc']))}: {first['msg']}")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        return Verifications(problem=f"damaged: {type(error).__name__}: {error}")
    tests = [
        *(test for baseline in verifications.baselines for test in baseline.tests.values()),
        *verifications.usual.values(),
    ]
    every = (value for test in tests for value in _flat(test.values))
    return verifications if all(map(finite, every)) else Verifications(problem="damaged: a value is not finite")


def _flat(values: Values) -> list[float]:
    return [value for parts in values.values() for part_values in parts.values() for value in part_values]


def _added(before: Mapping[str, SavedTest], measured: Mapping[str, SavedTest]) -> dict[str, SavedTest]:
    """Add new values to those of the same software, in place of others."""
    tests = dict(before)
    for test, new in measured.items():
        old = tests.get(test)
        tests[test] = _joined(old, new) if old and old.fingerprint == new.fingerprint else new
    return tests


def _joined(old: SavedTest, new: SavedTest) -> SavedTest:
    """Return the newest values of each part; old values stay for parts without a new one, such as nodes in use."""
    values: dict[str, dict[str, Sequence[float]]] = {measure: dict(parts) for measure, parts in old.values.items()}
    for measure, parts in new.values.items():
        for part, latest in parts.items():
            before = old.values.get(measure, {}).get(part, ())
            values.setdefault(measure, {})[part] = [*before, *latest][-_VALUES:]
    return SavedTest(new.fingerprint, values)
