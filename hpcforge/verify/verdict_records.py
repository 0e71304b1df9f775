"""The last verdicts in the head's record: of each test and node set, and the nodes for which they still stand.

A verdict on some of a set's nodes, after these changed, is kept beside that of the whole set, not in its place. The
nodes of a change that affects jobs leave the verdict *before* the change, so that the next run tests them even if this
run is cut off.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError

from hpcforge.adapters import adapter
from hpcforge.blueprint import values as v
from hpcforge.blueprint.hostlist import expand, fold
from hpcforge.cluster.model import SmokeTest
from hpcforge.verify.verdicts import Verdict, summary_line

SCHEMA_VERSION = 2
VERDICTS_PATH = "/var/lib/hpcforge/verdicts.json"  # on the head

_MOST_BYTES = 3 * 2**20  # readers take 4 MiB (hpcforge.node.files.READ_LIMIT), and text may not be ASCII
_LAST_S = 1e11  # since 1970: the year 5138


@dataclass(frozen=True)
class KeptVerdicts:
    """The last verdicts of a test on a node set. Times are seconds since 1970, UTC."""

    verdict: Verdict  # of the whole set, or of all its usable nodes
    time_s: float
    stands_for: tuple[v.NodeName, ...]  # nodes that have passed since they last changed
    served: bool = True  # False: a node that runs no jobs and that jobs need has changed since
    part: Verdict | None = None  # the last on some nodes after a change
    part_s: float = 0.0

    @property
    def last(self) -> Verdict:
        """The newest verdict."""
        return self.part or self.verdict

    @property
    def changed(self) -> tuple[str, ...]:
        """Nodes that were tested, have changed since, and were not tested again; none where the last did not pass."""
        stands = {*self.stands_for}
        tested = dict.fromkeys((*self.verdict.nodes, *(self.part.nodes if self.part else ())))
        return tuple(node for node in tested if node not in stands) if self.last.passed else ()

    @property
    def last_s(self) -> float:
        """The time of the newest verdict."""
        return self.part_s if self.part else self.time_s


@dataclass(frozen=True)
class Recorded:
    """The kept verdicts. `problem` is the reason why they cannot be read."""

    kept: tuple[KeptVerdicts, ...] = ()
    problem: str | None = None

    def of(self, test: SmokeTest) -> KeptVerdicts | None:
        """Return the kept verdicts of a test on a node set, or on the most similar one: sets grow and shrink."""
        span = {*test.nodes}
        candidates = [
            (len(span & {*record.stands_for}), len(span & {*record.verdict.nodes}), record) for record in self.kept
        ]
        candidates = [entry for entry in candidates if entry[2].verdict.test == test.name and any(entry[:2])]
        return max(candidates, key=lambda entry: entry[:2])[2] if candidates else None

    def changed(self, nodes: Collection[str], *, served: bool) -> Recorded:
        """Return these after a change of nodes; `served` False: a node that runs no jobs and that jobs need."""
        return replace(
            self,
            kept=tuple(
                replace(
                    record,
                    stands_for=tuple(node for node in record.stands_for if node not in nodes),
                    served=record.served and served,
                )
                for record in self.kept
            ),
        )

    def reached(
        self, tests: Sequence[SmokeTest], new: Iterable[tuple[SmokeTest, Verdict, bool]], at_s: float
    ) -> Recorded:
        """Return these with new verdicts on sets, each for the whole set or a part; `tests`: the present sets.

        A verdict that only waits for users' jobs shows nothing about the cluster and replaces nothing.
        """
        by_set = {test: self.of(test) for test in tests}
        for test, verdict, complete in new:
            before = by_set[test]
            if verdict.waits_for:
                continue
            kept_verdict = replace(verdict, lines=())  # computed again on reading
            if complete or before is None:
                by_set[test] = KeptVerdicts(kept_verdict, at_s, verdict.nodes if verdict.passed else ())
                continue
            stands_for = tuple(dict.fromkeys((*before.stands_for, *verdict.nodes)))
            by_set[test] = replace(
                before, stands_for=stands_for if verdict.passed else (), served=True, part=kept_verdict, part_s=at_s
            )
        records: list[KeptVerdicts] = []
        records += (record for record in by_set.values() if record is not None and record not in records)
        return Recorded(tuple(records))


def _expanded(text: str) -> tuple[str, ...]:
    return expand(text) if text else ()


def dump(recorded: Recorded) -> str:
    """Return JSON text, without numbers if it would exceed the limit of reading: verdicts come first."""
    text = _written(recorded.kept)
    return text if len(text) <= _MOST_BYTES else _written(map(_without_numbers, recorded.kept))


def _written(records: Iterable[KeptVerdicts]) -> str:
    documents = [{**dataclasses.asdict(record), "stands_for": fold(record.stands_for)} for record in records]
    return json.dumps({"schema_version": SCHEMA_VERSION, "kept": documents}, indent=1) + "\n"


def _without_numbers(record: KeptVerdicts) -> KeptVerdicts:
    def slim(verdict: Verdict) -> Verdict:
        return replace(verdict, measurements=(), assertions=(), isolation=None)

    return replace(record, verdict=slim(record.verdict), part=None if record.part is None else slim(record.part))


def load(text: str | None) -> Recorded:
    """Read text of `dump`; None: no verdicts yet. Unreadable text gives a `problem`, never an exception."""
    if text is None:
        return Recorded()
    try:
        document = json.loads(text)
        version = document["schema_version"]
        if version != SCHEMA_VERSION:
            return Recorded(problem=f"written by another version of hpcforge (schema {version!r:.20})")
        records = adapter(tuple[KeptVerdicts, ...]).validate_python(
            [{**record, "stands_for": _expanded(record["stands_for"])} for record in document["kept"]]
        )
        for record in records:
            for time_s in (record.time_s, record.part_s):
                if not 0 <= time_s <= _LAST_S:
                    return Recorded(problem=f"damaged: its time is {time_s:g}")
            for verdict in (record.verdict, record.last):
                summary_line(verdict)  # raises for a verdict that cannot be shown
                if not all(math.isfinite(number) for assertion in verdict.assertions for number in assertion.numbers):
                    return Recorded(problem="damaged: a number of an assertion is not finite")
                for name, value in (pair for measured in verdict.measurements for pair in measured.items()):
                    if not isinstance(value, str) and not math.isfinite(value):
                        return Recorded(problem=f"damaged: {name} is {value}")
        return Recorded(records)
    except ValidationError as error:
        first = error.errors()[0]
        return Recorded(problem=f"damaged: {'.'.join(str(part) for part in first['loc'])}: {first['msg']}")
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        return Recorded(problem=f"damaged: {type(error).__name__}: {error}")
