"""Hold the volumes of this server to the blueprint again, where somebody has changed one."""

from pyinfra.operations import server

server.shell(
    name="Volumes as the blueprint has them, unless they are",
    commands=["/usr/sbin/hpcforge-glusterfs check > /dev/null 2>&1 || systemctl restart hpcforge-glusterfs.service"],
)
