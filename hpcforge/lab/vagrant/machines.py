"""Nodes as Vagrant's machines: the input of the Vagrantfile, and the calls of Vagrant."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import threading
from collections import deque
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from hpcforge import bundled
from hpcforge.atomic import write_atomically
from hpcforge.host import processes
from hpcforge.image import node_system
from hpcforge.host.commands import environment, run
from hpcforge.lab.errors import LabError
from hpcforge.host.paths import Progress, quiet
from hpcforge.host.resources import processors, total_mib
from hpcforge.lab.names import machine_name
from hpcforge.lab.ssh import greets
from hpcforge.lab.state import Lab, PlacedNode
from hpcforge.host.paths import remove_tree
from hpcforge.lab.vagrant import libvirt
from hpcforge.lab.vm import qemu, seed
from hpcforge.lab.vm.machines import kvm_works
from hpcforge.rehearsal.lab_facts import Card

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hpcforge.lab.vm import qemu


# The Vagrantfile's input, and libvirt's names of the resulting objects.
_STEP = re.compile(r"==> ([A-Za-z0-9-]{1,63}): (\S.*)")


@dataclass(frozen=True)
class VagrantBox:
    """Vagrant's base disk of machines: its name, and its source."""

    name: str
    url: str


@dataclass(frozen=True)
class NetworkCard:
    """A network card on a bridge of the lab."""

    bridge: str
    mac: str


@dataclass(frozen=True)
class VagrantMachine:
    """One machine. It boots the kernel with its own initrd, which has its identity (decision 38)."""

    memory_mib: int
    cpus: int
    mac: str  # MAC of the card that Vagrant adds first, to reach the machine
    cards: tuple[NetworkCard, ...]
    box: VagrantBox
    kernel: str
    initrd: str
    console: str


def vagrantfile_document(
    *,
    tag: str,
    driver: str,
    user: str,
    key: Path,
    state: str,
    machines: Mapping[str, VagrantMachine],
) -> dict[str, Any]:
    """Return the contents of `vagrant.json` in a lab's folder.

    `schema_version` 1; `prefix` of libvirt's domains; `driver`: kvm or qemu; `kernel_says`: its command line; `ssh`:
    how to log in; `state`: the folder in which Vagrant keeps its data of these machines; `machines` by name.
    """
    return {
        "schema_version": 1,
        "prefix": f"{tag}-",
        "driver": driver,
        "kernel_says": qemu.KERNEL_SAYS,
        "ssh": {"user": user, "key": str(key)},
        "state": state,
        "machines": {name: asdict(machine) for name, machine in machines.items()},
    }


def box_metadata(disk_bytes: int) -> dict[str, Any]:
    """Return metadata.json of a box for libvirt; whole GiB, as the provider requires."""
    return {"provider": "libvirt", "format": "qcow2", "virtual_size": -(-disk_bytes // (1 << 30))}


def domain_in(words: Sequence[str]) -> str:
    """Return the libvirt domain of a QEMU command line; "" without one.

    libvirt 9 writes `-name guest=DOMAIN,debug-threads=on`.
    """
    if not words or Path(words[0]).name != qemu.PROGRAM or "-name" not in words[:-1]:
        return ""
    guest = words[words.index("-name") + 1]
    return guest.removeprefix("guest=").partition(",")[0] if guest.startswith("guest=") else ""


def step_in(line: str) -> str | None:
    """Return the step that a line of Vagrant's output reports; None for a setting or the rest of a message."""
    match = _STEP.fullmatch(line.rstrip())
    return None if match is None else f"{match[1]}: Vagrant: {match[2]}"


_BOOT = Path("/var/lib/libvirt/hpcforge")  # QEMU runs as another user there, without access to labs
_DISK_BYTES = 20 << 30  # the machine sees this size: its root file system grows to it at its first boot
_BOX = "disk.box"
_OF_VAGRANT = 99  # the number of the card that Vagrant adds
_ANSWER_S = 300
_AT_WORK = threading.Lock()


def lay_out(lab: Lab, progress: Progress = quiet) -> None:
    """Write the Vagrantfile's input with all its files: box, kernel, and an initrd for each machine."""
    if os.uname().machine != "x86_64":
        raise LabError("machines of Vagrant are those of x86-64", "use containers: `--on nspawn`")
    boot = _boot(lab.tag)
    boot.mkdir(mode=0o711, parents=True, exist_ok=True)
    progress(f"writing box, kernel and initrds of {len(lab.nodes)} machines to {boot}")
    document = vagrantfile_document(
        tag=lab.tag,
        driver=os.environ.get("HPCFORGE_VAGRANT_DRIVER") or ("kvm" if kvm_works() else "qemu"),
        user=lab.login_user,
        key=lab.key,
        state=_state(lab),
        machines={node.name: _machine(lab, node, boot) for node in lab.nodes},
    )
    write_atomically(_file(lab.directory), json.dumps(document, indent=2) + "\n")


def start(lab: Lab, node: PlacedNode, progress: Progress = quiet) -> bool:
    """Start a node until it answers on the lab's bridge. Vagrant starts all nodes of the blueprint in parallel.

    `progress` gets each step that Vagrant reports.
    """
    ran = running(lab, node)
    with _AT_WORK:
        if not running(lab, node):
            names = {node.name, *lab.in_blueprint}
            off = [node.name for node in lab.nodes if node.name in names and not running(lab, node)]
            progress(f"vagrant up {' '.join(off)}")
            _vagrant(lab, "up", "--provider", "libvirt", *off, progress=progress)
            progress(f"vagrant up has ended; waiting until SSH answers, at most {_ANSWER_S} s for each machine")
    if not processes.wait_until(lambda: greets(node.address, 20), _ANSWER_S, every_s=0.5):
        raise LabError(f"node {node.name} does not answer on {node.address}:22", f"its console: {_console(lab, node)}")
    return not ran


def stop(lab: Lab, node: PlacedNode, *, graceful: bool) -> bool:
    """Stop a node if it runs; return false if it was killed."""
    if running(lab, node):
        with _AT_WORK:
            _vagrant(lab, "halt", *([] if graceful else ["--force"]), node.name)
    return graceful


def running(lab: Lab, node: PlacedNode) -> bool:
    """Return whether a node's QEMU runs."""
    return bool(processes.find(lambda argv: domain_in(argv) == _domain(lab, node)))


def started_s() -> dict[str, float]:
    """Return libvirt's running machines by a lab's names for them, with start times in s since 1970."""
    pids = processes.find(lambda argv: bool(domain_in(argv)))
    began = ((domain_in(processes.arguments(pid)), processes.started_s(pid)) for pid in pids)
    parts = ((name.partition("-"), at_s) for name, at_s in began if at_s is not None)
    return {machine_name(tag, node): at_s for (tag, _, node), at_s in parts if node}


def memory_mib(lab: Lab) -> int | None:
    """Return the least memory of a lab's machines, after their kernels' share; None: none was made yet."""
    sizes = [mib for node in lab.nodes if (mib := _had_mib(lab, node)) is not None]
    return min(sizes) * 15 // 16 if sizes else None


def host_key(lab: Lab, node: PlacedNode) -> str | None:
    """Return the public host key that a node was made with; None: it was not made yet."""
    public = _own(lab, node) / "host_key.pub"
    return " ".join(public.read_text().split()[:2]) if public.exists() and public.stat().st_size else None


def check_disks(lab: Lab, node: PlacedNode) -> None:
    """Raise `LabError` if a file of a node's image is missing."""
    files = [Path(layer) / name for layer in node.layers for name in (node_system.DISK, node_system.KERNEL, node_system.INITRD)]
    if missing := [path for path in files if not path.is_file()]:
        raise LabError(
            f"node {node.name} uses {missing[0]}, which is missing",
            "take the lab down and up again: `hpcforge rehearse down`",
        )


def remove_others(lab: Lab, keep: Collection[tuple[str, int]]) -> None:
    """Destroy all machines except those with these folders (node and number)."""
    removed = [disk for disk in lab.directory.glob("nodes/*/disks/*") if (disk.parents[1].name, int(disk.name)) not in
    keep]
    for disk in removed:
        with _AT_WORK:
            _vagrant(lab, "destroy", "--force", disk.parents[1].name)
        remove_tree(disk)


def remove(directory: Path, tags: Collection[str]) -> None:
    """Remove all machines of a lab with their disks and box, by Vagrant, and then the leftovers in libvirt."""
    if not libvirt.is_installed() or not (_file(directory).exists() or any(_boot(tag).exists() for tag in tags)):
        return
    libvirt.ensure()
    if document := _document(directory):
        _call("destroy", "--force", env=_environment(directory, document), must=False)  # leftovers are removed below
        for box in {machine["box"]["name"] for machine in document["machines"].values()}:
            _call("box", "remove", "--force", "--all", box, env=_environment(directory, document), must=False)
    if prefixes := [f"{tag}-" for tag in tags]:
        for name in libvirt.domains(prefixes):
            libvirt.remove_domain(name)
        libvirt.remove_volumes(prefixes)
    for tag in tags:
        if _boot(tag).exists():
            shutil.rmtree(_boot(tag))
    if _BOOT.exists() and not any(_BOOT.iterdir()):
        _BOOT.rmdir()


def _machine(lab: Lab, node: PlacedNode, boot: Path) -> VagrantMachine:
    """Return a node's entry for the Vagrantfile, and build its initrd."""
    if node.drives:
        raise LabError(f"node {node.name} has NVMe drives, which libvirt gives no machine", "use `--on vm`")
    image = _image(lab.tag, Path(node.layers[0]))
    cards = node.cards or (Card(),)
    cables = qemu.cables(lab.machine(node.name), cards)
    mac = qemu.mac(lab.machine(node.name), _OF_VAGRANT)
    own = _identity(lab, node, {cable.mac: card.name for cable, card in zip(cables, cards, strict=True) if card.name},
    mac)
    initrd = boot / f"{node.name}.initrd"
    if not running(lab, node):
        text = (Path(node.layers[0]) / node_system.INITRD).read_bytes()
        write_atomically(initrd, text + bytes(-len(text) % 4) + seed.initrd(own), mode=0o600)
    bridges = [lab.segments[card.segment] if card.segment else lab.bridge for card in cards]
    sockets, cores, threads = processors()
    return VagrantMachine(
        memory_mib=_ensure_memory(lab, node),
        cpus=sockets * cores * threads,
        mac=mac,
        cards=tuple(NetworkCard(bridge, cable.mac) for bridge, cable in zip(bridges, cables, strict=True)),
        box=VagrantBox(f"{lab.tag}-{image.name}", f"file://{image / _BOX}"),
        kernel=str(image / node_system.KERNEL),
        initrd=str(initrd),
        console=str(_console(lab, node)),
    )


def _identity(lab: Lab, node: PlacedNode, names: Mapping[str, str], outside: str) -> seed.Identity:
    key = _own(lab, node) / "host_key"
    if host_key(lab, node) is None:
        key.parent.mkdir(parents=True, exist_ok=True)
        key.unlink(missing_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"root@{node.name}", "-f", key)
    return seed.Identity(
        name=node.name,
        address=node.address,
        prefix=lab.network_address.prefixlen,
        mac=qemu.mac(lab.machine(node.name)),
        names=names,
        machine_id=hashlib.sha256(key.read_bytes()).hexdigest()[:32],
        host_key=key.read_text(),
        host_key_pub=key.with_name("host_key.pub").read_text(),
        login_user=lab.login_user,
        login_uid=lab.login_uid,
        login_key_pub=lab.key.with_name("key.pub").read_text(),
        packages=f"{lab.gateway}:{lab.packages_port}",
        by_dhcp=outside,
    )


def _image(tag: str, layer: Path) -> Path:
    """Return the folder of an image's kernel, disk and box (a few hundred KiB) for QEMU's user, made once."""
    image = _boot(tag) / layer.parent.name
    if not (image / _BOX).exists():
        image.mkdir(mode=0o711, exist_ok=True)
        for name in (node_system.KERNEL, node_system.DISK):
            shutil.copyfile(layer / name, image / name)
        disk = ("-b", image / node_system.DISK, "-F", "raw")
        run("qemu-img", "create", "-q", "-f", "qcow2", *disk, "box.img", str(_DISK_BYTES), cwd=image)
        (image / "metadata.json").write_text(json.dumps(box_metadata(_DISK_BYTES)))
        with tarfile.open(image / "new", "w") as tar:
            for name in ("metadata.json", "box.img"):
                tar.add(image / name, arcname=name)
        (image / "new").rename(image / _BOX)
    return image


def _ensure_memory(lab: Lab, node: PlacedNode) -> int:
    size_mib = _had_mib(lab, node)
    if size_mib is None:
        of_lab = [_had_mib(lab, node) for node in lab.nodes]
        ours = {_domain(lab, node) for node in lab.nodes}
        lines = [processes.arguments(pid) for pid in processes.find(lambda argv: Path(argv[0]).name == qemu.PROGRAM)]
        used = [qemu.memory_in(words) for words in lines if domain_in(words) not in ours]
        size_mib = qemu.share_mib(total_mib(), [*used, *filter(None, of_lab)], of_lab.count(None))
        _memory_file(lab, node).write_text(f"{size_mib}\n")
    return size_mib


def _had_mib(lab: Lab, node: PlacedNode) -> int | None:
    path = _memory_file(lab, node)
    return int(path.read_text() or 0) or None if path.exists() else None


def _memory_file(lab: Lab, node: PlacedNode) -> Path:
    return _own(lab, node) / "memory_mib"


def _own(lab: Lab, node: PlacedNode) -> Path:
    """Return the folder of a machine, which exists as long as its disk."""
    return lab.node_directory(node.name) / "disks" / str(node.disks[-1])


def _domain(lab: Lab, node: PlacedNode) -> str:
    """Return libvirt's name of a machine: `prefix` of the document, and Vagrant's name."""
    return f"{lab.tag}-{node.name}"


def _console(lab: Lab, node: PlacedNode) -> Path:
    return lab.node_directory(node.name) / "console.log"


def _boot(tag: str) -> Path:
    return _BOOT / tag


def _file(directory: Path) -> Path:
    return directory / libvirt.LAID_OUT


def _state(lab: Lab) -> str:
    """Return the folder of Vagrant's data of the machines; the first choice stays."""
    if document := _document(lab.directory):
        return str(document["state"])
    return os.environ.get("HPCFORGE_VAGRANT_STATE") or str(lab.directory / "vagrant")


def _vagrant(lab: Lab, *words: str, progress: Progress = quiet) -> None:
    libvirt.ensure()
    if document := _document(lab.directory):  # else there is no input, and Vagrant has no machines of it
        _call(*words, env=_environment(lab.directory, document), progress=progress)


def _document(directory: Path) -> dict[str, Any] | None:
    """Return a lab's document; None if it is missing or unreadable: then names identify the machines."""
    try:
        document: dict[str, Any] = json.loads(_file(directory).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return document


def _environment(directory: Path, document: Mapping[str, Any]) -> dict[str, str]:
    vagrant = {"VAGRANT_CWD": str(bundled.vagrant()), "VAGRANT_DOTFILE_PATH": document["state"]}
    return environment() | _home() | vagrant | {"HPCFORGE_VAGRANT": str(_file(directory)), "VAGRANT_DEFAULT_PROVIDER":
    "libvirt"}


def _home() -> dict[str, str]:
    return {"HOME": str(Path.home()), "VAGRANT_CHECKPOINT_DISABLE": "1"} | {
        name: os.environ[name] for name in ("VAGRANT_HOME",) if name in os.environ
    }


def _call(*words: str, env: Mapping[str, str], must: bool = True, progress: Progress = quiet) -> None:
    """Run Vagrant to its end. Raises LabError with its last lines if it fails and `must` succeed."""
    lines: deque[str] = deque(maxlen=15)
    with subprocess.Popen(
        ["vagrant", *words],
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as vagrant:
        try:
            for line in vagrant.stdout or ():
                lines.append(line.rstrip())
                if step := step_in(line):
                    progress(step)
        except BaseException:
            vagrant.kill()
            raise
    if vagrant.returncode and must:
        tail = "\n".join(lines)
        raise LabError(f"`vagrant {' '.join(words)}` failed with exit code {vagrant.returncode}\n{tail}")
