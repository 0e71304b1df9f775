"""A node: its hardware, addresses, management controller and system disk; how hpcforge logs in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from hpcforge.cluster.model.gpus import Gpus
from hpcforge.cluster.model.software import (
    Platform,
)

Function = Literal["head", "login", "storage", "worker"]
FUNCTIONS: tuple[Function, ...] = get_args(Function)
# Best first.
HOST_KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")


@dataclass(frozen=True)
class Bmc:
    """A machine's management controller, as far as it is known."""

    address: str | None
    mac: str | None
    certificate: str | None = None  # SHA-256 of its TLS certificate, in hexadecimal; None: not known
    user: str | None = None  # None: that of all


@dataclass(frozen=True)
class SystemDisk:
    """Where an operating system is installed."""

    drives: int = 1  # more than one: mirrors of each other
    partitions_gib: Mapping[str, int] = field(default_factory=dict, hash=False)  # by mount point, in their order


@dataclass(frozen=True)
class Node:
    """One machine as declared (overrides applied), and where to reach it.

    Sockets, cores, threads and memory are 0 where neither catalog nor override knows them; never so for a worker.
    """

    name: str
    group: str  # the key under `nodes:` that names it, e.g. "w[01-03]"
    functions: tuple[Function, ...]
    hardware: str
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory_mib: int
    gpus: Gpus | None
    address: str
    host_keys: tuple[str, ...] = ()  # OpenSSH public keys, "ssh-ed25519 AAAA..."; empty: not known
    rack: str | None = None  # None: it stands in no rack that the blueprint names
    rack_u: int | None = None  # the lowest rack unit it takes, counted from 1 at the bottom
    addresses: Mapping[str, str] = field(default_factory=dict, hash=False)  # on other networks, BMC's too, by network
    fabrics: tuple[str, ...] = ()  # that it is plugged into
    ports: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)  # by fabric, MACs by link; if known
    mac: str | None = None  # of the interface that has `address`
    bmc: Bmc | None = None  # None: nothing is known of it
    serial: str | None = None
    note: str | None = None  # what else the inventory says of the machine
    reason: str | None = None  # why it differs from its hardware; None: it does not
    accepts: tuple[str, ...] = ()  # faults of its GPUs that keep no jobs away, in the words of `overrides`
    reserve_cores: int = 0  # kept from jobs, of a worker
    reserve_memory_mib: int = 0  # the same
    platform: Platform | None = None  # None: the cluster's, as all nodes have
    system_disk: SystemDisk = SystemDisk()
    features: tuple[str, ...] = ()  # of Slurm's, which jobs ask for
    weight: int | None = None  # of Slurm's; None: its own default

    @property
    def certified(self) -> bool:
        """Whether it gets a host certificate: its host keys are known."""
        return bool(self.host_keys)

    @property
    def best_host_key(self) -> str:
        """Of its host keys the one that is certified; empty where none is known."""
        by_type = {key.split()[0]: key for key in reversed(self.host_keys)}
        return next((by_type[kind] for kind in HOST_KEY_TYPES if kind in by_type), "")

    @property
    def cpus(self) -> int:
        """Hardware threads."""
        return self.sockets * self.cores_per_socket * self.threads_per_core


@dataclass(frozen=True)
class Jump:
    """The machine that the other nodes are reached through."""

    name: str
    address: str  # or a host name
    user: str
    host_keys: tuple[str, ...]
    is_node: bool  # else a machine of the site's


@dataclass(frozen=True)
class Access:
    """How hpcforge gets in: an ordinary user, made root by `become`."""

    user: str
    become: Literal["sudo", "none"]
    key: Path | None  # private key file on the operator host; None: the user's ssh agent and default keys
    via: Jump | None = None  # None: every node is reached straight
