"""The Makefile installs what the code asks for."""

import re
from pathlib import Path

from hpcforge.blueprint.lab_kinds import DEFAULT
from hpcforge.lab.host import host_packages
from hpcforge.lab.kinds import KINDS

MAKEFILE = Path(__file__).parents[1] / "Makefile"


def test_every_package_that_a_lab_needs_is_installed() -> None:
    """By `make host`, or, of a kind of lab that not everybody starts, by a target of its own."""
    of_all = named("HOST_PACKAGES")
    for name, kind in KINDS.items():
        its_own = set() if name == DEFAULT else named(f"{name.upper()}_PACKAGES")
        assert host_packages(kind).keys() - of_all == its_own


def named(variable: str) -> set[str]:
    found = re.search(rf"^{variable} := ((?:.*\\\n)*.*)$", MAKEFILE.read_text(), re.MULTILINE)
    assert found is not None, variable
    return set(found[1].replace("\\", " ").split())
