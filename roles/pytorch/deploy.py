"""Install PyTorch's wheels into an environment of its own, beside the one that is there; then take its place."""

from pyinfra import host

from hpcforge.engines.python_environment import PythonEnvironment
from hpcforge.frameworks import USE_OF_PYTORCH

if host.data.build == "wheel":
    PythonEnvironment("pytorch", USE_OF_PYTORCH).install()
