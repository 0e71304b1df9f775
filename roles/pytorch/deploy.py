"""Install PyTorch's wheels into an environment of its own, beside the one that is there; then take its place.

Bytecode is made for what jobs import, since they cannot write it themselves: not for all 4,900 files, but with what
training imports late (an optimizer brings torch._dynamo).
"""

from pyinfra import host

from hpcforge.engines.python_environment import PythonEnvironment

USE = "import torch, torch.distributed.run, torch.nn.parallel; torch.optim.SGD([torch.zeros(1)], lr=1)"

if host.data.build == "wheel":
    PythonEnvironment("pytorch", USE).install()
