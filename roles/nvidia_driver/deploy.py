"""Put the driver of the blueprint's version in the place of another that is installed, all of it at once."""

from pyinfra import host
from pyinfra.facts.server import Command
from pyinfra.operations import server

OTHERS = (
    "dpkg-query -W -f '${db:Status-Abbrev} ${source:Package} ${source:Upstream-Version} ${Package}\\n' | "
    f"awk '/^.i/ && ({host.data.other}) {{print $4}}'"
)
# The pins have apt choose the version, an older one too. What was held is held again: dpkg lets go of what it changes.
PUT = (
    "DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=300 -o DPkg::Options::=--force-confold"
    " -o DPkg::Options::=--force-confdef --allow-change-held-packages --allow-downgrades --no-remove"
    " --no-install-recommends install --"
)

names = " ".join((host.get_fact(Command, OTHERS) or "").split())
if names:
    server.shell(name="Read the package lists", commands=["apt-get -q -o DPkg::Lock::Timeout=300 update"])
    server.shell(
        name=f"Put driver {host.data.driver} in place",
        commands=[
            f'held=$(apt-mark showhold {names}) && {PUT} {names} && {{ test -z "$held" || apt-mark hold $held; }}',
            *(["systemctl try-restart nvidia-dcgm.service"] if "datacenter-gpu-manager" in names else []),
        ],
    )
