"""The Makefile installs what the code asks for."""

import re
from pathlib import Path

from hpcforge.lab.host import required_host_packages

MAKEFILE = Path(__file__).parents[1] / "Makefile"


def test_every_package_that_a_lab_needs_is_installed() -> None:
    named = re.search(r"^HOST_PACKAGES := ((?:.*\\\n)*.*)$", MAKEFILE.read_text(), re.MULTILINE)
    assert named is not None
    assert set(required_host_packages()) - set(named[1].replace("\\", " ").split()) == set()
