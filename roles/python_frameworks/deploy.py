"""Install each framework's wheels into an environment of its own."""

from pyinfra import host

from hpcforge.engines.python_environment import PythonEnvironment

for framework in host.data.frameworks:
    PythonEnvironment(framework["name"], framework["use"]).install()
