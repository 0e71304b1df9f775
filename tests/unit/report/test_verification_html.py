"""The page: nothing is loaded or run, no text becomes markup, and it says what was left out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hpcforge.report.verification_html import verification_page
from tests.unit.report.verifications import report

CHROMIUM = shutil.which("chromium")
FRAMES = """<!DOCTYPE html><body>{frames}<pre id="out"></pre><script>
onload = () => setTimeout(() => {{ out.textContent = [...document.querySelectorAll("iframe")].map(frame => {{
  const page = frame.contentDocument.documentElement;
  return frame.width + ":" + page.scrollWidth + ":" + page.querySelectorAll("svg").length;
}}).join(" "); }}, 300);
</script>"""


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen = list[str]()
        self.links = list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]


def test_nothing_is_loaded_and_nothing_runs() -> None:
    page = verification_page(report())
    tags = Tags()
    tags.feed(page)
    assert "script" not in tags.seen
    assert all(link.startswith(("#", "data:")) for link in tags.links)
    assert "\x1b" not in page
    assert "default-src 'none'" in page


def test_it_says_what_an_auditor_asks() -> None:
    words = " ".join(re.sub(r"<[^>]*>", " ", verification_page(report())).split())
    for text in (
        "1 of 3 tests passed",
        "site.yaml , SHA-256 " + "ab" * 32,
        "0123 , with changes that are not committed",
        "w5 : unreachable: no route",
        "w4 : in use: job 20, ada&#39;s train",
        "w1 is drained now: smoke test copy missed",
        "hpl not tested beyond the level smoke (level quick)",
        "a node&#39;s adapters: 1 x 100 Gb/s / 8",
        "rate by message size",
        "rate, GB/s, by node",
        "loss of by step, against its reference",
        "rate, GB/s, from node to node, rail 0",
    ):
        assert text in words, text


@pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="chromium is not installed: make host-test")
def test_it_fits_a_telephone_and_a_screen(tmp_path: Path) -> None:
    assert CHROMIUM
    (tmp_path / "page.html").write_text(verification_page(report()))
    frames = "".join(f'<iframe width="{wide}" height="900" src="page.html"></iframe>' for wide in (390, 1280))
    (tmp_path / "frames.html").write_text(FRAMES.format(frames=frames))
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
         "--virtual-time-budget=5000", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom",
         str(tmp_path / "frames.html")],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    measured = re.search(r'<pre id="out">([^<]*)</pre>', done.stdout)
    assert measured, done.stderr[-500:]
    for frame in measured[1].split():
        wide, scrolls, drawings = map(int, frame.split(":"))
        assert scrolls <= wide, frame  # no text is wider than the window
        assert drawings >= 4
