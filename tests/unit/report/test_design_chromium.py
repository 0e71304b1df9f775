"""Pages of designs and acceptance reports in a real headless Chromium, at 1280 and at 390 pixels: one start for all."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cluster import load
from hpcforge.cluster.design import designed
from hpcforge.report.acceptance import acceptance_report
from hpcforge.report.html.acceptance import acceptance_page
from hpcforge.report.html.design import design_page
from hpcforge.report.html.fabrics import script
from tests.unit.report import acceptances, designs

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"), reason="chromium is not installed (Debian: apt-get install chromium)"
)

BLUEPRINTS = sorted((Path(__file__).parents[3] / "blueprints").glob("*.yaml"))
MADE = {"unit": designs.unit, "hostile": designs.hostile, "large": designs.large, "without_site": designs.without_site}
ACCEPTED = {"accepted": acceptances.whole, "not_accepted": acceptances.broken}
PAGES = (*MADE, *ACCEPTED, "hostile_fabric", *(path.name for path in BLUEPRINTS))
WIDTHS = (1280, 390)
CONTROL = """<!DOCTYPE html><html lang="en"><title>all that must be noticed</title><body style="margin:0">
<svg class="rack" viewBox="0 0 100 50" width="100" height="50"><text x="5" y="20">one</text>
<text x="8" y="22">two</text>
<g><rect x="60" y="20" width="10" height="10"></rect><text x="60" y="30">wider than its box</text></g></svg>
<p style="color:#ccc;margin:0">faint</p><p style="margin-top:-12px">over the line before</p>
<p style="width:3000px;font-size:4px">wide</p><img src="http://control.example/x" onerror="1" alt=""></body></html>"""
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
         "--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr")  # fmt: skip


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[str]]:
    """What was measured of each page at each width, and the lines of the console."""
    assert CHROMIUM, "chromium is not installed, and CI must run this test"
    folder = tmp_path_factory.mktemp("chromium")
    pages = {name: design_page(make()) for name, make in MADE.items()}
    for name, made in ACCEPTED.items():
        basis = made()
        pages[name] = acceptance_page(acceptance_report(basis), basis.cluster)
    pages["hostile_fabric"] = design_page(*designs.with_hostile_fabric())
    pages |= {path.name: _page(path) for path in BLUEPRINTS}
    frames = [_frame(f"{name}-{width}", text, width) for name, text in pages.items() for width in WIDTHS]
    script = Path(__file__).with_name("measure.js").read_text(encoding="utf-8")
    body = "\n".join((*frames, _frame("control", CONTROL, 390), f"<script>{script}</script>"))
    (folder / "frames.html").write_text(f'<!DOCTYPE html><meta charset="utf-8"><body>{body}', encoding="utf-8")
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", "--dump-dom", str(folder / "frames.html")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    found = re.search(r"<pre>(.*)</pre>", done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(found[1])), console


def _page(blueprint: Path) -> str:
    loaded = load(blueprint, judged=False)
    return design_page(designed(loaded, blueprint.name), loaded.cables)


def _frame(name: str, text: str, width: int) -> str:
    return f'<iframe id="{name}" width="{width}" height="2000" style="border:0" srcdoc="{html.escape(text)}"></iframe>'


def test_measuring_notices_what_it_should(chromium: tuple[dict[str, Any], list[str]]) -> None:
    control = chromium[0]["control"]
    assert control["overlaps"] == ["faint / over the line before", "one / two"]
    assert control["escaped"] == ["wider than its box", "wider than its box in its box"]
    assert control["page_overflow"] > 2000
    assert control["smallest_px"] == 4
    assert control["faint"] == ["faint"]
    assert (control["scripts"], control["handlers"], control["requests"]) == (1, 1, ["http://control.example/x"])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_page_reads_well(chromium: tuple[dict[str, Any], list[str]], name: str, width: int) -> None:
    page = chromium[0][f"{name}-{width}"]
    assert page["lines"] > 20
    assert page["width"] >= width - 20  # a scrollbar takes some
    assert page["page_overflow"] == 0
    assert page["overlaps"] == []
    assert page["escaped"] == []
    assert page["clipped"] == []
    assert page["smallest_px"] >= 9
    assert page["faint"] == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_page_loads_and_runs_nothing(chromium: tuple[dict[str, Any], list[str]], name: str, width: int) -> None:
    page = chromium[0][f"{name}-{width}"]
    assert page["inline"] == ([script()] if page["search"] else [])
    assert (page["scripts"], page["handlers"], page["requests"]) == (len(page["inline"]), 0, [])


@pytest.mark.parametrize("width", WIDTHS)
def test_cables_can_be_searched(chromium: tuple[dict[str, Any], list[str]], width: int) -> None:
    """The script runs although the policy of the page names no other; phrases may stand in any order and case."""
    search = chromium[0][f"dgx-h100-pod.yaml-{width}"]["search"]
    assert search["rows"] == 2_044
    assert search["said"] == "1 of 2,044 cables"
    [row] = search["shown"]
    assert "gpu002 rail 2" in row
    assert "compute-leaf-002 port 1/2" in row


def test_console_is_silent(chromium: tuple[dict[str, Any], list[str]]) -> None:
    ours = [line for line in chromium[1] if "control.example" not in line]
    assert len(ours) == 1
    assert '"measured"' in ours[0]


def test_a_name_that_is_markup_stays_text(chromium: tuple[dict[str, Any], list[str]]) -> None:
    for width in WIDTHS:
        page = chromium[0][f"hostile-{width}"]
        assert page["title"] == f"{designs.SCRIPT}: facility design"
        assert any(label.startswith("<script>") for label in page["labels"])
