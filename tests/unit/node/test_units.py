"""`systemctl show` as recorded with systemd 252."""

import pytest

from hpcforge.node import commands, events, units

RECORDED = """\
Result=success
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
ConditionResult=yes

Result=success
LoadState=loaded
ActiveState=active
SubState=exited
UnitFileState=static
ConditionResult=yes

Result=success
LoadState=loaded
ActiveState=inactive
SubState=dead
UnitFileState=enabled
ConditionResult=no

Result=exit-code
LoadState=loaded
ActiveState=activating
SubState=auto-restart
UnitFileState=disabled
ConditionResult=yes

Result=success
LoadState=not-found
ActiveState=inactive
SubState=dead
UnitFileState=
ConditionResult=no
"""


def test_parse():
    running, oneshot, unmet, restarting, absent = units.parse(RECORDED)
    assert (running.enabled, running.runs, running.condition) == (True, True, True)
    assert (oneshot.enabled, oneshot.runs, oneshot.sub) == (True, True, "exited")
    assert (unmet.enabled, unmet.runs, unmet.condition) == (True, False, False)
    assert (restarting.enabled, restarting.runs, restarting.active) == (False, False, "activating")
    assert (absent.loaded, absent.enabled, absent.runs) == ("not-found", False, False)
    assert units.parse("") == []


def test_nothing_asked_nothing_run():
    assert units.query([]) == {}
    assert units.compare([], []) == []


@pytest.fixture
def systemctl(tmp_path, monkeypatch):
    """A systemctl that fails as often as the file `left` says, with the words of the file `words`, and then works."""
    program = tmp_path / "systemctl"
    program.write_text(
        "#!/bin/sh\ncd ${0%/*}\nleft=$(cat left)\necho $((left - 1)) > left\n"
        "[ $left -gt 0 ] && { cat words >&2; exit 1; }\ncat answer\n"
    )
    program.chmod(0o755)
    (tmp_path / "answer").write_text(RECORDED.partition("\n\n")[0] + "\n")
    monkeypatch.setitem(commands.ENVIRONMENT, "PATH", f"{tmp_path}:{commands.ENVIRONMENT['PATH']}")
    monkeypatch.setattr(units, "_PAUSE_S", 0.0)

    def fail(times, words):
        (tmp_path / "left").write_text(str(times))
        (tmp_path / "words").write_text(words)
        return lambda: int((tmp_path / "left").read_text())

    return fail


# As systemd 252 prints them while it executes itself: https://github.com/systemd/systemd/issues/25542
@pytest.mark.parametrize(
    "words",
    [
        "Failed to get properties: Message recipient disconnected from message bus without replying",
        "Failed to reload daemon: Connection reset by peer",
        "Warning! D-Bus connection terminated.",
        "Failed to get properties: Transport endpoint is not connected",
    ],
)
def test_systemd_that_executes_itself_is_asked_again(systemctl, words):
    systemctl(2, words)
    assert units.query(["chrony.service"])["chrony.service"].runs
    left = systemctl(2, words)
    units.reload()
    assert left() == -1


def test_a_unit_that_fails_is_not_tried_again(systemctl):
    left = systemctl(2, "Failed to get properties: Unit name chrony is not valid.")
    with pytest.raises(events.NodeError, match="not valid"):
        units.query(["chrony"])
    assert left() == 1


def test_systemd_that_does_not_come_back_is_an_error(systemctl):
    systemctl(99, "Connection reset by peer")
    with pytest.raises(events.NodeError, match="`systemctl daemon-reload`: exit status 1: Connection reset by peer"):
        units.reload()
