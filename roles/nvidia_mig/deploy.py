"""Have the layout set again where the unit once set it and it is no longer there."""

from pyinfra import host
from pyinfra.facts.server import Command
from pyinfra.operations import systemd

CHECK = "/usr/sbin/hpcforge-mig check > /dev/null 2>&1 && echo there || echo differs"

if host.get_fact(Command, CHECK) != "there":
    systemd.service(name="Set the MIG layout", service="hpcforge-mig.service", restarted=True)
    # It keeps the numbers of devices that it opened. One that does not run stays so: `running=None`.
    systemd.service(name="Restart slurmd", service=host.data.slurmd, running=None, restarted=True)
