"""A management controller that talks IPMI: Debian's ipmi_sim, with a shell script as its machine."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USER, PASSWORD = "admin", "not-factory"  # no more than 16 characters are taken
_LAN = """
name "bmc"
set_working_mc 0x20
  startlan 1
    addr {address} {port}
    priv_limit admin
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "{folder}/chassis 0x20"
  user 1 true "" "anonymous" user 10 none md2 md5 straight
  user 2 true "{user}" "{password}" admin 10 none md2 md5 straight
"""
_CHASSIS = """#!/bin/sh
# PLACE get NAME... | PLACE set NAME VALUE...: each is a file
cd {folder} && shift
case $1 in
get) shift; for name; do read value < $name; echo $name:$value; done ;;
set) shift
  while [ $# -gt 0 ]; do
    case $1 in
    shutdown) test -e deaf || echo 0 > power ;;
    power) test -e dead || echo $2 > power ;;
    *) echo $2 > $1 ;;
    esac
    shift 2
  done ;;
esac
exit 0
"""
_MACHINE = """mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
mc_enable 0x20
"""


@contextmanager
def serving(folder: Path, address: str = "127.78.0.1", port: int = 21600, password: str = PASSWORD) -> Iterator[Path]:
    """Serve one while entered; the folder has its state: `power`, `boot`, `deaf` (no soft off), `dead` (no effect)."""
    (folder / "power").write_text("0\n")
    (folder / "boot").write_text("none\n")
    chassis = folder / "chassis"
    chassis.write_text(_CHASSIS.format(folder=folder))
    chassis.chmod(0o755)
    lan = _LAN.format(address=address, port=port, folder=folder, user=USER, password=password)
    (folder / "lan.conf").write_text(lan)
    (folder / "machine.emu").write_text(_MACHINE)
    argv = ["ipmi_sim", "-n", "-c", "lan.conf", "-f", "machine.emu", "-s", str(folder / "state")]
    process = subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(address, port, process)
        yield folder
    finally:
        process.kill()
        process.wait()


def _wait(address: str, port: int, process: subprocess.Popen[bytes]) -> None:
    """Until its socket is there, which the kernel lists: nothing is sent for it."""
    number = "".join(f"{int(part):02X}" for part in reversed(address.split(".")))
    until = time.monotonic() + 20
    while f"{number}:{port:04X}" not in Path("/proc/net/udp").read_text():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.02)
