"""Nodes alone and in pairs: one round of measurements that isolate a bad part, as `hpcforge verify` asks for it.

    SLURMD_NODENAME=w1 SLURM_LOCALID=0 python smoke_tests/pairs/pairs.py --nodes w1=10.0.0.1,w2=10.0.0.2 --pairs w1:w2

A process multiplies matrices alone if its node is named under `--alone`, and then takes the pairs of its node in turn,
in the order given; both ends see the same order, so none waits for ever. Each pair is a process group of its own, with
a store at its first node, which the other joins at once: a pair that cannot talk takes nothing from others. GPUs of the
same number meet by NCCL, CPUs by gloo. GPU r stands for rail r: NCCL takes the adapter nearest to it. Without GPUs one
process of a node measures, over the interface from which the node reaches its partner.

What arrives is compared with what was sent. A measurement says what it is about:

    {"event": "measurement", "of": {"node": "w1"}, "gpu": 0, "gflop_per_s": x}
    {"event": "measurement", "of": {"node": "w1", "peer": "w2", "rail": 0, "direction": "out"}, "gb_per_s": x}
    {"event": "measurement", "of": {..., "direction": "in"}, "gb_per_s": x, "round_trip_ms": y, "tcp_segments": z, ...}

The last of a pair has the median and the shortest round trip of a small message, and what TCP counted at both ends
while they met: of 1,000 segments those sent again, those that arrived twice, and those that arrived out of order. Where
TCP did not carry the data, as over InfiniBand, it has none of these.

A pair that gave no answer has none, and an event `silent` with the error. NCCL raises at the timeout here, since each
transfer is waited for; where it does not, the process is ended and the pair reported from outside (`limits.py`).
Exit codes: 0 the round is done, 1 failed, 2 usage, 3 wrong data. Python 3.9, torch 1.13 or later.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from limits import COLLECTIVE, Limits

WARM_UP = 2
MIB = 1 << 20
SIZE_MIB = {False: 1, True: 256}  # of a message, without and with GPUs
MATRIX = {False: 256, True: 8192}  # rows and columns
MOST_MESSAGES = 512
TRIP_BYTES = 256  # of a small message
TRIPS, FEWEST_TRIPS = 40, 10  # there and back; after TRIPS_S the fewest are enough
TRIPS_S = 1.0
# Counters of TCP that make up each number, by their names in Linux 5.14 to 6.18 (net/ipv4/proc.c). A receiver says with
# a duplicate SACK that data arrived twice (RFC 2883); a sender counts the holes that SACKs show to have been late.
TCP_COUNTERS = {
    "tcp_segments": ("OutSegs",),
    "retransmits": ("RetransSegs",),
    "duplicates": ("TCPDSACKOldSent", "TCPDSACKOfoSent"),
    "reorders": ("TCPSACKReorder", "TCPRenoReorder", "TCPTSReorder"),
}
TCP_TABLES = ("/proc/self/net/snmp", "/proc/self/net/netstat")  # of this network namespace
SEGMENT_BYTES = 1 << 16  # at most: the longest packet of IPv4
GRACE_S = 2.0  # by which a transfer may exceed the timeout: the backend's own error says more
LIMITS = Limits()
# Errors are raised where a transfer is waited for, not by PyTorch's watchdog, which ends the process. One transfer at a
# time is what is measured: the warning that NCCL does not run them side by side helps no reader.
NCCL = {"TORCH_NCCL_BLOCKING_WAIT": "1", "TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING": "false"}
LATE = 6  # times the timeout: how late a partner that is known to be up may be, since its pairs before were silent
WRONG = 3


class Asked(NamedTuple):
    """A round, as far as it concerns all nodes."""

    nodes: dict[str, str]  # name -> address
    alone: list[str]
    pairs: list[tuple[str, str]]


class WrongDataError(Exception):
    """What arrived is not what was sent."""


def asked(nodes: str, alone: str, pairs: str) -> Asked:
    """Read a round from its arguments. Raises ValueError for a name that is not among the nodes."""
    found = dict(each.split("=", 1) for each in nodes.split(",") if each)
    names = [name for name in alone.split(",") if name]
    both = [(first, second) for first, _, second in (pair.partition(":") for pair in pairs.split(",") if pair)]
    unknown = [name for name in (*names, *(name for pair in both for name in pair)) if name not in found]
    if unknown or any(first == second for first, second in both):
        raise ValueError(f"{unknown[0] if unknown else 'a pair'} is not among the nodes, or meets itself")
    return Asked(found, names, both)


def say(**event: Any) -> None:
    """One event, in a single write(2)."""
    os.write(1, (line(**event) + "\n").encode())


def line(**event: Any) -> str:
    """An event as it is written."""
    return json.dumps({**event, "test": "pairs"})


def tcp_counts(text: str) -> list[int]:
    """The numbers of TCP_COUNTERS from the text of its tables: a line of names, then one of values."""
    found: dict[str, int] = {}
    names: list[str] = []
    for words in map(str.split, text.splitlines()):
        if words[:1] == names[:1] and words[:1] in (["Tcp:"], ["TcpExt:"]):
            found.update(zip(names[1:], map(int, words[1:])))  # noqa: B905  (Python 3.9)
        names = words
    return [sum(found.get(name, 0) for name in of) for of in TCP_COUNTERS.values()]


def tcp_now() -> list[int]:
    """The same of this node; zeros where they cannot be read."""
    text = ""
    for table in TCP_TABLES:
        with suppress(OSError):
            text += Path(table).read_text("utf-8", "replace")
    return tcp_counts(text)


def tcp_shares(counts: list[int], moved_bytes: int) -> dict[str, float]:
    """Of 1,000 segments those of each kind; nothing where TCP did not carry so many bytes."""
    shares = dict(zip(TCP_COUNTERS, counts))  # noqa: B905  (Python 3.9)
    segments = shares.pop("tcp_segments")
    if segments * SEGMENT_BYTES < moved_bytes:
        return {}
    shares_of_1000 = {f"{name}_per_1000_segments": round(1000 * n / segments, 4) for name, n in shares.items()}
    return {"tcp_segments": segments, **shares_of_1000}


class Device:
    """The GPU of this process, or the CPU."""

    def __init__(self, gpus: int, local: int) -> None:
        import torch  # noqa: PLC0415  # a second of CPU time, which a process without a measurement saves

        self.torch = torch
        self.gpu = gpus > 0
        if self.gpu and local >= torch.cuda.device_count():
            raise RuntimeError(f"GPU {local} is not there: torch sees {torch.cuda.device_count()}")
        if self.gpu:
            torch.cuda.set_device(local)
            os.environ.update(NCCL)
        self.name = torch.device("cuda", local) if self.gpu else torch.device("cpu")
        torch.set_num_threads(1)

    def wait(self) -> None:
        """Until the device has done what it was given."""
        if self.gpu:
            self.torch.cuda.synchronize()

    def gflop_per_s(self, seconds: float) -> float:
        """Products of matrices within some seconds of wall time: a node that is kept from its CPU is slow, too."""
        rows = MATRIX[self.gpu]
        kind = self.torch.bfloat16 if self.gpu else self.torch.float32
        a, b = (self.torch.rand(rows, rows, device=self.name).to(kind) for _ in range(2))
        for _ in range(WARM_UP):
            a @ b
        self.wait()
        done, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            for _ in range(8):
                a @ b
            self.wait()
            done += 8
        return 2.0 * rows**3 * done / (time.perf_counter() - began) / 1e9

    def message(self) -> Any:
        """The same random bytes on every node."""
        generator = self.torch.Generator().manual_seed(251)
        elements = SIZE_MIB[self.gpu] * MIB
        return self.torch.randint(251, (elements,), generator=generator, dtype=self.torch.uint8).to(self.name)


class Meeting:
    """A pair: two processes, and the store at the first of them."""

    def __init__(self, device: Device, stores: Stores, pair: tuple[str, str], rail: int, timeout_s: float, first: bool):
        torch, dist = device.torch, device.torch.distributed
        self.device, self.first, self.limit_s = device, first, timeout_s + GRACE_S
        of = {"node": pair[0], "peer": pair[1], "rail": rail}
        self.silent = line(event="silent", of=of, error=f"timed out after {self.limit_s:g} s, and did not return")
        within = timedelta(seconds=timeout_s)
        at = stores.own() if first else stores.of(pair[0])
        if first:
            at.wait([f"up {pair[1]}"], within)
        store = dist.PrefixStore(f"{pair[0]}:{pair[1]}", at)
        store.set(f"here {int(first)}", "1")
        store.wait([f"here {int(not first)}"], LATE * within)
        store.set_timeout(within)
        if device.gpu:
            options = dist.ProcessGroupNCCL.Options()
            options._timeout = within
            self.group = dist.ProcessGroupNCCL(store, 0 if first else 1, 2, options)
        else:
            interface = stores.interface_towards(pair[1] if first else pair[0])
            if interface:
                os.environ["GLOO_SOCKET_IFNAME"] = interface
            self.group = dist.ProcessGroupGloo(store, 0 if first else 1, 2, within)
        self.number = torch.zeros(1, dtype=torch.int64, device=device.name)
        self.other = 1 if first else 0
        self.moved_bytes, self.tcp_before = 0, tcp_now()

    def send(self, tensor: Any) -> None:
        """Send to the other, and wait until it is under way."""
        LIMITS.set(COLLECTIVE, self.limit_s, self.silent)
        self.group.send([tensor], self.other, 0).wait()
        self.device.wait()
        LIMITS.restore(COLLECTIVE)

    def receive(self, tensor: Any) -> None:
        """Receive from the other."""
        LIMITS.set(COLLECTIVE, self.limit_s, self.silent)
        self.group.recv([tensor], self.other, 0).wait()
        self.device.wait()
        LIMITS.restore(COLLECTIVE)

    def close(self, right: bool) -> None:
        """Leave the group. One that failed is aborted: its transfers may never end."""
        LIMITS.restore(COLLECTIVE)
        if self.device.gpu:
            with suppress(Exception):  # it is left in any case
                (self.group.shutdown if right else self.group.abort)()

    def round_trips(self) -> dict[str, float]:
        """The times of a small message there and back, as the first sees them. The first trip opens the way.

        A message that begins with 0 is the last. A busy machine makes the median long, and hardly the shortest.
        """
        message = self.device.torch.ones(TRIP_BYTES, dtype=self.device.torch.uint8, device=self.device.name)
        took_ms: list[float] = []
        began = time.perf_counter()
        while message[0]:
            if not self.first:
                self.receive(message)
                self.send(message)
                continue
            late = time.perf_counter() - began > TRIPS_S
            message.fill_(int(len(took_ms) < (FEWEST_TRIPS if late else TRIPS)))
            sent = time.perf_counter()
            self.send(message)
            self.receive(message)
            took_ms.append(1000 * (time.perf_counter() - sent))
        if not self.first:
            return {}
        return {
            "round_trip_ms": round(median(took_ms[1:]), 4),
            "shortest_round_trip_ms": round(min(took_ms[1:]), 4),
        }

    def tcp(self) -> dict[str, float]:
        """What TCP counted at both ends since they met, as the first sees it; the second gives it its counts."""
        counts = [now - before for now, before in zip(tcp_now(), self.tcp_before)]  # noqa: B905  (Python 3.9)
        told = self.device.torch.tensor(counts, dtype=self.device.torch.int64, device=self.device.name)
        if not self.first:
            self.send(told)
            return {}
        self.receive(told)
        both = [mine + int(other) for mine, other in zip(counts, told.tolist())]  # noqa: B905  (Python 3.9)
        return tcp_shares(both, self.moved_bytes)

    def rate(self, message: Any, out: bool, seconds: float) -> float:
        """GB/s from the first to the second (`out`) or back, as the first sees it: to the last answer.

        The number of messages follows from a first one, so that they take about so many seconds. Raises WrongDataError.
        """
        sends = out == self.first
        received = self.device.torch.zeros_like(message)
        count, done, took = 1, 0, 0.0
        for _ in range(2):  # the first tells how many take so long
            if self.first:
                self.number.fill_(count)
                self.send(self.number)
            else:
                self.receive(self.number)
            count = min(MOST_MESSAGES, int(self.number))
            began = time.perf_counter()
            for _ in range(count):
                self.send(message) if sends else self.receive(received)
            self.receive(self.number) if sends else self.send(self.number)
            took = time.perf_counter() - began
            if not sends and not self.device.torch.equal(received, message):
                raise WrongDataError
            self.moved_bytes += message.numel() * count
            done = count
            count = max(2, min(MOST_MESSAGES, int(seconds / max(took, 1e-6))))
        return float(message.numel() * done / took / 1e9)


class Stores:
    """The store at this process, and those at others."""

    def __init__(self, device: Device, nodes: dict[str, str], port: int, timeout_s: float) -> None:
        self.dist, self.nodes, self.port, self.timeout_s = device.torch.distributed, nodes, port, timeout_s
        self.mine: Any = None
        self.others: dict[str, Any] = {}

    def own(self) -> Any:
        """The store that others find here."""
        if self.mine is None:
            self.mine = self._store("0.0.0.0", True, self.timeout_s)  # noqa: S104
        return self.mine

    def join(self, nodes: list[str], name: str) -> None:
        """Say at other nodes' stores that this one is up; each is there from the beginning of its process."""
        for node in nodes:
            with suppress(Exception):  # it cannot be reached: its pair will be silent
                store = self._store(self.nodes[node], False, self.timeout_s)
                store.set(f"up {name}", "1")
                self.others[node] = store

    def of(self, node: str) -> Any:
        """The store at another node. Raises RuntimeError if it could not be reached."""
        if node not in self.others:
            raise RuntimeError(f"{node} cannot be reached")
        return self.others[node]

    def _store(self, address: str, here: bool, limit_s: float) -> Any:
        told = (address, self.port, None, here, timedelta(seconds=limit_s), False)
        with suppress(TypeError):
            return self.dist.TCPStore(*told, use_libuv=False)
        return self.dist.TCPStore(*told)

    def interface_towards(self, node: str) -> str | None:
        """The interface from which this node reaches another."""
        from ranks import interface_towards  # noqa: PLC0415

        return interface_towards(self.nodes[node])


def take(round_: Asked, name: str, local: int, options: argparse.Namespace) -> int:
    """What this process has to measure; gives the exit code."""
    alone = name in round_.alone
    turns = [turn for turn, pair in enumerate(round_.pairs) if name in pair]
    if local >= max(1, options.gpus) or not (alone or turns):
        say(event="result")
        return 0
    device = Device(options.gpus, local)
    stores = Stores(device, round_.nodes, options.port + local, options.timeout)
    if any(round_.pairs[turn][0] == name for turn in turns):
        with suppress(Exception):  # the port is taken: its pairs are silent, and the next round has another
            stores.own()
    stores.join([round_.pairs[turn][0] for turn in turns if round_.pairs[turn][1] == name], name)
    if alone:
        rate = device.gflop_per_s(options.seconds)
        say(event="measurement", of={"node": name}, gpu=local, gflop_per_s=round(rate, 4))
    message = device.message() if turns else None
    code = 0
    for turn in turns:
        code = meet(device, stores, round_, turn, name, local, message, options) or code
    backend = "nccl" if device.gpu else "gloo"
    kind = device.torch.cuda.get_device_name(device.name) if device.gpu else "cpu"
    say(event="result", backend=backend, device=kind, torch=device.torch.__version__)
    return code


def meet(
    device: Device,
    stores: Stores,
    round_: Asked,
    turn: int,
    name: str,
    rail: int,
    message: Any,
    options: argparse.Namespace,
) -> int:
    """One pair, in both directions; the first node reports."""
    pair = round_.pairs[turn]
    first = name == pair[0]
    of = {"node": pair[0], "peer": pair[1], "rail": rail}
    where = f"data from {pair[1] if first else pair[0]} to {name}, rail {rail}"
    meeting, right = None, False
    try:
        meeting = Meeting(device, stores, pair, rail, options.timeout, first)
        trips = meeting.round_trips()
        for out in (True, False):
            rate = meeting.rate(message, out, options.seconds / 4)
            more = {} if out else {**trips, **meeting.tcp()}
            if first:
                about = {**of, "direction": "out" if out else "in"}
                say(event="measurement", of=about, gb_per_s=round(rate, 6), **more)
        right = True
    except WrongDataError:
        say(event="wrong", where=where, expected="the bytes sent", got="others")
        return WRONG
    except Exception as error:  # whatever it was: the pair gave no answer
        say(event="silent", of=of, error=str(error).strip().splitlines()[0][:200] if str(error).strip() else "")
    finally:
        if meeting:
            meeting.close(right)
    return 0


def parser() -> argparse.ArgumentParser:
    """The options of this test, and a round."""
    options = argparse.ArgumentParser(description="One round of measurements: nodes alone, then pairs in turn.")
    options.add_argument("--json", action="store_true", help="the only form there is")
    options.add_argument("--nodes", default="", help="every node with its address: w1=10.0.0.1,w2=10.0.0.2")
    options.add_argument("--alone", default="", help="nodes that measure alone: w1,w2")
    options.add_argument("--pairs", default="", help="pairs, in their order: w1:w2,w3:w4")
    options.add_argument("--port", type=int, default=29400, help="of the store of a node's first process")
    options.add_argument("--gpus", type=int, default=0, help="real GPUs of each node")
    options.add_argument("--seconds", type=float, default=1.0, help="how long a node computes alone")
    options.add_argument(
        "--timeout", type=float, default=60.0, help="how long a partner may take to begin, or its data to arrive, s"
    )
    return options


def main() -> int:
    """Take the part of a round that is this process's."""
    options = parser().parse_args()
    name, local = os.environ.get("SLURMD_NODENAME", ""), int(os.environ.get("SLURM_LOCALID", "0"))
    LIMITS.start()
    try:
        round_ = asked(options.nodes, options.alone, options.pairs)
        code = take(round_, name, local, options)
    except Exception as error:
        say(event="failed", error=f"{type(error).__name__}: {error}".splitlines()[0][:300])
        code = 1
    LIMITS.stop()
    sys.stdout.flush()
    os._exit(code)  # at once: destructors of process groups wait for peers that are gone


if __name__ == "__main__":
    main()
