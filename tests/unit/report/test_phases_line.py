"""The line that says where the time went, beside a clock."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpcforge.report.text import phases_line

BLUEPRINT = Path(__file__).parents[3] / "blueprints" / "rehearsal.yaml"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFdmGbFIEHRUVyxiPVwMw+EqCnl0ZJ+QjzgnFYvTvD3Z"
_SPAN = r"(?:(?P<min>[0-9]+) min )?(?P<s>[0-9.]+) s"


def _seconds(text: str) -> float:
    match = re.fullmatch(_SPAN, text)
    assert match, text
    return 60 * float(match["min"] or 0) + float(match["s"])


@pytest.fixture
def nobody_answers(tmp_path: Path) -> Path:
    """A blueprint whose four nodes are on this machine, at addresses where nobody lets anybody in."""
    text = BLUEPRINT.read_text(encoding="utf-8").replace("10.77.0.", "127.77.0.")
    text = text.replace("inventory: {lab: nspawn}", "inventory: machines.yaml")
    text = text.replace("path: site_roles", f"path: {BLUEPRINT.parent}/site_roles")
    keys = "".join(f"  {node}: {{host_keys: [{KEY}]}}\n" for node in ("head", "w01", "w02", "w03"))
    (tmp_path / "machines.yaml").write_text(f"schema: 1\nnodes:\n{keys}", encoding="utf-8")
    path = tmp_path / "site.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_it_is_what_a_clock_beside_it_shows(nobody_answers: Path, tmp_path: Path) -> None:
    words = ["apply", str(nobody_answers), "--yes", "--identity", str(tmp_path / "age.key")]
    began_s = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "hpcforge", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line.strip())
            if line.startswith("time: "):
                break
        clock_s = time.monotonic() - began_s
        process.stderr.read()
    parts, total = said[-1].removeprefix("time: ").split("; total ")
    spans = dict(part.split(" ", 1) for part in parts.split(", "))
    assert "start" in spans
    assert _seconds(spans["start"]) > 0.1  # Python and our modules take longer than that anywhere
    assert 0.8 * clock_s - 0.2 < _seconds(total) <= clock_s + 0.1  # on a busy machine its line takes a while to us
    assert abs(sum(map(_seconds, spans.values())) - _seconds(total)) < 0.1 * (len(spans) + 1)
    first = next(line for line in said if line.startswith("["))
    assert _seconds(first[1 : first.index("]")].strip()) >= _seconds(spans["start"]) - 0.1


def test_spans_and_what_lies_between_them_make_the_whole() -> None:
    assert phases_line({"start": 0.62, "observe": 1.0, "admit": 0.01}, 2.13) == (
        "time: start 0.6 s, observe 1.0 s, other 0.5 s; total 2.1 s\n"
    )
    assert (
        phases_line({"start": 0.01, "nodes at ssh": 61.0}, 61.02) == "time: nodes at ssh 1 min 1 s; total 1 min 1 s\n"
    )
