"""What torchrun leaves in its temporary folder is removed with the test."""

import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def own_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A short path: sockets in it have at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="smoke-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield
