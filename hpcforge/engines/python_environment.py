"""An environment of pinned wheels on a node, by pyinfra's operations: built beside the old one, then put in its place.

A failed or killed build leaves the working environment unchanged. An environment contains absolute paths, so each is
built in its final place, below NAME-builds, and NAME is a symbolic link to the one in use. Roles' deploy.py import it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from pyinfra import host
from pyinfra.facts.server import Command
from pyinfra.operations import server

_ROOT = "/opt/hpcforge"
_INSTALLED = "requirements.txt"  # written last: an environment without it is incomplete


@dataclass(frozen=True)
class PythonEnvironment:
    """An environment below /opt/hpcforge, with the wheels listed there in NAME.requirements."""

    name: str
    use: str  # Python statements: they prove that it works, and their imports compile the bytecode
    build: str = field(default_factory=lambda: secrets.token_hex(6))

    @property
    def path(self) -> str:
        """The path for jobs: a link to the build in use."""
        return f"{_ROOT}/{self.name}"

    @property
    def builds(self) -> str:
        """The folder of its builds."""
        return f"{self.path}-builds"

    @property
    def new(self) -> str:
        """The new build."""
        return f"{self.builds}/{self.build}"

    @property
    def wanted(self) -> str:
        """The file with its wheels, as pip reads it."""
        return f"{self.path}.requirements"

    @property
    def pip(self) -> str:
        """The command that installs the wheels.

        pip runs from the distribution's wheel, like ensurepip; it checks hashes and uses no package index. A login's
        proxy cannot reach the depot.
        """
        return (
            f"PIP_CONFIG_FILE=/dev/null no_proxy='*' NO_PROXY='*' TMPDIR={self.new}/private"
            f" PYTHONPATH=$(echo /usr/share/python-wheels/pip-*.whl)"
            f" {self.new}/bin/python -m pip --isolated --disable-pip-version-check --no-cache-dir"
            f" install --quiet --progress-bar off --no-compile --no-index --no-deps --require-hashes -r {self.wanted}"
        )

    def used(self, environment: str, folder: str) -> str:
        """Return the command that uses an environment, with its caches in a folder that only root can enter.

        torch has a cache in /tmp by the user's name, which any user could plant.
        """
        caches = f"HOME={folder} TMPDIR={folder} XDG_CACHE_HOME={folder} TRITON_CACHE_DIR={folder}"
        return (
            f"cd / && env {caches} TORCHINDUCTOR_CACHE_DIR={folder} {environment}/bin/python -W ignore -c '{self.use}'"
        )

    @property
    def whole(self) -> str:
        """The command that tests the environment in use. It verifies all: it also runs after a failed check."""
        return (
            f"umask 022; mkdir -p {self.builds} && cmp -s {self.wanted} {self.path}/{_INSTALLED}"
            f" && d=$(mktemp -d -p {self.builds})"
            f" && {{ {self.used(self.path, '$d')}; r=$?; rm -rf $d; [ $r = 0 ]; }}"
        )

    @property
    def others(self) -> str:
        """The command that lists killed and replaced builds."""
        return f'find {self.builds} -mindepth 1 -maxdepth 1 ! -name "$(basename "$(readlink {self.path})")"'

    @property
    def switch(self) -> str:
        """The command that puts the link in its place at once.

        A folder, made there by an earlier hpcforge, is moved away first.
        """
        return (
            f"sync -f {self.new} && ln -s {self.new} {self.new}.link"
            f" && {{ [ -L {self.path} ] || [ ! -d {self.path} ] || mv -T {self.path} {self.new}.before; }}"
            f" && mv -T {self.new}.link {self.path}"
        )

    def step(self, name: str, command: str) -> None:
        """Run one operation of the build; remove the build if it fails: its files may be gigabytes."""
        server.shell(name=name, commands=[f"umask 022; ({command}) || {{ r=$?; rm -rf {self.new}; exit $r; }}"])

    def is_whole(self) -> bool:
        """Return whether the environment in use has the listed wheels, and works."""
        tried = f"if {{ {self.whole}; }} >/dev/null 2>&1; then echo whole; else echo broken; fi"
        return bool(host.get_fact(Command, tried) == "whole")

    def install(self) -> None:
        """Build it and put it in place, unless the present one is complete."""
        if self.is_whole():
            return
        self.step(
            "Remove what earlier builds left", f"mkdir -p {self.builds} && {self.others} -exec rm -rf {{}} + || :"
        )
        venv = f"/usr/bin/python3 -m venv --without-pip {self.new} && mkdir -m 700 {self.new}/private"
        self.step("Create the environment", venv)
        self.step("Install the wheels", self.pip)
        proof = f"{self.used(self.new, f'{self.new}/private')} && rm -rf {self.new}/private"
        self.step(f"Use {self.name}", f"{proof} && cp {self.wanted} {self.new}/{_INSTALLED}")
        self.step("Put it in place", self.switch)
        server.shell(name="Remove what it replaces", commands=[f"{self.others} -exec rm -rf {{}} +"])
