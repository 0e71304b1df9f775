"""What `hpcforge power` has: each verb with an example, and the verbs of what can be undone without an option."""

from __future__ import annotations

import pytest

from tests.support.in_process import hpcforge


@pytest.mark.parametrize("verb", ["status", "on", "off", "cycle", "boot-once"])
def test_each_verb_has_an_example(verb: str) -> None:
    done = hpcforge("power", verb, "--help")
    assert done.returncode == 0
    assert f"Example: hpcforge power {verb} site.yaml" in " ".join(done.stdout.split())
    assert ("--force" in done.stdout) == (verb in ("off", "cycle"))
