"""Commands of timers."""

from hpcforge.node.kinds import timers


def test_nothing_in_a_command_is_read_as_more_than_itself() -> None:
    assert timers._word('100 % "$HOME"\\') == '"100 %% \\"$$HOME\\"\\\\"'
