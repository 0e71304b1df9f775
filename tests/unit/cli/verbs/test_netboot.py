"""What `hpcforge netboot` has."""

from __future__ import annotations

import pytest

from tests.support.in_process import hpcforge


@pytest.mark.parametrize("verb", ["want", "withdraw", "serve", "status", "record"])
def test_each_verb_has_an_example(verb: str) -> None:
    done = hpcforge("netboot", verb, "--help")
    assert done.returncode == 0
    assert f"Example: hpcforge netboot {verb} site.yaml" in " ".join(done.stdout.split())
