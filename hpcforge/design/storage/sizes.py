"""Formulas of capacity and throughput, and how they are written. Pure."""

from __future__ import annotations

BYTES_PER_GB = 10**9  # makers of drives and networks count in powers of ten (IEC 80000-13)
BYTES_PER_TIB = 2**40  # df -h, lfs df -h and quotas in powers of two (the same)
# Around each packet on the wire. Ethernet: header 14, check 4, preamble 8, gap 12 (IEEE 802.3, clauses 3 and 4). IPoIB
# on InfiniBand: LRH 8, BTH 12, DETH 8, IPoIB 4, ICRC 4, VCRC 2 (InfiniBand Architecture Specification 1, chapters 5,
# 7 and 9; RFC 4391). Both happen to come to the same.
_FRAME = 38
_VLAN = 4  # IEEE 802.1Q
_HEADERS = 20 + 20 + 12  # IPv4, TCP, TCP's timestamps (RFC 791, 9293, 7323)
_DEFAULT_MTU = {"infiniband": 2_044}  # of IPoIB's datagram mode (RFC 4391: 2,048 less 4)
_ETHERNET_MTU = 1_500  # IEEE 802.3


def tib(capacity_gb: float) -> float:
    """Decimal gigabytes in TiB."""
    return capacity_gb * BYTES_PER_GB / BYTES_PER_TIB


def payload_share(kind: str, mtu: int | None, *, tagged: bool) -> float:
    """Part of a link's rate that is left for what TCP carries: (MTU - headers) / (MTU + what is around it).

    `mtu` in bytes, None: as interfaces of that kind of fabric come. `tagged`: frames have a VLAN tag.
    """
    size = mtu or _DEFAULT_MTU.get(kind, _ETHERNET_MTU)
    return (size - _HEADERS) / (size + _FRAME + (_VLAN if tagged else 0))


def link_gb_per_s(rate_gbps: float, links: int, share: float) -> float:
    """What links carry together in one direction, GB/s: rate in Gb/s x links x payload / 8 bits a byte."""
    return rate_gbps * links * share / 8


def read_gb_per_s(drives: int, each_gb_per_s: float) -> float:
    """Large reads of all drives in groups, GB/s: data and parity are spread over all of them, so that all of them read.

    Source: Chen, Lee, Gibson, Katz, Patterson: RAID: High-Performance, Reliable Secondary Storage, ACM Computing
    Surveys 26 (1994), table 4: 1 of what the drives give, at levels 1, 5 and 6.
    """
    return drives * each_gb_per_s


def write_gb_per_s(drives: int, data: int, parity: int, each_gb_per_s: float) -> float:
    """Large writes of all drives in groups of `data` + `parity`, GB/s: what is written for parity is none of a file's.

    Source: as of `read_gb_per_s`: 1/2 at level 1, (G - 1)/G at level 5, (G - 2)/G at level 6.
    """
    return drives * each_gb_per_s * data / (data + parity)


def write_tib(capacity_tib: float, digits: int = 1) -> str:
    """`279.4 TiB`."""
    return f"{capacity_tib:,.{digits}f} TiB"


def write_rate(gb_per_s: float, digits: int = 1) -> str:
    """`49.5 GB/s`; below 1 GB/s `728 MB/s`."""
    if abs(gb_per_s) < 1:
        return f"{gb_per_s * 1_000:,.{max(0, digits - 1)}f} MB/s"
    return f"{gb_per_s:,.{digits}f} GB/s"
