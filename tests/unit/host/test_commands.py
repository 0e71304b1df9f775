"""Programs of the host, really run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcforge.host.commands import WITH_US, HostError, environment, run, tried


def test_a_program_gets_nothing_of_the_callers_environment_but_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://10.0.0.1:3128")
    monkeypatch.setenv("LD_PRELOAD_OF_A_TEST", "x")
    variables = dict(line.split("=", 1) for line in run("env").splitlines())
    assert variables == environment()
    assert variables["http_proxy"] == "http://10.0.0.1:3128"
    assert {"PATH", "LC_ALL"} <= set(variables) and "LD_PRELOAD_OF_A_TEST" not in variables


def test_words_are_passed_as_they_are(tmp_path: Path) -> None:
    assert run("printf", "%s|", "a b", "$(id)", tmp_path) == f"a b|$(id)|{tmp_path}|"
    assert run("pwd", cwd=tmp_path) == f"{tmp_path}\n"
    assert run("sh", "-c", "umask; cat") == "0022\n"  # nothing to read


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        ("seq 20 >&2; exit 3", [str(number) for number in range(6, 21)]),  # the end of it
        ("echo out; exit 3", ["out"]),
        ("echo out; echo err >&2; exit 3", ["err"]),
    ],
)
def test_a_failure_has_the_end_of_what_was_printed(script: str, lines: list[str]) -> None:
    with pytest.raises(HostError) as failed:
        run("sh", "-c", script)
    first, *rest = str(failed.value).splitlines()
    assert first.endswith("failed with exit code 3")
    assert rest == lines


def test_what_may_fail_is_tried() -> None:
    assert [tried("true"), tried("false")] == [True, False]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs namespaces")
def test_what_ends_with_us_is_process_1_of_its_own() -> None:
    assert run("sh", "-c", "echo $$; ls -d /proc/[0-9]*", with_us=True).splitlines()[0] == "1"
    assert WITH_US[0] == "setpriv"
