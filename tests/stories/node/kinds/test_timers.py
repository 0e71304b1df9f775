"""Timers on a real node."""

import pytest

from tests.stories.node.kinds.conftest import Json, Life

MADE = '/var/tmp/made by 100 % "timer" $HOME'


def timer(**more: object) -> Json:
    return {
        "name": "tidy",
        "command": ["/usr/bin/touch", MADE],
        "calendar": "daily",
        "user": "ops",
        "delay_s": 60,
        **more,
    }


@pytest.mark.lab
def test_a_timer_runs_its_command_as_it_is_spelled_and_goes(life: Life) -> None:
    shell = life.node.shell
    assert life.put(timer()) == {"tidy": "enabled, started"}
    assert shell("systemctl is-active tidy.timer; systemctl is-enabled tidy.timer").split() == ["active", "enabled"]
    shell("sudo systemctl start tidy.service")
    assert shell("stat -c '%U %n' /var/tmp/made*") == f"ops {MADE}\n"
    assert life.found(timer(calendar="weekly")) == [{"name": "tidy", "exists": True, "put": False}]
    life.put(timer(calendar="weekly"))
    assert "weekly" in shell("systemctl show tidy.timer -P TimersCalendar") + shell("systemctl cat tidy.timer")
    shell("sudo systemctl stop tidy.timer")
    assert life.found(timer(calendar="weekly")) == [{"name": "tidy", "exists": True, "put": True}]
    life.put(timer(calendar="weekly"))
    life.remove()
    assert shell("ls /etc/systemd/system | grep -c tidy || true; systemctl is-active tidy.timer || true").split() == [
        "0",
        "inactive",
    ]
    shell("sudo rm /var/tmp/made*")


@pytest.mark.lab
@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"calendar": "whenever"}, "systemd rejects the time 'whenever'"),
        ({"command": ["touch", "x"]}, "an absolute path"),
        ({"name": "fstrim/x"}, "cannot be the name of a timer"),
    ],
)
def test_what_systemd_would_not_take_is_refused(life: Life, more: Json, why: str) -> None:
    assert why in life.refused(timer(**more))
