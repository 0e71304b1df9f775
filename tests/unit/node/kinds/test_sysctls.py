"""Names of kernel parameters."""

from hpcforge.node.kinds import sysctls


def test_names_are_read_as_sysctl_reads_them() -> None:
    assert str(sysctls._live_path("net.ipv4.conf.eth0/100.rp_filter")) == "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"
    assert str(sysctls._live_path("net/ipv4/conf/eth0.100/rp_filter")) == "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"
