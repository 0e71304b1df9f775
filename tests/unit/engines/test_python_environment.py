"""The commands that build an environment; tests/unit/roles/test_pytorch_builds runs them."""

from __future__ import annotations

import subprocess

from hpcforge.engines.python_environment import PythonEnvironment


def test_each_environment_has_paths_of_its_own() -> None:
    made = PythonEnvironment("jax", "import jax", "cafe")
    assert (made.path, made.new, made.wanted) == (
        "/opt/hpcforge/jax", "/opt/hpcforge/jax-builds/cafe", "/opt/hpcforge/jax.requirements",
    )  # fmt: skip
    assert made.build != PythonEnvironment("jax", "import jax").build
    assert "--require-hashes -r /opt/hpcforge/jax.requirements" in made.pip


def test_commands_are_right_for_a_shell() -> None:
    made = PythonEnvironment("jax", "import jax; jax.numpy.zeros(1)")
    for command in (made.pip, made.whole, made.others, made.switch):
        assert subprocess.run(["sh", "-n", "-c", command], check=False).returncode == 0
