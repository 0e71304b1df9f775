"""The page: nothing is loaded or run, no text becomes markup, and it says what was left out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from hpcforge.report.html.verification import MOST_BARS, charts, node_rows, verification_page
from hpcforge.report.verification import MeasureReport, PartReport, Report, ReportedVerdict
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
        "2 of 5 tests passed; 1 number low",
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


def test_the_box_at_the_top_says_who_is_bad_and_what_to_do_next() -> None:
    box = verification_page(report()).partition('<section id="summary"')[0]
    words = " ".join(re.sub(r"<[^>]*>", " ", box.partition('class="verdict')[2]).split())
    for text in (
        "w1 : copy missed: rate must be at least 8 GB/s",
        "w2, rack r1, U5 : pairs bad: 1 GB/s, must be at least 7.2 GB/s",
        "Next, on the head: ssh w2 ip -statistics link",
        "w2 , rack r1, U5: node_health wrong: memory_mib: expected 1024, got 512",
        "Slurm starts no job on w1.",
        "After a repair: hpcforge verify site.yaml --test copy --test pairs --test node_health",
        "w3 : gemm gflop_per_s 10 is under half of the nodes&#39; median, 30; no line refuses it",
    ):
        assert text in words, text


def box(shown: Report) -> str:
    """The words of the box at the top."""
    page = verification_page(shown).partition('<section id="summary"')[0].partition('<div class="verdict')[2]
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"fell_out": {"w3": "drained: /tmp has 0 of 4 inodes free"}},
            ("w3 fell out : no test", "w3 fell out: /tmp has 0 of 4 inodes free", "the head: scontrol show node w3"),
        ),
        (
            {"missing": {"w4": "unreachable: no route", "w5": "unreachable: no route"}},
            ("w[4-5] does not answer: no", "w[4-5] does not answer: no route", "Next: hpcforge status site.yaml"),
        ),
        ({"missing": {"w4": "w4 is down since 10:02"}}, ("w4 takes no job: w4 is down since 10:02",)),
        ({"drained": {"w1": "no test ran on w1"}}, ("w1 is drained: no test ran on w1",)),
        ({"not_drained": {"w1": "no test ran on w1"}}, ("w1 is not drained: no test ran on w1",)),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
)
def test_a_node_without_which_the_tests_passed_is_in_the_box(change: dict[str, Any], words: tuple[str, ...]) -> None:
    passed = replace(report(), verdicts=report().verdicts[1:2], not_tested=(), left_out={}, drained={})
    assert "The test passed" in box(passed)
    shown = box(replace(passed, **change))
    assert "passed" not in shown
    assert shown.startswith('bad">')
    assert "After a repair: hpcforge verify site.yaml" in shown
    for text in words:
        assert text.replace(" :", ":") in shown.replace(" :", ":"), shown


def test_a_test_that_names_no_node_is_in_the_box_with_its_nodes() -> None:
    detail = "4 ranks on w[3-4] did not answer while other ranks waited: [4-7]"
    late = replace(
        report().verdicts[1], status="timed_out", detail=detail, next_command="hpcforge verify B --test pairs"
    )
    shown = box(replace(report(), verdicts=(late,)))
    assert f"timed out: w[1-3] : sum : {detail} Next: hpcforge verify B --test pairs" in shown
    assert "No node" not in shown


def test_a_test_with_a_low_number_is_never_green() -> None:
    low = replace(report(), verdicts=report().verdicts[-1:], not_tested=(), left_out={}, drained={})
    page = verification_page(low)
    assert '<div class="verdict warn">' in page
    assert "tag good" not in page
    assert page.count("passed, low") == 2
    assert "Nothing to do" not in page
    assert page.count('class="bar low"') == 1


def test_node_health_has_a_row_for_each_node_the_bad_ones_first() -> None:
    rows = node_rows(report().verdicts[3])
    assert [(row.nodes, row.result, row.texts[1], row.unusual[1]) for row in rows] == [
        ("w2", "wrong: memory_mib: expected 1024, got 512", "6.1", False),
        ("w3", "reported", "5.10", True),
        ("w1", "reported", "6.1", False),
    ]


def test_ten_thousand_nodes_make_a_short_table_and_each_bad_one_has_its_row() -> None:
    nodes = tuple(f"w{number:05}" for number in range(10_000))
    rows = tuple({"host": node, "checks": 9, "kernel": "6.1"} for node in nodes)
    bad = {nodes[7]: "memory_mib: expected 2, got 1", nodes[9]: "cores: expected 2, got 1"}
    test = replace(report().verdicts[3], nodes=nodes, node=None, measurements=rows, reasons=bad)
    found = node_rows(test)
    assert [row.nodes for row in found] == ["w00007", "w00009", "w[00000-00006,00008,00010-09999]"]
    whole = replace(report(), verdicts=(test,))
    assert len(verification_page(whole)) < 100_000


def test_jobs_times_digests_and_serial_numbers_are_there() -> None:
    words = " ".join(re.sub(r"<[^>]*>", " ", verification_page(report())).split())
    for text in (
        "Jobs in Slurm 32, 33",
        "Time 2023-11-14 22:13:25 UTC",
        f"Raw results SHA-256 {report().verdicts[0].results_sha256}",
        "w2 dgx-h100 SN-0002 rack r1, U5 BIOS: 1.6; GPU 0: H100",
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


MANY = tuple(f"w{number:04}" for number in range(200))
COPY = ReportedVerdict("copy", "passed", MANY, measures={"rate": MeasureReport("GB/s", "higher")})


def test_of_many_nodes_the_worst_are_drawn() -> None:
    parts = tuple(PartReport(node, "rate", 1.0 + number, missed=number == 0) for number, node in enumerate(MANY))
    (chart,) = charts(replace(COPY, parts=parts))
    svg = ET.fromstring(chart.svg)
    texts = [text.text or "" for text in svg.iter("text")]
    assert "1 missed" in texts
    assert texts.count("w0000") == 1
    assert len(list(svg.iter("rect"))) == MOST_BARS
    assert chart.more == f"and {200 - MOST_BARS} more nodes, all better"


def test_curves_keep_modes_apart() -> None:
    rows = tuple(
        {"mode": mode, "step": step, "loss": 3.0 - step, "loss_expected": 3.0 - step, "host": "w1"}
        for mode in ("ddp", "fsdp")
        for step in range(3)
    )
    titles = [chart.title for chart in charts(replace(COPY, measurements=rows))]
    assert titles == ["ddp loss by step, against its reference", "fsdp loss by step, against its reference"]
