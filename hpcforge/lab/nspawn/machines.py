"""Start and stop of nodes as nspawn machines."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from hpcforge.host import processes
from hpcforge.host.commands import daemon, run, tried
from hpcforge.host.package_sources import takes_cgroup_v2_alone
from hpcforge.host.paths import Progress, quiet
from hpcforge.lab.errors import LabError
from hpcforge.lab.nspawn import disks
from hpcforge.lab.ssh import greets
from hpcforge.lab.state import Lab, PlacedNode
from hpcforge.rehearsal.lab_facts import SHARED_FOLDER

# A node's own control groups.
#
# Nodes that start from one cgroup share systemd's hierarchy on the host, and their services then fail at random. So on
# hosts with the name=systemd hierarchy or a plain cgroup2 mount each node gets a directory there; on a host with
# systemd on the unified hierarchy a service unit does that (see `_launch`).
_PREFIX = "hpcforge-"


def _hierarchies() -> list[Path]:
    """Return the mount points of name=systemd and of cgroup2, in /sys/fs/cgroup."""
    mounts = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount_point, kind, options, *_ = line.split()
        if not mount_point.startswith("/sys/fs/cgroup"):
            continue
        if kind == "cgroup2" or (kind == "cgroup" and "name=systemd" in options.split(",")):
            mounts.append(Path(mount_point))
    return mounts


def make(machine: str) -> list[Path]:
    """Return a machine's control groups, made if missing."""
    groups = [hierarchy / f"{_PREFIX}{machine}" for hierarchy in _hierarchies()]
    for group in groups:
        group.mkdir(exist_ok=True)
    return groups


def remove_groups(machine: str) -> None:
    """Kill remaining processes in a machine's control groups and remove the groups."""
    for hierarchy in _hierarchies():
        group = hierarchy / f"{_PREFIX}{machine}"
        if group.is_dir():
            processes.wait_until(partial(_remove_tree, group), timeout_s=5)


def machines_of(tags: Iterable[str]) -> set[str]:
    """Return the machines of these labs that have control groups."""
    groups = [group.name for tag in tags for top in _hierarchies() for group in top.glob(f"{_PREFIX}{tag}-*")]
    return {name.removeprefix(_PREFIX) for name in groups}


def _remove_tree(group: Path) -> bool:
    """Kill and remove a group; return whether it is removed."""
    for directory, _, _ in os.walk(group, topdown=False):
        for pid in (Path(directory) / "cgroup.procs").read_text().split():
            _kill(int(pid))
        try:
            Path(directory).rmdir()
        except FileNotFoundError:
            continue
        except OSError:  # a killed process has not ended yet
            return False
    return True


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


_POWER_OFF = signal.SIGRTMIN + 4  # systemd as process 1: an orderly power-off
_POWER_OFF_S = 15
_READY_S = 90
# For FUSE file systems, and for networks of users' containers.
_DEVICES = ("/dev/fuse", "/dev/net/tun")
# cgroup v2 only, as on metal. systemd 258 and later needs it; without this, nspawn follows the host.
_PURE_V2 = ("env", "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1")
_AT_ONCE = 8  # machines that are killed at the same time

# Enters its control groups, then runs nspawn, again as long as the node reboots (exit code 133).
_KEEPER = r"""
while [ "$1" != -- ]; do echo $$ > "$1"; shift; done
shift
while "$@"; [ $? = 133 ]; do :; done
"""


def start(lab: Lab, node: PlacedNode, progress: Progress = quiet) -> bool:  # noqa: ARG001 - it takes only seconds
    """Start a node until it answers on SSH; return true if it was started now. `LabError` with its console if not."""
    started = not running(lab, node)
    if started:
        stop(lab, node, graceful=False)  # after a crash
        _launch(lab, node, disks.mount(lab, node))
    _wait_ready(lab, node)
    return started


def stop(lab: Lab, node: PlacedNode, *, graceful: bool) -> bool:
    """Stop a node if it runs, and free its resources on the host except its disk; return false if it was killed."""
    in_order = _stop(lab.machine(node.name), graceful=graceful)
    disks.unmount(lab.node_directory(node.name))
    return in_order


def remove(directory: Path, tags: Collection[str]) -> None:
    """Kill all machines of a lab and unmount their disks, by the present state of the host."""
    machines = _machines_of(directory) | machines_of(tags)
    # Killed, not powered off: these disks are lost.
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        list(pool.map(lambda machine: _stop(machine, graceful=False), sorted(machines)))
    disks.unmount(directory)


def _stop(machine: str, *, graceful: bool) -> bool:
    """Stop a machine, gracefully or at once, and remove its leftovers; return false if it was killed."""
    in_order = [_end(pid, machine, graceful=graceful) for pid in _spawners(machine)]
    remove_groups(machine)
    # The kernel removes the interface some time after the last process: until then nspawn could not start the machine.
    # A name that is too long is the interface's alternative name.
    tried("ip", "link", "delete", "dev", f"vb-{machine}")
    return all(in_order)


def running(lab: Lab, node: PlacedNode) -> bool:
    """Return whether a node has its process 1."""
    return _init(lab.machine(node.name)) is not None


def started_s() -> dict[str, float]:
    """Return the running machines of labs, with start times in seconds since 1970."""
    times = {}
    for pid in processes.find(_spawns):
        machine = _option(processes.arguments(pid), "--machine")
        began_s = processes.started_s(pid)
        if machine and began_s is not None and processes.init_of(pid) is not None:
            times[machine] = began_s
    return times


def _machines_of(directory: Path) -> set[str]:
    """Return the machines with a root under a directory."""
    machines = set()
    for pid in processes.find(_spawns):
        argv = processes.arguments(pid)
        if Path(_option(argv, "--directory") or "/").is_relative_to(directory):
            machines.add(_option(argv, "--machine"))
    return machines - {""}


def _spawns(argv: list[str]) -> bool:
    return Path(argv[0]).name == "systemd-nspawn"


def _option(argv: list[str], name: str) -> str:
    """Return the value of `--name=value`; "" without it."""
    return next((word.partition("=")[2] for word in argv if word.startswith(f"{name}=")), "")


def _launch(lab: Lab, node: PlacedNode, root: Path) -> None:
    machine = lab.machine(node.name)
    nspawn = [
        *(_PURE_V2 if takes_cgroup_v2_alone(node.release or lab.release) else ()),
        "systemd-nspawn",
        "--quiet",
        "--boot",
        "--register=no",
        "--keep-unit",
        f"--directory={root}",
        f"--machine={machine}",
        f"--hostname={node.name}",
        f"--network-bridge={lab.bridge}",
        "--resolv-conf=off",
        "--link-journal=no",
    ]
    shared = lab.directory / "shared"  # the stand-in for shared storage of a site
    shared.mkdir(exist_ok=True)
    shared.chmod(0o1777)
    nspawn.append(f"--bind={shared}:{SHARED_FOLDER}")
    if not Path(f"/run/systemd/nspawn/{machine}.nspawn").exists():  # the option would replace that file's filter
        nspawn.append("--system-call-filter=@keyring")  # allowed as on metal: containers of jobs have session keyrings
    nspawn += [f"--bind={own}:{path}" for path, own in _devices(lab).items()]
    console = _console(lab, node)
    console.unlink(missing_ok=True)
    if Path("/run/systemd/system").is_dir():
        # A service has its own cgroup with delegated controllers, and outlives the session that starts it.
        unit = [f"--unit=hpcforge-{machine}", "--collect", "--quiet", "--property=Delegate=yes"]
        reboots = ["--property=RestartForceExitStatus=133", "--property=SuccessExitStatus=133"]
        run("systemd-run", *unit, *reboots, f"--property=StandardOutput=append:{console}", *nspawn)
    else:
        groups = [str(group / "cgroup.procs") for group in make(machine)]
        daemon(["sh", "-c", _KEEPER, "sh", *groups, "--", *nspawn], console)


def _devices(lab: Lab) -> dict[str, Path]:
    """Return device files that every user may open on a node, as with udev, each with the lab's own file for it.

    Plain bind mounts would have the modes of the host's files: without udev only root may open them.
    """
    folder = lab.directory / "devices"
    folder.mkdir(exist_ok=True)
    own = {}
    for path in map(Path, _DEVICES):
        if path.exists():
            own[str(path)] = folder / path.name
            with contextlib.suppress(FileExistsError):  # nodes start in parallel
                os.mknod(own[str(path)], stat.S_IFCHR, path.stat().st_rdev)
            own[str(path)].chmod(0o666)
    return own


def _end(pid: int, machine: str, *, graceful: bool) -> bool:
    """End one nspawn process and the node in it; return false if the node was killed."""

    def ours() -> bool:
        return _is_spawner(processes.arguments(pid), machine)

    init = processes.init_of(pid)
    in_order = True
    if init is not None:

        def runs() -> bool:
            return processes.init_of(pid) == init

        # Twice: a booting node ignores the first signal.
        in_order = graceful and processes.end(init, runs, (_POWER_OFF, 2.0), (_POWER_OFF, _POWER_OFF_S))
        if not in_order:
            processes.end(init, runs, (signal.SIGKILL, 3.0))
    if not processes.wait_until(lambda: not ours(), timeout_s=2):
        processes.end(pid, ours, (signal.SIGKILL, 3.0))
    return in_order


def _wait_ready(lab: Lab, node: PlacedNode) -> None:
    if not processes.wait_until(lambda: running(lab, node) or _refused(lab, node), timeout_s=20) or _refused(lab, node):
        raise _dead(lab, node, "does not start")
    if not processes.wait_until(lambda: greets(node.address) or not running(lab, node), _READY_S):
        raise _dead(lab, node, f"does not answer on {node.address}:22 after {_READY_S} s")
    # While a node boots, PAM lets only root in.
    if not processes.wait_until(lambda: _lets_users_in(lab.machine(node.name)), _READY_S):
        raise _dead(lab, node, "stopped while it was booting, or does not let users in")


def _refused(lab: Lab, node: PlacedNode) -> bool:
    """Return whether nspawn gave up before process 1 started."""
    console = _console(lab, node)
    return console.exists() and console.stat().st_size > 0 and not _spawners(lab.machine(node.name))


def _lets_users_in(machine: str) -> bool:
    init = _init(machine)
    return init is not None and not Path(f"/proc/{init}/root/run/nologin").exists()


def _dead(lab: Lab, node: PlacedNode, problem: str) -> LabError:
    console = _console(lab, node)
    lines = console.read_text(errors="replace").splitlines()[-10:] if console.exists() else []
    return LabError("\n".join([f"node {node.name} {problem}", *lines]), f"its console is in {console}")


def _console(lab: Lab, node: PlacedNode) -> Path:
    return lab.node_directory(node.name) / "console.log"


def _init(machine: str) -> int | None:
    return next((init for pid in _spawners(machine) if (init := processes.init_of(pid)) is not None), None)


def _spawners(machine: str) -> list[int]:
    return processes.find(lambda argv: _is_spawner(argv, machine))


def _is_spawner(argv: list[str], machine: str) -> bool:
    return bool(argv) and Path(argv[0]).name == "systemd-nspawn" and f"--machine={machine}" in argv
