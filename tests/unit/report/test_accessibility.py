"""axe-core on every page in a real Chromium: light on a telephone, dark on a screen; and what it cannot see."""

from __future__ import annotations

import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hpcforge.report.acceptance import acceptance_report
from hpcforge.report.html.acceptance import acceptance_page
from hpcforge.report.html.design import design_page
from hpcforge.report.html.verification import verification_page
from tests.unit.report import acceptances, designs, statuses, verifications

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"), reason="chromium is not installed (Debian: apt-get install chromium)"
)

PAGES = ("design", "fabric", "not_accepted", "verification", "status", "live")
WIDTHS = (390, 1280, 2560)
SCHEMES = {"light": ("1", 390), "dark": ("0", 1280)}  # Chromium's number, and how wide the frame is that axe reads
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')  # keeps axe out, too
PLAIN = '<style>[role="group"] { background: none !important }</style>'  # axe judges no colour on a gradient
CONTROL = """<!DOCTYPE html><html><body><img src="data:,"><p style="color:#ccc;background:#fff">faint</p>
<div style="overflow:auto;height:20px"><p>a<p>b<p>c</div></body></html>"""
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--allow-file-access-from-files",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--disable-dev-shm-usage", "--virtual-time-budget=600000",
)  # fmt: skip
# In the page that frames the others: axe runs in each of them, with all that is folded opened.
SCRIPT = """
addEventListener("load", async () => {
  const results = {};
  for (const frame of document.querySelectorAll("iframe")) {
    const inside = frame.contentWindow, page = frame.contentDocument;
    for (const details of page.querySelectorAll("details")) details.open = true;
    const found = inside.axe ? await inside.axe.run(page) : { passes: [], violations: [] };
    results[frame.id] = { dark: inside.matchMedia("(prefers-color-scheme: dark)").matches,
      background: inside.getComputedStyle(page.body).backgroundColor, passes: found.passes.length,
      overflow: page.documentElement.scrollWidth - page.documentElement.clientWidth,
      violations: found.violations.map((rule) => ({ rule: rule.id, impact: rule.impact,
        where: rule.nodes.slice(0, 5).map((node) => `${node.target} ${node.failureSummary}`.slice(0, 400)) })) };
  }
  document.body.replaceChildren(Object.assign(document.createElement("pre"), { textContent: JSON.stringify(results) }));
});
"""


def made() -> dict[str, str]:
    """Return every page that hpcforge writes, and the one that it serves, with its data."""
    broken, fabric = acceptances.broken(), designs.with_hostile_fabric()
    return {
        "design": design_page(designs.unit()),
        "fabric": design_page(*fabric),
        "not_accepted": acceptance_page(acceptance_report(broken), broken.cluster),
        "verification": verification_page(verifications.report()),
        "status": statuses.page(),
        "live": statuses.live_page(statuses.cluster()),
    }


@pytest.fixture(scope="module", params=SCHEMES)
def checked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What axe found in each page at each width, in one colour scheme."""
    assert CHROMIUM, "chromium is not installed, and CI must run this test"
    package = importlib.util.find_spec("axe_core_python")
    assert package and package.origin, "axe-core-python is not installed: make develop"
    folder = tmp_path_factory.mktemp("axe")
    shutil.copy(Path(package.origin).with_name("axe.min.js"), folder / "axe.js")
    scheme, read = SCHEMES[request.param]
    frames = [_frame("control", CONTROL, 390, with_axe=True)]
    for name, text in made().items():
        frames += [_frame(f"{name}-{width}", text, width, with_axe=width == read) for width in WIDTHS]
    text = f'<!DOCTYPE html><meta charset="utf-8"><body>{"".join(frames)}<script>{SCRIPT}</script>'
    (folder / "frames.html").write_text(text, encoding="utf-8")
    colours = f"--blink-settings=preferredColorScheme={scheme}"
    command = [CHROMIUM, *FLAGS, colours, f"--user-data-dir={folder / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [*command, str(folder / "frames.html")], capture_output=True, text=True, timeout=900, check=True
    )
    found = re.search(r"<pre>(.*)</pre>", done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return request.param, json.loads(html.unescape(found[1]))


def _frame(name: str, text: str, width: int, *, with_axe: bool) -> str:
    """Return a frame with a page; one that axe reads has no policy here, which would keep axe out."""
    inside = (
        POLICY.sub("", text).replace("</body>", f'{PLAIN}<script src="axe.js"></script></body>') if with_axe else text
    )
    return f'<iframe id="{name}" width="{width}" height="900" style="border:0" srcdoc="{html.escape(inside)}"></iframe>'


def _grave(page: dict[str, Any]) -> list[str]:
    return [
        f"{rule['rule']}: {where}"
        for rule in page["violations"]
        if rule["impact"] != "minor"
        for where in rule["where"]
    ]


def test_axe_names_what_it_should(checked: tuple[str, dict[str, Any]]) -> None:
    rules = {line.partition(":")[0] for line in _grave(checked[1]["control"])}
    assert {"image-alt", "color-contrast", "html-has-lang", "scrollable-region-focusable"} <= rules


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_serious_violation(checked: tuple[str, dict[str, Any]], name: str) -> None:
    scheme, pages = checked
    page = pages[f"{name}-{SCHEMES[scheme][1]}"]
    assert page["passes"] > 5
    assert _grave(page) == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_never_scrolls_sideways(checked: tuple[str, dict[str, Any]], name: str, width: int) -> None:
    assert checked[1][f"{name}-{width}"]["overflow"] == 0


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_dark_where_its_reader_wants_that(checked: tuple[str, dict[str, Any]], name: str) -> None:
    scheme, pages = checked
    page = pages[f"{name}-1280"]
    assert page["dark"] == (scheme == "dark")
    red, green, blue = map(int, re.findall(r"\d+", page["background"])[:3])
    assert (red + green + blue < 200) == (scheme == "dark")


@pytest.mark.parametrize("name", [name for name in PAGES if name != "live"])
def test_a_page_says_all_without_a_script(name: str) -> None:
    """The one script searches cables; keys reach parts in their order."""
    page = made()[name]
    assert page.count("<script") == (name == "fabric")
    assert not re.search(r'tabindex="[1-9-]', page)


def _drawn(folder: Path, page: str) -> str:
    """Return the document that Chromium makes of a page with scripts."""
    assert CHROMIUM
    (folder / "page.html").write_text(POLICY.sub("", page), encoding="utf-8")
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", "--dump-dom", str(folder / "page.html")]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout


def test_the_live_page_keeps_the_place_of_keys_when_it_is_drawn_again(tmp_path: Path) -> None:
    for place in ("node-g07", "rack-r007"):
        whole = statuses.cluster() if place.startswith("node") else statuses.large()
        again = f'''page.at("{place}").focus(); page.draw(picture, null, () => {{}});
            document.title = `${{document.activeElement.id}} has it`;</script></body>'''
        page = statuses.live_page(whole).replace("</script></body>", again)
        assert f"<title>{place} has it</title>" in _drawn(tmp_path, page)


def test_the_live_page_has_rows_of_the_racks_alone_that_are_open(tmp_path: Path) -> None:
    body = _drawn(tmp_path, statuses.live_page(statuses.large())).partition("<script")[0]
    assert body.count("<details") == 250
    assert body.count('<button class="node') == body.count('type="button"') == 40  # of the chosen node's rack
