"""Commands of timers."""

from hpcforge.kinds.timers import Timer
from hpcforge.node.kinds import timers


def test_nothing_in_a_command_is_read_as_more_than_itself() -> None:
    assert timers._word('100 % "$HOME"\\') == '"100 %% \\"$$HOME\\"\\\\"'


def test_one_that_runs_often_can_be_exact_and_quiet() -> None:
    usual = timers._texts(Timer("x", ("/bin/true",), "daily"))
    often = timers._texts(Timer("x", ("/bin/true",), "*:*:0/30", accuracy_s=1, quiet=True))
    assert "AccuracySec" not in usual["x.timer"] and "LogLevelMax" not in usual["x.service"]
    assert "AccuracySec=1\n" in often["x.timer"] and "LogLevelMax=notice\n" in often["x.service"]
