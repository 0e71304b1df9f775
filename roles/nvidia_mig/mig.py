#!/usr/bin/python3 -IS
"""Cut the GPUs of this node into the MIG instances of /etc/hpcforge/nvidia_mig.json.

set     what is not as wanted is made so, and nothing else is touched; then the links that Slurm opens
check   compares, and says what is missing where

What is there is read first, and again after each change. Nothing is done to a GPU on which a process computes. Clients
that keep a GPU from being changed are stopped only where that turns out, and started again, whatever comes of it. Every
command has a limit, and so has all of it, so that a GPU that hangs ends in a reason. Standard library, Python 3.9.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import Any, NamedTuple, NoReturn

WANTED = "/etc/hpcforge/nvidia_mig.json"
SET = "/run/hpcforge-mig.set"  # it is there while the layout is: slurmd does not start without it
FAILED = "/run/hpcforge-mig.failed"  # why the last attempt came to nothing
FOLDER = "/dev/hpcforge-mig"  # of the links
CLIENTS = (
    "nvidia-persistenced.service",
    "nvidia-dcgm.service",
    "dcgm.service",
    "nvidia-dcgm-exporter.service",
    "dcgm-exporter.service",
    "nvsm.service",
)
COMMAND_S = 120.0  # for one command
ALL_S = 420.0  # for all: less than the unit's TimeoutStartSec
IN_USE = "In use by another client"
NOTHING = ("No GPU instances found", "No compute instances found", "No MIG-enabled devices found")
GI_ROW = re.compile(r"\|\s+(\d+)\s+MIG (\S+)\s+\d+\s+(\d+)\s+(\d+):\d+\s+\|")
CI_ROW = re.compile(r"\|\s+(\d+)\s+(\d+)\s+MIG (\S+)\s+\d+\s+(\d+)(?:\s+\d+:\d+)?\s+\|")

Wanted = list[dict[str, Any]]  # the instances of a GPU: profile and start


class FailedError(Exception):
    """It cannot be done; the text says why."""


class InUseError(FailedError):
    """Somebody has the GPU open."""


class Instance(NamedTuple):
    """A GPU instance, and the compute instances in it, by number and name."""

    profile: str
    start: int
    number: int
    computes: tuple[tuple[int, str], ...]

    @property
    def ready(self) -> bool:
        """Whether it has one compute instance, which has all of it."""
        return [name for _, name in self.computes] == [self.profile]


class Gpu(NamedTuple):
    """A GPU as nvidia-smi counts it."""

    index: int
    bus: str  # 0000:1b:00.0
    mode: str  # Enabled, Disabled, or [N/A]
    instances: tuple[Instance, ...]


class Node:
    """This node's commands, each with a limit; `root` is where its /dev, /proc and /run are."""

    def __init__(self, root: str = "", command_s: float = COMMAND_S, all_s: float = ALL_S) -> None:
        self.root = root
        self.command_s = command_s
        self.until = time.monotonic() + all_s
        self.stopped: list[str] = []

    def run(self, *argv: str) -> tuple[int, str]:
        """Exit status and what a program prints. Raises FailedError if it gives no answer."""
        limit = max(1.0, min(self.command_s, self.until - time.monotonic()))
        pipe = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        try:
            child = subprocess.Popen(argv, text=True, **pipe)  # type: ignore[call-overload]
        except OSError as error:
            raise FailedError(f"{argv[0]}: {error.strerror}") from error
        try:
            said, _ = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            child.kill()
            child.stdout.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(1.0)  # no longer: in the driver it may never end
            what = f"`{' '.join(argv)}` gave no answer within {limit:.0f} s"
            raise FailedError(f"{what}: look at the kernel's log for NVRM and Xid, then restart the node") from None
        except FailedError:  # told to stop meanwhile
            child.kill()
            raise
        return child.returncode, said

    def smi(self, *argv: str) -> str:
        """What nvidia-smi prints. Raises InUseError, or FailedError with its words."""
        status, said = self.run("nvidia-smi", *argv)
        if status and not any(words in said for words in NOTHING):
            raise (InUseError if IN_USE in said else FailedError)(
                f"nvidia-smi {' '.join(argv)}: {' '.join(said.split())[:300]}"
            )
        return said

    # What is there

    def gpus(self) -> list[Gpu]:
        """Every GPU, with its instances. Raises FailedError if that cannot be known."""
        said = self.smi("--query-gpu=index,pci.bus_id,mig.mode.current", "--format=csv,noheader")
        fields = [[field.strip() for field in line.split(",")] for line in said.splitlines() if line.strip()]
        if any(len(row) != 3 or not row[0].isdecimal() for row in fields):
            raise FailedError(f"nvidia-smi: not understood: {' '.join(said.split())[:300]}")
        some = any(mode == "Enabled" for _, _, mode in fields)
        instances = self.instances() if some else {}
        return [Gpu(int(at), bus[-12:].lower(), mode, tuple(instances.get(int(at), ()))) for at, bus, mode in fields]

    def instances(self) -> dict[int, list[Instance]]:
        """All instances by GPU, in the order in which they lie there."""
        computes: dict[tuple[int, int], list[tuple[int, str]]] = {}
        for gpu, instance, name, number in self.rows(CI_ROW, "mig", "-lci"):
            computes.setdefault((int(gpu), int(instance)), []).append((int(number), name))
        found: dict[int, list[Instance]] = {}
        for gpu, profile, number, start in self.rows(GI_ROW, "mig", "-lgi"):
            inside = tuple(computes.get((int(gpu), int(number)), ()))
            found.setdefault(int(gpu), []).append(Instance(profile, int(start), int(number), inside))
        return {gpu: sorted(some, key=lambda instance: instance.start) for gpu, some in found.items()}

    def rows(self, form: "re.Pattern[str]", *argv: str) -> list[tuple[str, ...]]:
        """The rows of a table. Raises FailedError for one that is not as it was known, instead of guessing."""
        lines = [line.strip() for line in self.smi(*argv).splitlines() if re.match(r"\s*\|\s+\d", line)]
        found = [form.fullmatch(line) for line in lines]
        if None in found:
            raise FailedError(f"nvidia-smi {' '.join(argv)}: not understood: {lines[found.index(None)]}")
        return [match.groups() for match in found if match]

    def computing(self, gpu: int) -> list[str]:
        """The processes that compute on a GPU."""
        said = self.smi("-i", str(gpu), "--query-compute-apps=pid,process_name", "--format=csv,noheader")
        return [" ".join(line.split()) for line in said.splitlines() if line[:1].isdecimal()]

    # What is changed

    def cut(self, index: int, wanted: Wanted) -> None:
        """Give a GPU its mode and instances. Raises InUseError where somebody has it open."""
        gpu = self.gpus()[index]
        if gpu.instances:
            self.smi("mig", "-i", str(index), "-dci")
            self.smi("mig", "-i", str(index), "-dgi")
        self.switch(gpu, "Enabled" if wanted else "Disabled")
        if wanted:
            places = ",".join(f"{instance['profile']}:{instance['start']}" for instance in wanted)
            self.smi("mig", "-i", str(index), "-cgi", places, "-C")

    def switch(self, gpu: Gpu, mode: str) -> None:
        """Set the mode. Some GPUs take a reset for that, which nvidia-smi tries, and puts off where it cannot."""
        if gpu.mode == mode or (mode == "Disabled" and gpu.mode != "Enabled"):
            return
        if gpu.mode not in ("Enabled", "Disabled"):
            raise FailedError(f"GPU {gpu.index} knows no MIG: its mode is {gpu.mode}")
        said = self.smi("-i", str(gpu.index), "-mig", "1" if mode == "Enabled" else "0")
        if self.gpus()[gpu.index].mode == mode:
            return
        if not self.stopped:
            raise InUseError(f"GPU {gpu.index}: {' '.join(said.split())[:300]}")
        self.smi("--gpu-reset", "-i", str(gpu.index))
        if self.gpus()[gpu.index].mode != mode:
            raise FailedError(f"GPU {gpu.index}: MIG mode is still to become {mode}: restart the node")

    def stop_clients(self) -> None:
        """Stop what has GPUs open and is known to do no work on them."""
        for unit in CLIENTS:
            if unit not in self.stopped and self.run("systemctl", "is-active", "--quiet", unit)[0] == 0:
                self.stopped.append(unit)
                self.run("systemctl", "stop", unit)
                print(f"stopped {unit}, which has GPUs open", flush=True)

    def start_clients(self) -> None:
        """Start them again. Not waited for: at a start of the node they are in a row behind this program."""
        for unit in reversed(self.stopped):
            with contextlib.suppress(FailedError):  # one that hangs leaves the others to be started
                self.run("systemctl", "start", "--no-block", unit)
                print(f"started {unit} again", flush=True)

    # The links

    def links(self, gpus: list[Gpu], wanted: list[Wanted]) -> dict[str, str]:
        """Where each link leads, by its name: what is wanted of a profile is what there is of it, in its order."""
        numbers = self.capabilities() if any(wanted) else {}
        found: dict[str, str] = {}
        for gpu, instances in zip(gpus, wanted):
            minor = self.minor(gpu)
            found[f"gpu{gpu.index}"] = f"../nvidia{minor}"
            left = list(gpu.instances)
            for place, instance in enumerate(instances):
                there = next(each for each in left if each.profile == instance["profile"])
                left.remove(there)
                for kind, inside in (("gi", ""), ("ci", f"/ci{there.computes[0][0]}")):
                    access = f"gpu{minor}/gi{there.number}{inside}/access"
                    if access not in numbers:
                        raise FailedError(f"{self.root}/proc/driver/nvidia-caps/mig-minors has no {access}")
                    found[f"gpu{gpu.index}.{place}.{kind}"] = f"../nvidia-caps/nvidia-cap{numbers[access]}"
        return found

    def capabilities(self) -> dict[str, int]:
        """The numbers of device files, which the driver fixes for all instances that may ever be."""
        path = f"{self.root}/proc/driver/nvidia-caps/mig-minors"
        try:
            with open(path, encoding="ascii") as file:
                return {
                    name: int(number) for name, _, number in (line.strip().partition(" ") for line in file) if number
                }
        except (OSError, ValueError) as error:
            raise FailedError(f"{path}: {error}") from error

    def minor(self, gpu: Gpu) -> int:
        """The number of a GPU's device file, which need not be its index, and may change with its mode."""
        path = f"{self.root}/proc/driver/nvidia/gpus/{gpu.bus}/information"
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return int(re.findall(r"^Device Minor:\s+(\d+)\s*$", file.read(), re.MULTILINE)[0])
        except (OSError, IndexError) as error:
            raise FailedError(f"{path} does not say which device file is that of GPU {gpu.index}") from error

    def link(self, links: dict[str, str]) -> None:
        """Make the links, each in one step, and remove others."""
        folder = self.root + FOLDER
        os.makedirs(folder, mode=0o755, exist_ok=True)
        self.make_devices([target for target in links.values() if not os.path.exists(f"{folder}/{target}")])
        for name, target in links.items():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{folder}/{name}.new")
            os.symlink(target, f"{folder}/{name}.new")
            os.replace(f"{folder}/{name}.new", f"{folder}/{name}")
        for name in set(os.listdir(folder)) - set(links):
            os.unlink(f"{folder}/{name}")

    def make_devices(self, targets: list[str]) -> None:
        """Have the driver's own program make device files of instances that there are not yet."""
        if not targets:
            return
        by_number = {f"../nvidia-caps/nvidia-cap{number}": name for name, number in self.capabilities().items()}
        argv = ["nvidia-modprobe"]
        for target in targets:
            gpu, _, rest = by_number.get(target, "").partition("/")
            argv += ["-f", f"/proc/driver/nvidia/capabilities/{gpu}/mig/{rest}"] if rest else []
        status, said = self.run(*argv)
        missing = [target for target in targets if not os.path.exists(f"{self.root}{FOLDER}/{target}")]
        if missing:
            why = " ".join(said.split())[:200] or f"exit status {status}"
            raise FailedError(f"nvidia-modprobe has not made /dev/{missing[0][3:]}: {why}")


# What is wanted against what is there


def counted(profiles: "Counter[str]") -> str:
    """`1 x 3g.40gb, 4 x 1g.10gb`."""
    return ", ".join(f"{count} x {profile}" for profile, count in sorted(profiles.items(), reverse=True))


def difference(gpu: Gpu, wanted: Wanted) -> str:
    """What is not as wanted of a GPU; empty: nothing."""
    if not wanted:
        return f"GPU {gpu.index}: MIG is on, wanted whole" if gpu.mode == "Enabled" else ""
    asked = Counter(instance["profile"] for instance in wanted)
    if gpu.mode != "Enabled":
        return f"GPU {gpu.index}: MIG is off, wanted {counted(asked)}"
    there = Counter(instance.profile for instance in gpu.instances if instance.ready)
    missing, surplus = asked - there, Counter(instance.profile for instance in gpu.instances) - asked
    said = [f"missing {counted(missing)}"] if missing else []
    said += [f"{counted(surplus)} not wanted"] if surplus else []
    return f"GPU {gpu.index}: {'; '.join(said)}" if said else ""


def differences(node: Node, wanted: list[Wanted]) -> tuple[list[Gpu], dict[int, str]]:
    """The GPUs that are there, and by index what of them is not as wanted."""
    gpus = node.gpus()
    if len(gpus) != len(wanted):
        raise FailedError(f"GPUs {len(gpus)}, declared {len(wanted)}: which of them is which cannot be known")
    found = {gpu.index: difference(gpu, some) for gpu, some in zip(gpus, wanted)}
    return gpus, {index: said for index, said in found.items() if said}


def check(node: Node, wanted: list[Wanted]) -> list[str]:
    """Everything that is wrong."""
    gpus, wrong = differences(node, wanted)
    if wrong:
        return list(wrong.values())
    found = []
    for name, target in node.links(gpus, wanted).items():
        path = f"{node.root}{FOLDER}/{name}"
        leads = os.readlink(path) if os.path.islink(path) else "nowhere"
        if leads != target:
            found.append(f"{FOLDER}/{name} leads to {leads}, not to {target}")
        elif not os.path.exists(path):
            found.append(f"{FOLDER}/{name}: there is no {target}")
    return found


def set_(node: Node, wanted: list[Wanted]) -> None:
    """Make it so. Raises FailedError; what was stopped is started again in any case."""
    try:
        _, wrong = differences(node, wanted)
        for index, what in wrong.items():
            print(what, flush=True)
            if computing := node.computing(index):
                raise FailedError(f"GPU {index} is left alone, a process computes on it: {'; '.join(computing[:3])}")
            try:
                node.cut(index, wanted[index])
            except InUseError:
                node.stop_clients()
                again(node, index, wanted[index])
    finally:
        node.start_clients()
    gpus, wrong = differences(node, wanted)
    if wrong:
        raise FailedError(f"not as wanted though every command went well: {'; '.join(wrong.values())}")
    node.link(node.links(gpus, wanted))


def again(node: Node, index: int, wanted: Wanted) -> None:
    """Cut a GPU without the clients that are known."""
    try:
        node.cut(index, wanted)
    except InUseError as error:
        stopped = ", ".join(node.stopped) or "none of the known clients was running"
        raise FailedError(f"{error}; stopped: {stopped}; `fuser -v /dev/nvidia*` names who has it open") from error


def told_to_stop(_number: int, _frame: object) -> NoReturn:
    """What systemd says when the unit's time is up."""
    raise FailedError("told to stop")


def main(verb: str, node: Node, wanted: list[Wanted]) -> int:
    """Do what is asked; the exit status."""
    if verb == "check":
        try:
            wrong = check(node, wanted)
        except FailedError as error:
            wrong = [str(error)]
        if wrong and os.path.exists(node.root + FAILED):
            with open(node.root + FAILED, encoding="utf-8") as file:
                wrong.append(f"when it was last set: {file.read().strip()}")
        print("\n".join(wrong), end="\n" if wrong else "")
        return 1 if wrong else 0
    for path in (SET, FAILED):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(node.root + path)
    try:
        set_(node, wanted)
    except FailedError as error:
        with open(node.root + FAILED, "w", encoding="utf-8") as file:
            file.write(f"{error}\n")
        print(f"{error}\nslurmd is not started: Slurm was told of instances that are not there", file=sys.stderr)
        return 1
    with open(node.root + SET, "w", encoding="utf-8"):
        pass
    print(
        "; ".join(
            f"GPU {at}: {counted(Counter(instance['profile'] for instance in some)) or 'whole'}"
            for at, some in enumerate(wanted)
        )
    )
    return 0


if __name__ == "__main__":
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
    signal.signal(signal.SIGTERM, told_to_stop)
    if sys.argv[1:] not in (["set"], ["check"]):
        sys.exit("usage: hpcforge-mig set|check")
    with open(WANTED, encoding="utf-8") as opened:
        here = Node() if sys.argv[1] == "set" else Node(command_s=9.0, all_s=25.0)
        sys.exit(main(sys.argv[1], here, json.load(opened)["gpus"]))
