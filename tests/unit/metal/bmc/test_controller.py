"""What is said of a controller has no password in it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hpcforge.metal import bmc as power
from hpcforge.metal.bmc import BmcError, Login, lazy_property


def test_a_password_is_in_no_text() -> None:
    access = Login("10.0.0.1", "admin", "hidden-away")
    assert "hidden-away" not in f"{access} {access!r}"
    assert BmcError("no", "login").reason == "login"


class Slow:
    """It begins to read, and ends when it is let go."""

    def __init__(self, begun: threading.Barrier) -> None:
        self.begun, self.reads = begun, 0

    @lazy_property
    def root(self) -> str:
        """Wait for the other one, which only comes if both are read at once."""
        self.reads += 1
        self.begun.wait(20)
        return "read"


def test_a_slow_controller_delays_no_other() -> None:
    both = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        slow = [Slow(both), Slow(both)]
        assert list(pool.map(lambda one: one.root, slow)) == ["read", "read"]
    assert [(one.root, one.reads) for one in slow] == [("read", 1)] * 2
    assert "both are read" in (vars(Slow)["root"].__doc__ or "")


def test_nothing_about_controllers_has_a_lock_for_all_of_them() -> None:
    for path in Path(power.__file__).parent.glob("*.py"):
        assert "import cached_property" not in path.read_text(), f"{path}: lazy_property, which has no lock"
