"""Names of units of systemd."""

from __future__ import annotations

import subprocess

import pytest

from hpcforge.node import unit_files


@pytest.mark.parametrize("path", ["/srv/fast-scratch", "/a b/ü/.c", "/.hidden/x_y:z"])
def test_units_are_named_as_systemd_names_them(path: str) -> None:
    asked = subprocess.run(["systemd-escape", "--path", path], capture_output=True, text=True, check=True)
    assert unit_files.escaped(path) == asked.stdout.strip()
