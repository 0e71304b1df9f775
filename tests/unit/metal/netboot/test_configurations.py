"""What is written for dnsmasq and nginx, by their own checks; and scripts for iPXE."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hpcforge.metal.netboot import configurations
from hpcforge.metal.netboot.configurations import BootHost, BootNetwork, dnsmasq_conf, nginx_conf

HOSTS = [BootHost("w1", "02:00:00:00:00:01", "10.79.6.11"), BootHost("w2", "02:00:00:00:00:02", "10.79.6.12")]
URL = "http://10.79.6.1/machine/boot.ipxe"


@pytest.mark.parametrize("proxy", [False, True])
def test_dnsmasq_reads_it(tmp_path: Path, proxy: bool) -> None:
    text = dnsmasq_conf(BootNetwork("lo", "10.79.6.1", "10.79.6.0/24", URL, str(tmp_path), proxy=proxy), HOSTS)
    (tmp_path / "conf").write_text(text)
    argv = ["dnsmasq", "--test", f"--conf-file={tmp_path}/conf"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "syntax check OK" in done.stderr
    assert "dhcp-ignore=tag:!known" in text
    assert ("dhcp-host=02:00:00:00:00:01,10.79.6.11,w1" in text) != proxy
    assert ("proxy" in text) == proxy


def test_nginx_reads_it(tmp_path: Path) -> None:
    (tmp_path / "bodies").mkdir()
    (tmp_path / "conf").write_text(nginx_conf("127.0.0.1", 21700, str(tmp_path), "/srv/image", None))
    argv = ["nginx", "-t", "-p", str(tmp_path), "-c", f"{tmp_path}/conf", "-e", "stderr"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "test is successful" in done.stderr, done.stderr


def test_a_machine_that_is_not_to_be_installed_boots_its_disk() -> None:
    assert "sanboot" in configurations.local_script("pcbios") and "sanboot" not in configurations.local_script("efi")
    # a success would end in the menu of the firmware
    assert configurations.local_script("efi").endswith("chain file://HPCFORGE/EFI/BOOT/BOOTX64.EFI || exit 1\n")
    assert all(
        script.startswith("#!ipxe\n") and "kernel" not in script
        for script in map(configurations.local_script, ("efi", ""))
    )


def test_the_token_is_on_the_command_line_of_the_kernel_alone() -> None:
    script = configurations.install_script(
        "http://10.0.0.1:80", "T0KEN", "02:00:00:00:00:01", {"vmlinuz": "a" * 64}, "ttyS0,115200"
    )
    [line] = [line for line in script.splitlines() if "T0KEN" in line]
    assert line.startswith("kernel http://10.0.0.1:80/files/vmlinuz ")
    assert "BOOTIF=01-02-00-00-00-00-01" in line and "hpcforge.url=http://10.0.0.1:80/machine" in line
