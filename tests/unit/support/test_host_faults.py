from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support.host_faults import (
    FOLDER,
    HostFault,
    blocks_of,
    changes,
    named,
    named_after,
    page,
    printed_remedy,
    read_fault,
    read_faults,
    results,
)

ROOT = Path(__file__).parents[3]
FAULTS = read_faults()
HELD = HostFault(
    "holds", "packages on hold", "https://example.org/1", "configured", "apt-mark hold chrony", 5, "tests/x.py::test_x",
    ("package chrony: it is on hold",), "printed",
)  # fmt: skip
OUTPUT = """\
w01: left out, and nothing is changed there until this is resolved:
  ! time: package chrony: it is broken
      run there: dpkg --configure -a
w02: left out, and nothing is changed there until this is resolved:
  ! time: package chrony: it is on hold
      run there: apt-mark unhold chrony
w02-b: done
"""
LINES = [(float(number), line) for number, line in enumerate(OUTPUT.splitlines(keepends=True))]


def write(folder: Path, **values: object) -> Path:
    """Write a fault with these values; None leaves a key out."""
    path = folder / "holds.yaml"
    written = {"fault": "f", "source": "https://example.org", "state": "fresh", "plant": "true", "exit": 0, "test": "t"}
    path.write_text(yaml.safe_dump({key: value for key, value in (written | values).items() if value is not None}))
    return path


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"plants": "true"}, "a key that is not of"),
        ({"plant": None}, "without plant"),
        ({"exit": "5"}, "exit is no int"),
        ({"quick": 1}, "quick is no bool"),
        ({"says": "on hold"}, "says is no"),
        ({"state": "old"}, "state is none of fresh, configured"),
        ({"verb": "rehearse"}, "verb is none of apply, "),
        ({"exit": 5}, "without says, remedy"),
    ],
)
def test_a_wrong_file_is_refused(values: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read_fault(write(tmp_path, **values))


def test_a_file_is_read_with_defaults(tmp_path: Path) -> None:
    fault = read_fault(write(tmp_path, exit=5, says=["a", "b"], remedy="true"))
    assert (fault.name, fault.says, fault.node, fault.verb) == ("holds", ("a", "b"), "w02", "apply")


def test_a_sentence_counts_for_the_node_that_it_is_about() -> None:
    assert named(HELD, OUTPUT)
    assert not named(HELD, OUTPUT.replace("w02:", "w03:"))
    assert not named(HELD, OUTPUT.replace("on hold", "no hold"))
    assert len(blocks_of("w02", OUTPUT)) == 1
    assert named_after(HELD, LINES) == 4.0
    assert named_after(HELD, LINES[:4]) is None


def test_the_printed_remedy_is_that_of_the_node() -> None:
    assert printed_remedy(HELD, OUTPUT + OUTPUT) == "apt-mark unhold chrony"


def test_each_fault_names_a_test_that_exists() -> None:
    """A test of the module that names the fault; of what works in spite of it, perhaps only the one on nodes."""
    assert len(FAULTS) >= 5
    for fault in FAULTS:
        path, _, name = fault.test.partition("::")
        name, _, case = name.partition("[")
        assert f"def {name}(" in (ROOT / path).read_text(), fault.name
        assert path.startswith("tests/unit/") or (fault.exit == 0 and case == f"{fault.name}]"), fault.name


def test_the_published_page_is_current(golden: Callable[[Path, str], None]) -> None:
    measured = yaml.safe_load((FOLDER / "measured.yaml").read_text())
    assert measured["seconds"].keys() <= {fault.name for fault in FAULTS}
    text = "\n".join(page(FAULTS, measured["seconds"], str(measured["date"] or ""))) + "\n"
    assert all(f"`{fault.test}`" in text for fault in FAULTS)
    golden(ROOT / "docs" / "host-faults.md", text)


def test_results_are_those_of_the_table() -> None:
    table = "nodes     result\nhead      unchanged\nw[01,03]  configured\nw02       failed      a: x\n"
    output = f"w02: a FAILED: x\n{table}\n\ntime: start 4.1 s\n"
    assert results(output) == {"head": "unchanged", "w01": "configured", "w03": "configured", "w02": "failed"}
    assert results("nothing") == {}


def test_what_changed_is_listed() -> None:
    assert changes(["a", "b"], ["b", "c"]) == ["-a", "+c"]
