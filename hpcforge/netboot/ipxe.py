"""Scripts for iPXE. Pure."""

from __future__ import annotations

from collections.abc import Mapping

# `exit` gives BIOS firmware its own order of boot; some machines then boot the network again, so disks are tried first.
LOCAL_BIOS = "#!ipxe\necho hpcforge: this machine boots its own disk\nsanboot --no-describe --drive 0x80 || exit\n"
LOCAL_EFI = "#!ipxe\necho hpcforge: this machine boots its own disk\nexit\n"


def local(platform: str) -> str:
    """Boot from the machine's own disk."""
    return LOCAL_EFI if platform == "efi" else LOCAL_BIOS


def install(url: str, token: str, mac: str, files: Mapping[str, str], console: str) -> str:
    """Boot the installer; `files` are the SHA-256 of kernel, initrd and installer archive by their names.

    The token is on the kernel's command line, which only the machine itself reads. The kernel and its archives are
    fetched by HTTP without a checksum, since iPXE as Debian builds it has none but signatures: the image is what is
    checked.
    """
    named = ", ".join(f"{name} {digest[:12]}" for name, digest in files.items())
    return (
        "#!ipxe\n"
        f"echo hpcforge: installing ({named})\n"
        f"kernel {url}/files/vmlinuz initrd=initrd.img initrd=installer.img console={console} panic=60"
        f" hpcforge.url={url}/machine hpcforge.token={token} BOOTIF=01-{mac.replace(':', '-')}\n"
        f"initrd --name initrd.img {url}/files/initrd.img\n"  # an argument would wrap it into another archive
        f"initrd --name installer.img {url}/files/installer.img\n"
        "boot\n"
    )
