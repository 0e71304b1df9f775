"""libvirt on this machine: its daemons, if no service manager runs them, and the leftovers of a lab in it."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from functools import partial
from pathlib import Path
from signal import SIGKILL, SIGTERM

from hpcforge.host import processes
from hpcforge.host.commands import HostError, PATH, daemon, run
from hpcforge.lab.errors import LabError
from hpcforge.host.paths import RUN
from hpcforge.lab.names import lab_directory, lab_names

LAID_OUT = "vagrant.json"  # the Vagrantfile's input, in a lab's folder
_SOCKET = Path("/run/libvirt/libvirt-sock")
_DAEMONS = ("virtlogd", "libvirtd")  # in starting order
_POOL = "default"
_URI = "qemu:///system"
_START_S = 30


def ensure() -> None:
    """Start libvirt, and wait until it answers. With systemd its sockets start it."""
    if _answers():
        return
    RUN.mkdir(mode=0o755, parents=True, exist_ok=True)
    for name in _DAEMONS:
        if not processes.find(partial(_is, name)):
            _ours(name).touch()
            daemon([f"/usr/sbin/{name}"], RUN / f"{name}.log")
    if not processes.wait_until(_answers, _START_S, every_s=0.3):
        lines = (RUN / "libvirtd.log").read_text(errors="replace").splitlines()[-5:]
        raise LabError("\n".join(["libvirt does not answer on this machine", *lines]), "start libvirtd, then try again")


def release() -> None:
    """End the daemons that hpcforge started, once no lab needs them."""
    if any((lab_directory(name) / LAID_OUT).exists() for name in lab_names()):
        return
    for name in reversed(_DAEMONS):
        if _ours(name).exists():
            _end(name)
            (RUN / f"{name}.log").unlink(missing_ok=True)
            _ours(name).unlink()


def is_installed() -> bool:
    """Return whether this machine has libvirt."""
    return shutil.which("virsh", path=PATH) is not None


def domains(prefixes: Collection[str]) -> list[str]:
    """Return the machines with these name prefixes, running or not."""
    return _beginning(run(*_virsh("list", "--all", "--name")).split(), prefixes)


def remove_domain(name: str) -> None:
    """Kill a machine and undefine it; `remove_volumes` removes its disks."""
    if name in run(*_virsh("list", "--name")).split():
        run(*_virsh("destroy", name))
    run(*_virsh("undefine", name, "--managed-save", "--snapshots-metadata"))


def remove_volumes(prefixes: Collection[str]) -> None:
    """Remove the disks with these name prefixes."""
    if _POOL not in run(*_virsh("pool-list", "--name")).split():
        return
    run(*_virsh("pool-refresh", _POOL))
    rows = run(*_virsh("vol-list", _POOL)).splitlines()
    for name in _beginning([row.split()[0] for row in rows if row.strip()], prefixes):
        run(*_virsh("vol-delete", name, "--pool", _POOL))


def _beginning(names: Collection[str], prefixes: Collection[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(tuple(prefixes)))


def _virsh(*words: str) -> tuple[str, ...]:
    return ("virsh", "--quiet", "--connect", _URI, *words)


def _answers() -> bool:
    if not _SOCKET.exists():
        return False
    try:
        run(*_virsh("version"))
    except HostError:
        return False
    return True


def _end(name: str) -> None:
    for pid in processes.find(partial(_is, name)):
        processes.end(pid, partial(_still, name, pid), (SIGTERM, 10.0), (SIGKILL, 5.0))


def _still(name: str, pid: int) -> bool:
    return _is(name, processes.arguments(pid))


def _is(name: str, argv: list[str]) -> bool:
    return argv[0] == f"/usr/sbin/{name}"


def _ours(name: str) -> Path:
    return RUN / f"{name}-is-ours"
