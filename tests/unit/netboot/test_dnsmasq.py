"""dnsmasq's own check of what is written for it, and that strangers get no address."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hpcforge.netboot.dnsmasq import BootNetwork, Host, dnsmasq_conf

HOSTS = [Host("w1", "02:00:00:00:00:01", "10.79.6.11"), Host("w2", "02:00:00:00:00:02", "10.79.6.12")]
URL = "http://10.79.6.1/machine/boot.ipxe"


@pytest.mark.parametrize("proxy", [False, True])
def test_it_is_a_configuration(tmp_path: Path, proxy: bool) -> None:
    text = dnsmasq_conf(BootNetwork("lo", "10.79.6.1", "10.79.6.0/24", URL, str(tmp_path), proxy=proxy), HOSTS)
    (tmp_path / "conf").write_text(text)
    argv = ["dnsmasq", "--test", f"--conf-file={tmp_path}/conf"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "syntax check OK" in done.stderr
    assert "dhcp-ignore=tag:!known" in text
    assert ("dhcp-host=02:00:00:00:00:01,10.79.6.11,w1" in text) != proxy
    assert ("proxy" in text) == proxy
