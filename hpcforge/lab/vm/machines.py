"""Start and stop of nodes as virtual machines."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from hpcforge.host import processes
from hpcforge.host.commands import HostError, daemon, run
from hpcforge.host.paths import RUN, Progress, quiet
from hpcforge.host.resources import available_mib, processors, total_mib
from hpcforge.lab.errors import LabError
from hpcforge.lab.ssh import greets, ssh_argv
from hpcforge.lab.state import Lab, PlacedNode
from hpcforge.lab.vm import disks, qemu, seed
from hpcforge.rehearsal.lab_facts import Card

# A machine's console output, as far as waiting for the machine needs it. Pure.


# The last messages of a failed start: of the kernel, initramfs-tools before and at its shell, systemd.
_LAST_WORDS = (
    "Kernel panic - not syncing",
    "Dropping to a shell!",
    "No init found.",
    "(initramfs)",
    "You are in emergency mode",
)
_KERNELS = re.compile(r"\[ *\d+\.\d+\] ")
_SHOWN = 200  # characters of a line


def gave_up(text: str) -> str:
    """Return the line in which a machine reports that its start failed; "" without one."""
    lines = (line.strip()[:_SHOWN] for line in text.splitlines())
    return next((line for line in lines if any(words in line for words in _LAST_WORDS)), "")


def console_has_begun(text: str) -> bool:
    """Return whether a program runs in a machine (a complete line is not of its kernel), or the machine gave up."""
    complete = text.rpartition("\n")[0]
    lines = [line for line in complete.splitlines() if line.strip() and not _KERNELS.match(line)]
    return bool(lines or gave_up(text))


_POWER_OFF_S = 90
_READY_S = 900  # without KVM, several machines at once on few cores
_PROGRAM_S = 10  # until QEMU itself runs: milliseconds
_KVM_S = 30  # until the first output of a kernel under KVM: one second if KVM works
_KERNEL_S = 120  # until an emulated kernel has started a program: 2 s, some 30 s with busy processors
_AT_ONCE = 8  # machines that are killed at the same time
_LAST_LINES = 15
_LEAST_ROOM_MIB = 256  # its initrd, and the writes of a first boot
_GREETING_S, _LOGIN_S = 20, 60  # an emulated sshd is slow


def start(lab: Lab, node: PlacedNode, progress: Progress = quiet) -> bool:
    """Start a node until its user can log in; return true if it was started now. `LabError` with its console if not."""
    started = not running(lab, node)
    if not started and _without_room(lab.machine(node.name)):
        tell(lab.machine(node.name), "cont")  # with room now it continues, else it is held again
    if started:
        disks.check(lab, node)
        _ensure_room(lab, node)
        stop(lab, node, graceful=False)  # after a crash
        _power_on(lab, node)
        progress(f"{node.name}: is powered on, {'with' if kvm_works() else 'without'} KVM; it boots until SSH answers")
    _wait_ready(lab, node)
    return started


def stop(lab: Lab, node: PlacedNode, *, graceful: bool) -> bool:
    """Stop a node if it runs, and free its resources on the host except its disk; return false if it was killed."""
    return _stop(lab.machine(node.name), graceful=graceful)


def remove(directory: Path, tags: Collection[str]) -> None:  # noqa: ARG001 - the tag identifies machines
    """Kill all machines of a lab and remove their cables, by the present state of the host."""
    names = {qemu.name_in(processes.arguments(pid)) for pid in processes.find(_is_ours)}
    names |= {path.name.partition("-")[2] for path in _taps("*")}
    names |= {path.stem for path in RUN.glob(_monitor("*").name)}
    machines = sorted(name for name in names if any(name.startswith(f"{tag}-") for tag in tags))
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        list(pool.map(lambda name: _stop(name, graceful=False), machines))


def running(lab: Lab, node: PlacedNode) -> bool:
    """Return whether a node's QEMU runs."""
    return bool(_pids(lab.machine(node.name)))


def started_s() -> dict[str, float]:
    """Return the running machines of labs, with start times in seconds since 1970."""
    began = ((qemu.name_in(processes.arguments(pid)), processes.started_s(pid)) for pid in processes.find(_is_ours))
    return {name: at_s for name, at_s in began if name and at_s is not None}


def memory_mib(lab: Lab) -> int | None:
    """Return the least memory of a lab's machines, after their kernels' share; None: none was made yet."""
    sizes = [mib for node in lab.nodes if (mib := _had_mib(lab, node)) is not None]
    return min(sizes) * 15 // 16 if sizes else None


def _power_on(lab: Lab, node: PlacedNode) -> None:
    machine = _machine(lab, node)
    for cable, card in zip(machine.cables, _cards(node), strict=True):
        _plug_in(cable.tap, lab.segments[card.segment] if card.segment else lab.bridge)
    machine.console.unlink(missing_ok=True)
    if kvm_works():
        _launch(machine, "kvm")
        processes.wait_until(lambda: bool(_text(machine.console)) or not running(lab, node), _KVM_S)
        if _text(machine.console):
            return
        # KVM is present, but nothing boots with it, for example when nested. Not tried again until a reboot.
        RUN.mkdir(mode=0o755, parents=True, exist_ok=True)
        _no_kvm().touch()
        _kill(machine.name)
    _emulate(machine)


def _emulate(machine: qemu.VirtualMachine) -> None:
    """Start a machine without KVM; start it once more if its kernel hangs, which happens in one of some fifty starts.

    QEMU 7.2 with two processors: one stays at a breakpoint that the other has put into the kernel's code for a moment,
    and the other waits for it.
    """
    _launch(machine, "tcg")
    if not processes.wait_until(partial(_has_begun, machine), _KERNEL_S, every_s=0.5):
        _kill(machine.name)
        _launch(machine, "tcg")


def _has_begun(machine: qemu.VirtualMachine) -> bool:
    return console_has_begun(_text(machine.console)) or not _pids(machine.name)


def _launch(machine: qemu.VirtualMachine, accelerator: qemu.Accelerator) -> None:
    machine.monitor.unlink(missing_ok=True)
    daemon(qemu.argv(machine, accelerator), machine.console.with_name("qemu.log"))
    # Before its program starts no process has the machine's name, and the machine would count as ended.
    processes.wait_until(lambda: machine.monitor.exists() or bool(_pids(machine.name)), _PROGRAM_S)


def _machine(lab: Lab, node: PlacedNode) -> qemu.VirtualMachine:
    """Return a node as a machine, and make its files on the host."""
    if os.uname().machine != "x86_64":
        raise LabError("virtual machines are those of x86-64", "use containers: `--on nspawn`")
    name = lab.machine(node.name)
    key = disks.private_host_key(lab, node)
    cards = _cards(node)
    cables = qemu.cables(name, cards)
    own = seed.Identity(
        name=node.name,
        address=node.address,
        prefix=lab.network_address.prefixlen,
        mac=cables[0].mac,
        names={cable.mac: card.name for cable, card in zip(cables, cards, strict=True) if card.name},
        # From the key, which is unique to this machine: the same after an interrupted first boot.
        machine_id=hashlib.sha256(key.read_bytes()).hexdigest()[:32],
        host_key=key.read_text(),
        host_key_pub=key.with_name("host_key.pub").read_text(),
        login_user=lab.login_user,
        login_uid=lab.login_uid,
        login_key_pub=lab.key.with_name("key.pub").read_text(),
        packages=f"{lab.gateway}:{lab.packages_port}",
    )
    home = lab.node_directory(node.name)
    initrd = home / "initrd.img"
    shutil.copyfile(disks.initrd(node), initrd)
    with initrd.open("ab") as file:
        file.write(bytes(-file.tell() % 4) + seed.initrd(own))
    return qemu.VirtualMachine(
        name=name,
        memory_mib=_ensure_memory(lab, node),
        topology=processors(),
        disk=disks.written(lab, node),
        kernel=disks.kernel(node),
        initrd=initrd,
        cables=cables,
        console=_console(lab, node),
        monitor=_monitor(name),
        drives=disks.drives(lab, node),
    )


def _ensure_memory(lab: Lab, node: PlacedNode) -> int:
    """Return a node's memory, chosen if it is new. `LabError` if this machine has less."""
    size_mib = _had_mib(lab, node)
    if size_mib is None:
        of_lab = [_had_mib(lab, node) for node in lab.nodes]
        ours = {lab.machine(node.name) for node in lab.nodes}
        lines = [processes.arguments(pid) for pid in processes.find(_is_ours)]
        used = [qemu.memory_in(words) for words in lines if qemu.name_in(words) not in ours]
        used += [mib for mib in of_lab if mib is not None]
        size_mib = qemu.share_mib(total_mib(), used, of_lab.count(None))
        path = _memory_file(lab, node)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{size_mib}\n")
    if size_mib > available_mib():
        raise LabError(
            f"node {node.name} has {size_mib} MiB of memory, and this machine has {available_mib()} MiB free",
            "free memory, or take another rehearsal down; then try again",
        )
    return size_mib


def _ensure_room(lab: Lab, node: PlacedNode) -> None:
    """Raise `LabError` without room for the writes of a machine's first boot."""
    place = lab.node_directory(node.name)
    place.mkdir(parents=True, exist_ok=True)
    free_mib = shutil.disk_usage(place).free >> 20
    if free_mib < _LEAST_ROOM_MIB:
        raise LabError(
            f"node {node.name} needs {_LEAST_ROOM_MIB} MiB in {place} to start, and {free_mib} MiB are free",
            "make room there, then `hpcforge rehearse up` again",
        )


def _had_mib(lab: Lab, node: PlacedNode) -> int | None:
    path = _memory_file(lab, node)
    return int(path.read_text() or 0) or None if path.exists() else None


def _memory_file(lab: Lab, node: PlacedNode) -> Path:
    return disks.made_on(lab, node) / "memory_mib"


def _cards(node: PlacedNode) -> tuple[Card, ...]:
    return node.cards or (Card(),)


def _plug_in(tap: str, bridge: str) -> None:
    mtu = Path("/sys/class/net", bridge, "mtu").read_text().strip()
    run("ip", "tuntap", "add", "dev", tap, "mode", "tap")
    run("ip", "link", "set", tap, "mtu", mtu, "master", bridge)
    run("ip", "link", "set", tap, "up")


def _taps(machine: str) -> list[Path]:
    """Return the present cables of a machine, or of machines by a pattern."""
    return [path for kind in "t123456789" for path in Path("/sys/class/net").glob(f"v{kind}-{machine}")]


def _stop(machine: str, *, graceful: bool) -> bool:
    """Stop a machine, gracefully or at once, and remove its cable; return false if it was killed."""
    in_order = True
    if _pids(machine):
        in_order = graceful and _power_off(machine)
        if not in_order:
            _kill(machine)
    for path in _taps(machine):
        run("ip", "link", "delete", path.name)
    _monitor(machine).unlink(missing_ok=True)
    return in_order


def _power_off(machine: str) -> bool:
    """Press the power button until the machine is off; return false if it stays on. A booting machine ignores it."""
    return any(
        processes.wait_until(lambda: not _pids(machine), timeout_s=_POWER_OFF_S / 3)
        for _ in range(3)
        if _press_power_button(machine)
    )


def _press_power_button(machine: str) -> bool:
    try:
        tell(machine, "system_powerdown")
    except OSError:
        return not _pids(machine)
    return True


def tell(machine: str, command: str) -> str:
    """Send a command to a machine's QEMU; return its answer. OSError if it does not listen."""
    with socket.socket(socket.AF_UNIX) as monitor:
        monitor.settimeout(10)
        monitor.connect(str(_monitor(machine)))
        _until_prompt(monitor)
        monitor.sendall(f"{command}\n".encode())
        return _until_prompt(monitor)


def _without_room(machine: str) -> bool:
    """Return whether a machine is held because this host had no room for its writes."""
    try:
        return "paused (io-error)" in tell(machine, "info status")
    except OSError:
        return False


def _until_prompt(monitor: socket.socket) -> str:
    output = b""
    while b"(qemu) " not in output:
        more = monitor.recv(4096)
        if not more:
            raise ConnectionResetError("QEMU has ended")
        output += more
    return output.decode(errors="replace")


def _kill(machine: str) -> None:
    for pid in _pids(machine):
        processes.end(pid, partial(_is_still, pid, machine), (signal.SIGKILL, 10.0))


def _is_still(pid: int, machine: str) -> bool:
    return qemu.name_in(processes.arguments(pid)) == machine


def _wait_ready(lab: Lab, node: PlacedNode) -> None:
    answers = f"does not answer on {node.address}:22 after {_READY_S} s"
    _until(lab, node, lambda: greets(node.address, _GREETING_S), 0.5, answers)
    # While a machine boots, PAM lets only root in.
    _until(lab, node, lambda: _lets_user_in(lab, node), 2, f"does not let {lab.login_user} in after {_READY_S} s")


def _until(lab: Lab, node: PlacedNode, ready: Callable[[], bool], every_s: float, late: str) -> None:
    """Wait for a machine; `LabError` with its console if it is `late` or failed to boot; a failed one is stopped."""
    deadline = time.monotonic() + _READY_S
    while not ready():
        if _without_room(lab.machine(node.name)):
            raise LabError(
                f"node {node.name} is paused: no room to write in {lab.node_directory(node.name)}",
                "make room there, then `hpcforge rehearse up` again: it continues",
            )
        has_ended = not running(lab, node)
        if problem := "its QEMU has ended" if has_ended else gave_up(_text(_console(lab, node))):
            dead = _dead(lab, node, f"did not boot: {problem}")
            stop(lab, node, graceful=False)
            raise dead
        if time.monotonic() > deadline:
            raise _dead(lab, node, late)
        time.sleep(every_s)


def _lets_user_in(lab: Lab, node: PlacedNode) -> bool:
    """Return whether a login succeeds, with this machine's own host key."""
    known_hosts = lab.node_directory(node.name) / "known_hosts"
    known_hosts.write_text(f"{node.address} {disks.host_key(lab, node)}\n")
    try:
        run(*ssh_argv(lab, node.name, ["true"], known_hosts=known_hosts, patience_s=_LOGIN_S))
    except HostError:
        return False
    return True


def _dead(lab: Lab, node: PlacedNode, problem: str) -> LabError:
    path = _console(lab, node)
    texts = (_text(path), _text(path.with_name("qemu.log")))
    lines = [line.rstrip() for text in texts for line in text.splitlines()[-_LAST_LINES:]]
    return LabError(
        "\n".join([f"node {node.name} {problem}", *lines]),
        f"its console is in {path}; `hpcforge rehearse up` tries again, `hpcforge rehearse down` removes all",
    )


def kvm_works() -> bool:
    """Return whether KVM is present, and has not failed to boot."""
    return os.access("/dev/kvm", os.R_OK | os.W_OK) and not _no_kvm().exists()


def _no_kvm() -> Path:
    return RUN / "kvm-boots-nothing"


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _console(lab: Lab, node: PlacedNode) -> Path:
    return lab.node_directory(node.name) / "console.log"


def _monitor(machine: str) -> Path:
    return RUN / f"{machine}.monitor"  # a socket's path has 107 characters at most: a lab's folder may be too long


def _is_ours(argv: list[str]) -> bool:
    return bool(qemu.name_in(argv))


def _pids(machine: str) -> list[int]:
    return processes.find(lambda argv: qemu.name_in(argv) == machine)
