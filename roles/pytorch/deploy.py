"""Install PyTorch's wheels into an environment of its own, beside the one that is there; then take its place.

A build that fails or is killed leaves what works as it was. An environment has absolute paths in it, so each is built
where it stays, below BUILDS, and VENV is a symbolic link to the one in use.
"""

import secrets

from pyinfra import host
from pyinfra.facts.server import Command
from pyinfra.operations import server

VENV = "/opt/hpcforge/pytorch"
BUILDS = "/opt/hpcforge/pytorch-builds"
NEW = f"{BUILDS}/{secrets.token_hex(6)}"
WANTED = "/opt/hpcforge/pytorch.requirements"
INSTALLED = "requirements.txt"  # written last: an environment without it is not whole

# pip runs from the distribution's wheel of it, as ensurepip does; hashes are checked, nothing else is looked up.
# Bytecode is made for what jobs import, since they cannot write it themselves: not for all 4,900 files, but with what
# training imports late (an optimizer brings torch._dynamo). Using it is also the proof that it works.
PIP = (
    f"PIP_CONFIG_FILE=/dev/null TMPDIR={NEW}/private PYTHONPATH=$(echo /usr/share/python-wheels/pip-*.whl)"
    f" {NEW}/bin/python -m pip --isolated --disable-pip-version-check --no-cache-dir"
    f" install --quiet --progress-bar off --no-compile --no-index --no-deps --require-hashes -r {WANTED}"
)
USE = "import torch, torch.distributed.run, torch.nn.parallel; torch.optim.SGD([torch.zeros(1)], lr=1)"


def use(environment: str, folder: str) -> str:
    """The command that uses an environment, with its caches in a folder that only root can enter.

    torch has one in /tmp by the user's name, which any user could have put there before.
    """
    caches = f"HOME={folder} TMPDIR={folder} XDG_CACHE_HOME={folder} TRITON_CACHE_DIR={folder}"
    return f"cd / && env {caches} TORCHINDUCTOR_CACHE_DIR={folder} {environment}/bin/python -W ignore -c '{USE}'"


# Run when a check fails too, so what is there is tried rather than believed.
WHOLE = (
    f"umask 022; mkdir -p {BUILDS} && cmp -s {WANTED} {VENV}/{INSTALLED} && d=$(mktemp -d -p {BUILDS})"
    f" && {{ {use(VENV, '$d')}; r=$?; rm -rf $d; [ $r = 0 ]; }}"
)
# Builds that were killed, and what was replaced.
OTHERS = f'find {BUILDS} -mindepth 1 -maxdepth 1 ! -name "$(basename "$(readlink {VENV})")"'
# The link takes its place at once. Only a folder, which an earlier hpcforge made there, has to go out of the way first.
SWITCH = (
    f"sync -f {NEW} && ln -s {NEW} {NEW}.link && {{ [ -L {VENV} ] || [ ! -d {VENV} ] || mv -T {VENV} {NEW}.before; }}"
    f" && mv -T {NEW}.link {VENV}"
)


def step(name: str, command: str) -> None:
    """One operation of the build, which is removed if it fails: its files may be gigabytes."""
    server.shell(name=name, commands=[f"umask 022; ({command}) || {{ r=$?; rm -rf {NEW}; exit $r; }}"])


def install() -> None:
    """Build an environment and put it in place."""
    step("Remove what earlier builds left", f"mkdir -p {BUILDS} && {OTHERS} -exec rm -rf {{}} + || :")
    step("Create the environment", f"/usr/bin/python3 -m venv --without-pip {NEW} && mkdir -m 700 {NEW}/private")
    step("Install the wheels", PIP)
    step("Import torch", f"{use(NEW, f'{NEW}/private')} && rm -rf {NEW}/private && cp {WANTED} {NEW}/{INSTALLED}")
    step("Put it in place", SWITCH)
    server.shell(name="Remove what it replaces", commands=[f"{OTHERS} -exec rm -rf {{}} +"])


def is_whole() -> bool:
    """Whether what is there is what is wanted, and works."""
    return bool(
        host.get_fact(Command, f"if {{ {WHOLE}; }} >/dev/null 2>&1; then echo whole; else echo broken; fi") == "whole"
    )


if host.data.build == "wheel" and not is_whole():
    install()
