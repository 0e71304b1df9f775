"""The style that all pages share, in a real Chromium: what scrolls shows it, keys show where they are, paper is white.

How a page prints is measured on a screen as wide as a sheet of A4, with the rules for print in place of the others.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from typing import Any

import pytest

from tests.unit.report.test_accessibility import FLAGS, made

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"), reason="chromium is not installed (Debian: apt-get install chromium)"
)

PAGES = ("design", "fabric", "not_accepted", "verification", "status", "live")
WIDTHS = (390, 800)
PAPER = 718  # A4 less Chromium's margins, px
SCRIPT = """
const name = (element) => `${element.tagName} ${element.className}`;
function measured(frame) {
  const page = frame.contentDocument, style = (element) => frame.contentWindow.getComputedStyle(element);
  const printed = frame.id.endsWith("-print");
  const folded = [...page.querySelectorAll("details")];
  const shown = (details) => details.offsetHeight > details.querySelector("summary").offsetHeight + 8;
  const found = { folded: folded.filter((each) => !shown(each)).map(name), background: style(page.body).backgroundColor,
    wide: page.documentElement.scrollWidth - page.documentElement.clientWidth,
    nav: [...page.querySelectorAll("nav, .search")].filter((each) => each.getClientRects().length).map(name) };
  if (!printed) for (const details of folded) details.open = true;
  const scrolls = [...page.body.querySelectorAll("*")].filter((each) => /auto|scroll/.test(style(each).overflowX));
  const ends = [...page.querySelectorAll("a[href], summary, button, input, [tabindex]")].filter(
    (each) => each.getClientRects().length);
  return { ...found, scrolls: scrolls.length, keys: ends.length,
    wider: scrolls.filter((each) => each.scrollWidth > each.clientWidth + 1).length,
    nameless: scrolls.filter((each) => each.tabIndex !== 0 || !each.role || !each.ariaLabel).map(name),
    plain: scrolls.filter((each) => (style(each).backgroundAttachment.match(/local/g) || []).length !== 2).map(name),
    unseen: ends.filter((each) => { each.focus({ focusVisible: true, preventScroll: true });
      return style(each).outlineStyle === "none" || parseFloat(style(each).outlineWidth) < 2; }).map(name) };
}
addEventListener("load", () => {
  const frames = [...document.querySelectorAll("iframe")];
  const results = Object.fromEntries(frames.map((frame) => [frame.id, measured(frame)]));
  document.body.replaceChildren(Object.assign(document.createElement("pre"), { textContent: JSON.stringify(results) }));
});
"""
CONTROL = """<!DOCTYPE html><body><nav>a</nav><div style="overflow:auto;width:50px"><p style="width:900px">wide</div>
<a href="#" style="outline:none">plain</a><details><summary>s</summary>folded</details>"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was measured of each page: on two screens that are dark, and on paper."""
    assert CHROMIUM, "chromium is not installed, and CI must run this test"
    folder = tmp_path_factory.mktemp("common")
    frames = [_frame("control-390", CONTROL, 390)]
    for name, text in made().items():
        frames += [_frame(f"{name}-{width}", text, width) for width in WIDTHS]
        on_paper = re.sub(r"@media screen[^{]*", "@media not all ", text).replace("@media print", "@media all")
        frames.append(_frame(f"{name}-print", on_paper, PAPER))
    text = f'<!DOCTYPE html><meta charset="utf-8"><body>{"".join(frames)}<script>{SCRIPT}</script>'
    (folder / "frames.html").write_text(text, encoding="utf-8")
    command = [CHROMIUM, *FLAGS, "--blink-settings=preferredColorScheme=0", f"--user-data-dir={folder / 'profile'}"]
    done = subprocess.run(
        [*command, "--dump-dom", str(folder / "frames.html")], capture_output=True, text=True, timeout=900, check=True
    )
    found = re.search(r"<pre>(.*)</pre>", done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return dict(json.loads(html.unescape(found[1])))


def _frame(name: str, text: str, width: int) -> str:
    return f'<iframe id="{name}" width="{width}" height="900" style="border:0" srcdoc="{html.escape(text)}"></iframe>'


def test_measuring_notices_what_it_should(pages: dict[str, Any]) -> None:
    control = pages["control-390"]
    assert (control["wider"], control["nameless"], control["plain"]) == (1, ["DIV "], ["DIV "])
    assert (control["unseen"], control["nav"]) == (["A ", "SUMMARY "], ["NAV "])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_what_scrolls_sideways_shows_it_and_keys_reach_it(pages: dict[str, Any], name: str, width: int) -> None:
    page = pages[f"{name}-{width}"]
    assert (page["nameless"], page["plain"]) == ([], [])
    assert page["scrolls"] or name == "live"
    assert width != 390 or page["wider"] or name not in ("design", "fabric")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_what_keys_reach_has_a_frame(pages: dict[str, Any], name: str, width: int) -> None:
    page = pages[f"{name}-{width}"]
    assert page["keys"] > 5
    assert page["unseen"] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_printed_page_is_white_and_whole(pages: dict[str, Any], name: str) -> None:
    """Nothing is cut or waits for a click, but long lists."""
    page = pages[f"{name}-print"]
    assert page["background"] == "rgb(255, 255, 255)"
    assert page["wide"] <= (PAPER / 2 if name == "fabric" else 0)  # with names of any length it prints smaller
    assert (page["scrolls"], page["nav"]) == (0, [])
    assert {*page["folded"]} == ({"DETAILS long"} if name == "fabric" else set())
