"""What the smoke tests share: a rank joins its job, takes its tests in turn, says what happened, goes wrong on demand.

Plain Python and torch; runs with Python 3.9 and torch 1.13 or later, without numpy. Standard output carries one event
a line. With `--json` each is one JSON object, written by a single write(2) so that lines of several ranks do not mix::

    {"event": "started",     "rank": 3, "host": "w2"}                 # every rank, as it begins the test
    {"event": "measurement", ...}                                     # rank 0, numbers of the test
    {"event": "measurement", "rank": 3, "host": "w2", ...}            # a rank, its own numbers
    {"event": "assertion",   "what": ..., "expected": x, "got": y, "error": e, "tolerance": t, "at_least": l}
    {"event": "result",      "schema_version": 1, ...}                # rank 0, once, if all ranks were right
    {"event": "transport",   "rank": 3, "host": "w2", "backend": "gloo", "used": ["10.0.0.2"], "interfaces": ["eth0"]}
    {"event": "wrong",       "rank": 3, "host": "w2", "where": ..., "expected": x, "got": y}
    {"event": "failed",      "rank": 3, "host": "w2", "during": "collective", "number": 7, "error": ...}
    {"event": "overdue",     "rank": 3, "host": "w2", "limit_s": 600.0}
    {"event": "ended",       "rank": 3, "host": "w2", "place": "train_ddp.py:107 forward_backward"}

and each names its test, `"test": "allreduce"`. `during: collective` marks a failure that another rank may have caused:
its connection closed, or it never came; the event names the `collective`, and `number` counts those of this rank. A
rank that waits in a collective past its limit is ended, and reported, from outside (`limits.py`), since NCCL neither
raises nor returns; so is one that is past the limit of its test (`overdue`), or that its launcher ended outside of a
collective (`ended`). These have the rank's `place` in the program.

Exit codes: 0 right, 1 failed, 2 usage, 3 wrong result on some rank; SIGALRM past a limit.
"""

from __future__ import annotations

import argparse
import fcntl
import functools
import importlib
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from inspect import signature
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from limits import COLLECTIVE, TEST, Limits

SCHEMA_VERSION = 1
FAILED = 1
USAGE = 2
WRONG = 3
GRACE_S = 2.0  # by which a collective may exceed its limit: gloo raises at the limit, and says more

_TRANSPORTS = 64  # that a rank reports
_HOST_BYTES = 64  # a Linux host name has at most 64 bytes (HOST_NAME_MAX)


class WrongResultError(Exception):
    """Some rank computed a wrong value; that rank has said so already."""


class CollectiveError(Exception):
    """A collective did not complete, perhaps because of another rank. `number` counts those of this rank."""

    def __init__(self, text: str, collective: str, number: int) -> None:
        super().__init__(text)
        self.collective, self.number = collective, number


@dataclass(frozen=True)
class Fault:
    """A fault asked for with `--inject KIND:RANK`, to test whoever judges these tests.

    wrong: the rank's result is altered; die: SIGKILL, as by the kernel's out-of-memory killer; raise: an exception;
    hang: the rank stops for ever.
    """

    kind: str
    rank: int

    def strike(self, rank: int) -> None:
        """Die, raise or hang, if that was asked of this rank."""
        if rank != self.rank:
            return
        if self.kind == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "raise":
            raise RuntimeError("injected failure")
        while self.kind == "hang":
            time.sleep(3600)

    def falsifies(self, rank: int) -> bool:
        """True if this rank is to alter its result."""
        return self.kind == "wrong" and rank == self.rank


NO_FAULT = Fault("none", -1)


@dataclass(frozen=True)
class Job:
    """This rank's place in the job, and the test that it is at. No backend: it has not joined the others yet."""

    test: str
    rank: int
    world_size: int
    local_rank: int
    host: str
    backend: str
    device: torch.device
    json: bool
    fault: Fault
    addresses: tuple[str, ...] = ()  # this host's, of the connections with which it joined

    def say(self, text: str, **event: Any) -> None:
        """Write one event: with `--json` its JSON form, where it has one, else its text, where it has one."""
        line = self.line(text, **event)
        if line:
            os.write(1, (line + "\n").encode())

    def line(self, text: str, **event: Any) -> str:
        """Return an event as it is written, without the end of the line."""
        return (json.dumps({**event, "test": self.test}) if event else "") if self.json else text

    def wrong(self, where: str, expected: object, got: object) -> None:
        """Say that this rank's result is wrong."""
        text = f"rank {self.rank} on {self.host}: wrong result, {where}: expected {expected!r}, got {got!r}"
        self.say(text, event="wrong", rank=self.rank, host=self.host, where=where, expected=str(expected), got=str(got))

    def check(
        self,
        what: str,
        expected: float,
        got: float,
        error: float,
        tolerance: float,
        *,
        at_least: float = 0.0,
        of_all: bool = False,
    ) -> bool:
        """Whether a relative error is at least `at_least` and at most `tolerance`; NaN is not.

        Rank 0 reports what was compared, and any rank what is not as expected: as its own result, or as that of all.
        Too good is wrong, too: then something else was measured than was to be.
        """
        right = at_least <= error <= tolerance
        said = {"what": what, "expected": expected, "got": got, "error": min(error, 1e299), "tolerance": tolerance}
        place = {} if of_all else {"rank": self.rank, "host": self.host}
        bound = f"at most {tolerance:g}" if error > tolerance else f"at least {at_least:g}"
        text = f"{what} (relative error {error:.3g}, must be {bound})"
        if self.rank == 0 or not right:
            wrong = (
                f"wrong result of all ranks, {text}: expected {expected!r}, got {got!r}" if of_all and not right else ""
            )
            self.say(wrong, event="assertion", at_least=at_least, **place, **said)
        if not right and not of_all:
            self.wrong(text, expected, got)
        return right

    def agree(self, right: bool) -> None:
        """Raise WrongResultError on every rank if any rank is not right, so that all end alike."""
        if self.slowest([0.0 if right else 1.0])[0] > 0:
            raise WrongResultError

    def slowest(self, values: Sequence[float]) -> list[float]:
        """The maximum over all ranks of each value."""
        tensor = torch.tensor(list(values), dtype=torch.float64, device=self.device)
        with collective("the maximum over ranks"):
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
            return [float(value) for value in tensor.tolist()]

    def of_all(self, values: Sequence[float]) -> list[list[float]]:
        """The values of every rank, in rank order; each rank gives the same number of them."""
        mine = torch.tensor(list(values), dtype=torch.float64, device=self.device)
        every = [torch.zeros_like(mine) for _ in range(self.world_size)]
        with collective("the values of all ranks"):
            dist.all_gather(every, mine)
        return [one.tolist() for one in every]

    def report_own(self, measures: Mapping[str, Sequence[float]], **more: Any) -> None:
        """Report this rank's numbers; each measure is in rank order. No rank reports another's."""
        numbers = {name: float(f"{of_ranks[self.rank]:.7g}") for name, of_ranks in measures.items()}
        text = ", ".join(f"{name} {number:g}" for name, number in numbers.items())
        place = {"host": self.host, "rank": self.rank}
        self.say(f"rank {self.rank} on {self.host}: {text}", event="measurement", **place, **more, **numbers)

    def host_of_each(self) -> list[str]:
        """The host of every rank, in rank order."""
        name = self.host.encode()[:_HOST_BYTES].ljust(_HOST_BYTES, b"\0")
        mine = torch.tensor(list(name), dtype=torch.uint8, device=self.device)
        every = [torch.zeros_like(mine) for _ in range(self.world_size)]
        with collective("the hosts of all ranks"):
            dist.all_gather(every, mine)
        return [bytes(tensor.tolist()).rstrip(b"\0").decode(errors="replace") for tensor in every]

    def synchronize(self) -> None:
        """Wait for the device; on the CPU there is nothing to wait for."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def header(self) -> dict[str, Any]:
        """What every result says about the job: where it ran, and on which PyTorch."""
        return {
            "schema_version": SCHEMA_VERSION,
            "world_size": self.world_size,
            "hosts": list(dict.fromkeys(self.host_of_each())),
            "backend": self.backend,
            "device": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu",
            "torch": torch.__version__,
            "torch_path": str(Path(torch.__file__).parent),
        }


@dataclass(frozen=True)
class Turn:
    """One test of a job. `load` gives its options and the test itself; it is called when the turn has come."""

    test: str
    json: bool
    load: Callable[[], tuple[argparse.Namespace, Callable[[Job, argparse.Namespace], None]]]


@dataclass
class Waits:
    """What this rank waits for: the job, the limit of a collective, and how many it has entered."""

    job: Job | None = None
    timeout_s: float = 0.0
    entered: int = 0


WAITS, LIMITS = Waits(), Limits()


@contextmanager
def collective(name: str) -> Iterator[None]:
    """Bound the time of what all ranks do together, and mark what fails inside as a collective's failure.

    A message that says that it is this rank's own device is raised as it is. Nothing is bounded outside of `main`.
    """
    WAITS.entered += 1
    number, before = WAITS.entered, b""
    if WAITS.job is not None:
        limit_s = WAITS.timeout_s + GRACE_S
        place = {"rank": WAITS.job.rank, "host": WAITS.job.host}
        error = f"timed out after {limit_s:g} s in {name}"
        event = {"event": "failed", **place, "during": "collective", "collective": name, "number": number}
        text = f"rank {WAITS.job.rank} on {WAITS.job.host} failed: {error}"
        before = LIMITS.set(COLLECTIVE, limit_s, WAITS.job.line(text, **event, error=error))
    try:
        yield
        if WAITS.job is not None:
            WAITS.job.synchronize()  # NCCL's collectives are only queued until then
    except CollectiveError:
        raise
    except Exception as error:
        own = "CUDA error" in str(error) or "out of memory" in str(error)
        if own:
            raise
        raise CollectiveError(str(error), name, number) from error
    finally:
        LIMITS.restore(COLLECTIVE, before)


def interface_towards(address: str) -> str | None:
    """The network interface from which this host reaches an address; None if it cannot be told.

    gloo otherwise takes the address to which the host's own name resolves. On Debian that is 127.0.1.1 (/etc/hosts),
    which other hosts cannot reach.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))  # sends nothing: a datagram socket only looks up its route
            source = probe.getsockname()[0]
        except OSError:
            return None
    return interface_with(source)


def interface_with(address: str) -> str | None:
    """The network interface of this host that has an IPv4 address; None if none has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
            except OSError:  # an interface without an IPv4 address
                continue
            if answer[20:24] == socket.inet_aton(address):
                return name
    return None


def connected_addresses(tables: str, inodes: Container[str], store_port: int) -> list[str]:
    """This host's addresses of established TCP connections, each once, but for connections to the ranks' store.

    `tables` is the text of /proc/net/tcp and tcp6, `inodes` are the sockets that count. An IPv4 address in IPv6 form
    is given as IPv4.
    """
    found = []
    for line in tables.splitlines():
        words = line.split()
        if len(words) < 10 or words[3] != "01" or words[9] not in inodes:  # 01: established
            continue
        (local, port), (_, peer_port) = (word.split(":") for word in words[1:3])
        if store_port in (int(port, 16), int(peer_port, 16)):
            continue
        raw = b"".join(struct.pack("=I", int(local[at : at + 8], 16)) for at in range(0, len(local), 8))
        mapped = len(raw) == 16 and raw[:12] == bytes(10) + b"\xff\xff"
        found.append(socket.inet_ntop(socket.AF_INET, raw[-4:]) if mapped or len(raw) == 4 else _ipv6(raw))
    return sorted(set(found))


def _ipv6(raw: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET6, raw)


def _own_sockets() -> set[str]:
    """The inodes of this process's sockets."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            link = str(descriptor.readlink())
        except OSError:  # the descriptor with which the folder was read
            continue
        if link.startswith("socket:["):
            found.add(link[8:-1])
    return found


def _own_addresses() -> list[str]:
    """This host's addresses of this process's connections to other ranks."""
    tables = "".join(_read(f"/proc/self/net/{name}") for name in ("tcp", "tcp6"))
    return connected_addresses(tables, _own_sockets(), int(os.environ["MASTER_PORT"]))


def _read(path: str) -> str:
    """The text of a file; "" where it cannot be read: then it cannot be told, and nothing has failed."""
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""


def nccl_transports(log: str) -> list[str]:
    """The transports in a log of NCCL's, each once: `NET/IB/0/GDRDMA`, `P2P/CUMEM`; and NVLS where it is set up."""
    found = {line.split(" via ", 1)[1].split()[0] for line in log.splitlines() if " via " in line and "Channel" in line}
    return sorted(found | ({"NVLS"} if "Connected NVLS tree" in log else set()))[:_TRANSPORTS]


def say_transport(job: Job) -> None:
    """Report what this rank used to exchange data, as the kernel and NCCL list it and not as it was configured."""
    place = {"rank": job.rank, "host": job.host, "backend": job.backend}
    if job.backend == "nccl":
        path = os.environ.get("NCCL_DEBUG_FILE", "").replace("%p", str(os.getpid()))
        job.say("", event="transport", **place, used=nccl_transports(_read(path)))
        return
    used = sorted({*job.addresses, *_own_addresses()})[:_TRANSPORTS]
    interfaces = [interface_with(address) or "?" if "." in address else "?" for address in used]
    job.say("", event="transport", **place, used=used, interfaces=interfaces)


def _host() -> str:
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def _place(turn: Turn) -> Job:
    """Where the launcher put this rank. It has not joined the others yet."""
    rank, local_rank, size = (int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
    return Job(turn.test, rank, size, local_rank, _host(), "", torch.device("cpu"), turn.json, NO_FAULT)


def _joined(job: Job, timeout_s: float) -> Job:
    """Join the other ranks; no collective of this job may take longer than the timeout."""
    cuda = torch.cuda.is_available()
    if cuda:
        if job.local_rank >= torch.cuda.device_count():
            raise RuntimeError(f"local rank {job.local_rank} has no GPU: torch sees {torch.cuda.device_count()} here")
        torch.cuda.set_device(job.local_rank)
    else:
        interface = interface_towards(os.environ["MASTER_ADDR"])
        if interface:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    backend = "nccl" if cuda else "gloo"
    if cuda and "TMPDIR" in os.environ:
        os.environ.setdefault("NCCL_DEBUG", "INFO")  # its log has the transports
        os.environ.setdefault("NCCL_DEBUG_FILE", f"{os.environ['TMPDIR']}/nccl.%p")
    if os.environ.get("USE_LIBUV") == "0":  # torch 2 does not heed it where the launcher keeps the store
        rendezvous: Any = importlib.import_module("torch.distributed.rendezvous")  # the name alone is a function's
        rendezvous.TCPStore = functools.partial(rendezvous.TCPStore, use_libuv=False)
    device = torch.device("cuda", job.local_rank) if cuda else job.device
    # Since torch 2.3; without it each barrier guesses the device, and warns that a wrong guess can hang.
    bound = {"device_id": device} if cuda and "device_id" in signature(dist.init_process_group).parameters else {}
    with collective("the meeting of all ranks"):
        dist.init_process_group(backend, timeout=timedelta(seconds=timeout_s), **bound)
    # After the last test it is too late: a rank that is done closes its connections to those that are not.
    addresses = () if cuda else tuple(_own_addresses())
    return replace(job, backend=backend, device=device, addresses=addresses)


def _fault(text: str) -> Fault:
    kind, _, rank = text.partition(":")
    if kind not in ("wrong", "die", "raise", "hang") or not rank.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not wrong:RANK, die:RANK, raise:RANK or hang:RANK")
    return Fault(kind, int(rank))


def sizes_of_kib(text: str) -> tuple[int, ...]:
    """The sizes of an option, KiB: `4,1024`; none for an empty text."""
    sizes = text.split(",") if text else []
    if not all(size.isdigit() and int(size) for size in sizes):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of sizes in KiB, such as 4,1024")
    return tuple(map(int, sizes))


def options_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the options that every test has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of text")
    parser.add_argument("--timeout-s", type=float, default=120.0, help="limit of one collective (default: 120)")
    parser.add_argument("--limit-s", type=float, default=600.0, help="limit of the whole test (default: 600)")
    parser.add_argument("--launch", default="", help="which launch this is, of a test that lists several")
    parser.add_argument("--scratch", default="", help="the folder that the launches of a test share")
    parser.add_argument(
        "--inject",
        type=_fault,
        default=NO_FAULT,
        metavar="KIND:RANK",
        help="for testing whoever judges this test: make one rank compute wrong, die, raise or hang",
    )
    return parser


def main(turns: Sequence[Turn]) -> None:
    """Take tests in turn, as one rank of a job started by torchrun, up to the first that is not right; and exit.

    The ranks join once: the first test's timeout of a collective holds for all.
    """
    if "RANK" not in os.environ:
        sys.stderr.write(f"start it with torchrun: torchrun --standalone --nproc_per_node 2 {sys.argv[0]}\n")
        sys.exit(USAGE)
    code, job = 0, _place(turns[0])
    LIMITS.start()
    for turn in turns:
        code, job = _take(turn, replace(job, test=turn.test, json=turn.json, fault=NO_FAULT))
        if code:
            break
    sys.stdout.flush()
    sys.stderr.flush()
    # Not gloo's: in torch 2.6 it may wait for ever for a peer that has ended already (3 of 5 runs over three nodes).
    if code == 0 and dist.get_backend() == "nccl":
        with collective("the end of the job"):
            dist.destroy_process_group()
    LIMITS.stop()
    # At once: with peers gone, destructors of process groups wait for them.
    os._exit(code)


def _take(turn: Turn, job: Job) -> tuple[int, Job]:
    """One test as this rank; gives the exit code that it would end with, and the job as joined."""
    try:
        try:
            options, test = turn.load()
            _limit(job, options)
        finally:  # after the limit is set: a full pipe could hold it up
            job.say("", event="started", rank=job.rank, host=job.host)
        job = replace(job if job.backend else _joined(job, options.timeout_s), fault=options.inject)
        WAITS.job = job
        test(job, options)
        if job.world_size > 1:
            say_transport(job)
    except WrongResultError:
        return WRONG, job
    except BaseException as error:  # whatever it was, it has to be told with rank and host
        what = f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
        text = f"rank {job.rank} on {job.host} failed: {what}"
        cause: dict[str, Any] = {"during": "own"}
        if isinstance(error, CollectiveError):
            cause = {"during": "collective", "collective": error.collective, "number": error.number}
        job.say(text, event="failed", rank=job.rank, host=job.host, **cause, error=what)
        return FAILED, job
    finally:
        LIMITS.restore(TEST)
    return 0, job


def _limit(job: Job, options: argparse.Namespace) -> None:
    """Bound this rank's test, and each collective; the first test's limit of a collective holds for all."""
    WAITS.job, WAITS.timeout_s = job, WAITS.timeout_s or options.timeout_s
    text = f"rank {job.rank} on {job.host}: not done after {options.limit_s:g} s"
    event = {"event": "overdue", "rank": job.rank, "host": job.host, "limit_s": options.limit_s}
    LIMITS.set(TEST, options.limit_s, job.line(text, **event), stopped_s=WAITS.timeout_s + GRACE_S)
