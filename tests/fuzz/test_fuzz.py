"""Whatever stands in a file, `validate` says 0 or 3: no traceback, at most 2 s of CPU and 256 MiB, nothing odd printed.

The files are blueprints, inventories, role.yaml, templates and test.yaml. `make test` tries 500 inputs, `make fuzz`
10,000, a third of them of the last three kinds. What fails is written to a folder that is named; put into corpus/, it
is tried every time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.fuzz import folders
from tests.fuzz.generate import inputs
from tests.fuzz.pool import Answer, Input, answers


def _folders(seed: int, count: int) -> Iterator[Input]:
    return (folders.singular(seed, number) for number in range(count))


CORPUS = sorted(path for path in (Path(__file__).parent / "corpus").iterdir() if path.is_dir())


def judged(found: Iterable[Answer], folder: Path) -> list[Answer]:
    """All answers, none of them wrong; those that are, are written down, and where."""
    every = list(found)
    bad = [answer for answer in every if answer.wrong]
    for answer in bad:
        answer.tried.write(folder / answer.tried.name)
    said = "\n".join(f"{folder / answer.tried.name}: {str(answer.wrong)[-1500:]}" for answer in bad[:20])
    assert not bad, f"{len(bad)} of {len(every)} inputs\n{said}"
    return every


def test_the_corpus(tmp_path: Path) -> None:
    every = judged(answers(map(Input.read, CORPUS), tmp_path / "work"), tmp_path / "failed")
    assert len(every) == len(CORPUS) > 10


def test_inputs_of_a_seed(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    seed, count = (int(pytestconfig.getoption(name)) for name in ("--fuzz-seed", "--fuzz-inputs"))
    print(f"seed {seed}: {count} inputs")
    third = count // 3
    every = judged(
        answers(chain(inputs(seed, count - third), _folders(seed, third)), tmp_path / "work"), tmp_path / "failed"
    )
    valid = sum(answer.code == 0 for answer in every)
    slowest = max(every, key=lambda answer: answer.cpu_s)
    print(f"{valid} valid, {count - valid} refused; {sum(answer.cpu_s for answer in every):.1f} s of CPU, "
          f"{slowest.cpu_s:.2f} s the slowest, {slowest.tried.name}")  # fmt: skip
    of_folders = [answer for answer in every if answer.tried.files]
    print(
        f"{third} of them are roles, templates and smoke tests: "
        f"{sum(of_folder.code == 0 for of_folder in of_folders)} valid"
    )
    assert len(every) == count
    assert valid >= 0.3 * count
    assert count - valid >= 0.3 * count
