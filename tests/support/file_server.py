"""File systems that nodes share by roles of examples/, and a file server that the site has."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.site import REPOSITORY, Site

# The site's file server is the node `storage`, since a lab has no other machine: hpcforge does not know of it.
ROLES = 'role_folders: [glusterfs]\nroles:\n  glusterfs_client: {external: ["storage:/projects"]}\n'
_SERVES = """
sudo apt-get update -qq && sudo DEBIAN_FRONTEND=noninteractive apt-get install -y -qq glusterfs-server >/dev/null &&
sudo systemctl start glusterd && sudo install -d -m 1777 /srv/brick &&
sudo gluster --mode=script volume create projects $(hostname -I | cut -d' ' -f1):/srv/brick force &&
sudo gluster --mode=script volume start projects
"""


def copy_roles(example: str, folder: Path) -> None:
    """Copy the roles of an example into a folder of its name beside a blueprint."""
    shutil.copytree(REPOSITORY / "examples" / example / "roles", folder / example)


def serve(site: Site) -> None:
    """What a site has before its nodes: a file server."""
    site.ssh("storage", _SERVES)
