"""Scripts for iPXE."""

from __future__ import annotations

from hpcforge.netboot import ipxe


def test_a_machine_that_is_not_to_be_installed_boots_its_disk() -> None:
    assert "sanboot" in ipxe.local("pcbios") and "sanboot" not in ipxe.local("efi")
    assert all(script.startswith("#!ipxe\n") and "kernel" not in script for script in map(ipxe.local, ("efi", "")))


def test_the_token_is_on_the_command_line_of_the_kernel_alone() -> None:
    script = ipxe.install("http://10.0.0.1:80", "T0KEN", "02:00:00:00:00:01", {"vmlinuz": "a" * 64}, "ttyS0,115200")
    [line] = [line for line in script.splitlines() if "T0KEN" in line]
    assert line.startswith("kernel http://10.0.0.1:80/files/vmlinuz ")
    assert "BOOTIF=01-02-00-00-00-00-01" in line and "hpcforge.url=http://10.0.0.1:80/machine" in line
