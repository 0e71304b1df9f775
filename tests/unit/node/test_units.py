"""`systemctl show` as recorded with systemd 252."""

from hpcforge.node import units

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
