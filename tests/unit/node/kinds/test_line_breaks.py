"""What is written into a file of lines is refused where it would make a line of its own."""

from types import ModuleType

import pytest

from hpcforge.kinds import sent
from hpcforge.node.kinds import mounts, pins, sources, timers
from tests.stories.node.kinds.conftest import Json

TIMER = {"name": "tidy", "command": ["/bin/true"], "calendar": "daily", "user": "ops", "delay_s": 0}
PIN = {"name": "no-less", "packages": ["less"], "pin": "release n=bookworm", "priority": -10}
MOUNT = {"path": "/srv/hpcforge-nosuch", "what": "tmpfs", "type": "tmpfs", "options": "mode=0755"}
SOURCE: Json = {
    "name": "odd",
    "uris": ["file:///srv/odd"],
    "suites": ["./"],
    "components": [],
    "architectures": [],
    "signed_by": "/usr/share/keyrings/odd.gpg",
}


@pytest.mark.parametrize(
    ("kind", "wanted", "field", "value"),
    [
        (timers, TIMER, "user", "ops\nExecStartPost=/bin/false"),
        (pins, PIN, "packages", ["less\nPin-Priority: 1001"]),
        (pins, PIN, "pin", "release n=bookworm\nPin-Priority: 1001"),
        (mounts, MOUNT, "path", "/srv/hpcforge-nosuch\nOptions=suid"),
        (sources, SOURCE, "signed_by", "/usr/share/keyrings/odd.gpg\nTrusted: yes"),
    ],
)
def test_a_value_is_no_line_of_its_own(kind: ModuleType, wanted: Json, field: str, value: object) -> None:
    of = sent(kind.__name__.rpartition(".")[2]).of
    assert kind.obstacle(of(wanted), None) is None
    assert kind.obstacle(of({**wanted, field: value}), None)
