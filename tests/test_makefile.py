"""The Makefile installs what the code asks for."""

import re
from pathlib import Path

from hpcforge.lab.host import host_packages
from hpcforge.lab.kinds import KINDS

MAKEFILE = Path(__file__).parents[1] / "Makefile"


def test_every_package_that_a_lab_needs_is_installed() -> None:
    named = re.search(r"^HOST_PACKAGES := ((?:.*\\\n)*.*)$", MAKEFILE.read_text(), re.MULTILINE)
    assert named is not None
    wanted = set().union(*(host_packages(kind) for kind in KINDS.values()))
    assert wanted - set(named[1].replace("\\", " ").split()) == set()
