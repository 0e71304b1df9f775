"""The commands that build an environment; tests/unit/roles/test_pytorch_builds runs them."""

from __future__ import annotations

import shlex
import subprocess
import sys

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


def test_a_login_proxy_is_not_asked_for_wheels():
    """pip decides by these variables, as urllib does."""
    variables = [word for word in shlex.split(PythonEnvironment("jax", "import jax").pip) if "proxy=" in word.lower()]
    program = "import urllib.request as r; print(r.getproxies()['http'], r.proxy_bypass('10.77.0.10'))"
    argv = ["env", "http_proxy=http://10.0.0.1:1", *variables, sys.executable, "-c", program]
    assert subprocess.check_output(argv, text=True) == "http://10.0.0.1:1 True\n"
