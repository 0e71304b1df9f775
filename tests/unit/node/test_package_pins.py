"""Pins of negative priority; forms of apt_preferences(5)."""

from pathlib import Path

import pytest

from hpcforge.node import package_pins

TEXT = """\
Package: *
Pin: release n=sid
Pin-Priority: 100

# comment
Explanation: broken
package: slurm* src:munge
Pin: version 22*
pin-priority: -10

Package: /^lib/ chrony:any
Pin: release *
Pin-Priority: -1
"""


def test_records_of_negative_priority_are_found(tmp_path):
    (tmp_path / "site").write_text(TEXT)
    (tmp_path / "site.bak").write_text(TEXT)  # not read by apt
    pins = list(package_pins.negative(Path("/nonexistent"), tmp_path))
    assert [(pin.first, pin.line, pin.last, pin.priority) for pin in pins] == [(6, 9, 9, -10), (11, 13, 13, -1)]
    assert pins[0].comment_out() == f"sed -i '6,9s/^/#/' {tmp_path}/site"


@pytest.mark.parametrize(("name", "matches"), [("slurmd", True), ("chrony", False)])
def test_packages_are_matched(name, matches):
    [pin] = package_pins.parse(Path("x"), "Package: slurm* jq\nPin-Priority: -1\n")
    assert pin.matches(name) is matches
