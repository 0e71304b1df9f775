"""Install PyTorch's wheels into an environment of its own, whole or not at all."""

from pyinfra import host
from pyinfra.facts.server import Command
from pyinfra.operations import server

VENV = "/opt/hpcforge/pytorch"
WANTED = "/opt/hpcforge/pytorch.requirements"
INSTALLED = f"{VENV}/requirements.txt"  # written last: an environment without it is not whole

# pip runs from the distribution's wheel of it, as ensurepip does; hashes are checked, nothing else is looked up.
# Bytecode is made for what jobs import, since they cannot write it themselves: not for all 4,900 files, but with what
# training imports late (an optimizer brings torch._dynamo). Using it is also the proof that it works.
PIP = (
    "PIP_CONFIG_FILE=/dev/null TMPDIR=/var/tmp PYTHONPATH=$(echo /usr/share/python-wheels/pip-*.whl)"
    f" {VENV}/bin/python -m pip --isolated --disable-pip-version-check --no-cache-dir"
    f" install --quiet --progress-bar off --no-compile --no-index --no-deps --require-hashes -r {WANTED}"
)
USE = "import torch, torch.distributed.run, torch.nn.parallel; torch.optim.SGD([torch.zeros(1)], lr=1)"


def install() -> None:
    """Build the environment anew."""
    server.shell(
        name="Create the environment", commands=[f"umask 022; /usr/bin/python3 -m venv --clear --without-pip {VENV}"]
    )
    server.shell(name="Install the wheels", commands=[f"umask 022; {PIP}"])
    server.shell(
        name="Import torch",
        commands=[f"umask 022; cd / && {VENV}/bin/python -W ignore -c '{USE}' && cp {WANTED} {INSTALLED}"],
    )


# Run when a check fails too, so what is there is tried rather than believed.
WHOLE = f"cmp -s {WANTED} {INSTALLED} && cd / && {VENV}/bin/python -W ignore -c '{USE}' >/dev/null 2>&1"

if (
    host.data.build == "wheel"
    and host.get_fact(Command, f"if {WHOLE}; then echo whole; else echo broken; fi") != "whole"
):
    install()
