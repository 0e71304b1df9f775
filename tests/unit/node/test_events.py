"""Events of the node program: texts of programs and errors, and the progress of roles."""

from __future__ import annotations

import pytest

from hpcforge.node import events


def test_texts_are_plain():
    assert events.readable(b"\x1b[1;31mred\x1b[0m\r\nnext\x00\x07\xff\n") == "red\nnext\ufffd"
    assert len(events.readable("x" * 10000)) < 5000
    assert events.explain(FileNotFoundError(2, "No such file or directory", "/x")) == "No such file or directory: /x"


def test_roles_that_need_a_failed_one_are_skipped(report, heard):
    report.failed("a", "unit", "x.service", "no")
    work = [{"role": "b", "needs": ["a"]}, {"role": "c", "needs": ["b"]}, {"role": "d", "needs": ["elsewhere"]}]
    assert [report.goes_on(one) for one in work] == [False, False, True]
    assert [(one["role"], one["because"]) for one in heard if one["event"] == "skipped"] == [("b", "a"), ("c", "b")]
    report.done(["a", "b", "c", "d"], False, {})
    assert (heard[-1]["failed"], heard[-1]["skipped"]) == (["a"], ["b", "c"])


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (events.NodeError("\x1b[31mno room\x1b[0m"), "no room"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError(18, "Invalid cross-device link", "/a", None, "/b"), "Invalid cross-device link: /a /b"),
        (KeyError("digest"), "KeyError: 'digest'"),
    ],
)
def test_an_error_is_one_text_without_a_traceback(error, text):
    assert events.explain(error) == text


def test_the_end_of_a_long_text_is_kept():
    assert events.readable("first " + "x" * 20, limit=20) == "[...] " + "x" * 20
    assert events.readable("x" * 20, limit=20) == "x" * 20


def test_a_role_fails_once_with_its_first_error_and_is_not_skipped_besides(report, heard):
    report.failed("a", "unit", "x.service", "first")
    report.failed("a", "unit", "y.service", "second")
    report.skipped("a", "b")
    assert report.failures == {"a": "first"}
    assert [event["event"] for event in heard] == ["failed", "failed"]
    assert [report.is_well({"role": role}) for role in ("a", "b")] == [False, True]


def test_after_a_signal_the_next_role_is_stopped(report, heard):
    report.stopped = "SIGTERM"
    assert not report.goes_on({"role": "a"})
    assert (heard[-1]["event"], heard[-1]["role"], heard[-1]["name"]) == ("failed", "a", "SIGTERM")


def test_a_request_that_failed_as_a_whole_has_failed_for_each_role(report, heard):
    report.changed("a", "file", "/etc/x", "created")
    report.done(["a", "b"], True, {"time_s": 1.0})
    assert (heard[-1]["changed"], heard[-1]["failed"], heard[-1]["facts"]) == (1, ["a", "b"], {"time_s": 1.0})
