"""A file server that the site has, and that nodes mount."""

from __future__ import annotations

from tests.support.site import Site

# The site's file server is the node `storage`, since a lab has no other machine: hpcforge does not know of it.
STORAGE = 'storage:\n  projects: {kind: glusterfs, external: "storage:/projects", mount: /projects}\n\n'
_SERVES = """
sudo apt-get update -qq && sudo DEBIAN_FRONTEND=noninteractive apt-get install -y -qq glusterfs-server >/dev/null &&
sudo systemctl start glusterd && sudo install -d -m 1777 /srv/brick &&
sudo gluster --mode=script volume create projects $(hostname -I | cut -d' ' -f1):/srv/brick force &&
sudo gluster --mode=script volume start projects
"""


def serve(site: Site) -> None:
    """What a site has before its nodes: a file server."""
    site.ssh("storage", _SERVES)
