"""What `hpcforge discover` has."""

from __future__ import annotations

from tests.support.in_process import hpcforge


def test_it_has_an_example() -> None:
    done = hpcforge("discover", "--help")
    assert done.returncode == 0
    assert "Example: hpcforge discover site.yaml 10.10.0.0/24" in " ".join(done.stdout.split())
