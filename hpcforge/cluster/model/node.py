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
# The best type comes first.
HOST_KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")


@dataclass(frozen=True)
class Bmc:
    """A machine's management controller, as far as it is known."""

    address: str | None
    mac: str | None
    certificate: str | None = None  # SHA-256 of its TLS certificate, in hexadecimal; None: not known
    user: str | None = None  # None: the common user


@dataclass(frozen=True)
class SystemDisk:
    """The disks for the operating system."""

    drives: int = 1  # several drives are mirrors of each other
    partitions_gib: Mapping[str, int] = field(default_factory=dict, hash=False)  # by mount point, sorted


@dataclass(frozen=True, slots=True)
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
    rack: str | None = None  # None: the blueprint names no rack for it
    rack_u: int | None = None  # its lowest rack unit, counted from 1 at the bottom
    addresses: Mapping[str, str] = field(default_factory=dict, hash=False)  # on other networks, BMC's too, by network
    fabrics: tuple[str, ...] = ()  # fabrics with a link to it
    ports: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)  # by fabric; MACs in order of links
    mac: str | None = None  # of the interface with `address`
    bmc: Bmc | None = None  # None: not known
    serial: str | None = None
    note: str | None = None  # remark of the inventory
    reason: str | None = None  # reason of an override; None: no override
    accepts: tuple[str, ...] = ()  # accepted faults of its GPUs, in the words of `overrides`
    reserve_cores: int = 0  # cores of a worker that jobs do not get
    reserve_memory_mib: int = 0  # memory of a worker that jobs do not get
    platform: Platform | None = None  # None: the same as the cluster's
    system_disk: SystemDisk = SystemDisk()
    features: tuple[str, ...] = ()  # features in Slurm, which jobs can request
    weight: int | None = None  # weight in Slurm; None: Slurm's default

    @property
    def certified(self) -> bool:
        """True if it gets a host certificate: its host keys are known."""
        return bool(self.host_keys)

    @property
    def best_host_key(self) -> str:
        """The host key that gets a certificate, the best one; "" if none is known."""
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
    address: str  # an IP address or host name
    user: str
    host_keys: tuple[str, ...]
    is_node: bool  # False: a machine of the site


@dataclass(frozen=True)
class Access:
    """The login of hpcforge: an ordinary user, made root by `become`."""

    user: str
    become: Literal["sudo", "none"]
    key: Path | None  # private key file on the operator host; None: the user's ssh agent and default keys
    via: Jump | None = None  # None: hpcforge connects to nodes directly
