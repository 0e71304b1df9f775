"""Have the authority believed: Debian's own program puts it into the bundle that libraries read."""

from pyinfra.operations import server

server.shell(name="Make the authority known", commands=["update-ca-certificates --fresh"])
