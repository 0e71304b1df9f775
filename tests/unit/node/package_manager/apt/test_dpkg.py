"""The states of packages, as dpkg-query prints them on Debian 12."""

import pytest

from hpcforge.node.events import NodeError
from hpcforge.node.package_manager.apt import dpkg

DPKG_QUERY = """\
bash\tinstall ok installed
munge\tinstall ok half-configured
slurmd\tdeinstall ok config-files
chrony\thold ok installed
jq\tunknown ok not-installed
"""


def test_installed_means_configured():
    assert dpkg.installed(DPKG_QUERY) == {"bash", "chrony"}


@pytest.mark.parametrize("name", ["-o", "slurmd-", "Munge", "a b", "a;b", "", "../x", "x\n"])
def test_what_is_no_package_name_is_refused(name):
    with pytest.raises(NodeError, match="not a package name"):
        dpkg.missing([name])
