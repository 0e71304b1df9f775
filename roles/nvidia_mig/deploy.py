"""Have the layout set again where the unit once set it and it is no longer there."""

from pyinfra import host
from pyinfra.operations import server

server.shell(
    name="Set the MIG layout, unless it is there",
    commands=[
        "/usr/sbin/hpcforge-mig check > /dev/null 2>&1 || "
        f"{{ systemctl restart hpcforge-mig.service && systemctl try-restart {host.data.slurmd}; }}"
    ],
)
