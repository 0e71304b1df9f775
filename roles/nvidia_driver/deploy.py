"""Put the driver of the blueprint's version in the place of another that is installed, all of it at once."""

from pyinfra import host
from pyinfra.facts.server import Command
from pyinfra.operations import apt, server, systemd

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
    # An apt that somebody else runs has the lists locked: apt-get update does not wait for it.
    apt.update(name="Read the package lists", _retries=5, _retry_delay=10)
    # Not apt.packages: it leaves held packages as they are, and upgrades without --no-remove.
    server.shell(
        name=f"Put driver {host.data.driver} in place",
        commands=[
            f'held=$(apt-mark showhold {names}) && {PUT} {names} && {{ test -z "$held" || apt-mark hold $held; }}'
        ],
    )
    if "datacenter-gpu-manager" in names:
        systemd.service(name="Restart DCGM", service="nvidia-dcgm.service", running=None, restarted=True)
