"""Install each version of a framework into an environment of its own."""

from pyinfra import host

from hpcforge.engines.python_environment import PythonEnvironment

for framework in host.data.frameworks:
    PythonEnvironment(framework["environment"], framework["use"]).install()
