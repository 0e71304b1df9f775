"""The lists of algorithms that ssh agrees on, and what to do where a node and hpcforge have none in common. Pure.

RFC 4253, section 7.1: each side sends its lists, and the connection ends where two of them have nothing in common.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

SSHD_FILE = "/etc/ssh/sshd_config.d/00-hpcforge.conf"  # sshd takes the first line of a keyword that it reads
_NAME = re.compile(r"[!-+\--~]{1,64}")  # RFC 4251, section 6; all else would be a node's words on a terminal
_MOST_NAMES = 30


@dataclass(frozen=True)
class AlgorithmList:
    """A list of sshd's: its keyword in sshd_config, and one that sshd and hpcforge both have."""

    title: str
    keyword: str
    common: str
    offers: tuple[str, ...]  # as paramiko names those of a node


LISTS = {
    "kex": AlgorithmList("key exchange", "KexAlgorithms", "curve25519-sha256", ("kex_algo_list",)),
    "keys": AlgorithmList("kind of host key", "HostKeyAlgorithms", "ssh-ed25519", ("server_key_algo_list",)),
    "ciphers": AlgorithmList(
        "cipher", "Ciphers", "aes256-gcm@openssh.com", ("client_encrypt_algo_list", "server_encrypt_algo_list")
    ),
    "macs": AlgorithmList(
        "MAC", "MACs", "hmac-sha2-256-etm@openssh.com", ("client_mac_algo_list", "server_mac_algo_list")
    ),
}


def without_common(offered: Mapping[str, Sequence[str]], has: Mapping[str, Collection[str]]) -> str:
    """Return both offers and the lines for sshd_config; an empty text where each list has a name in common."""
    return "; ".join(_sentences(offered, has))


def _sentences(offered: Mapping[str, Sequence[str]], has: Mapping[str, Collection[str]]) -> Iterator[str]:
    for name, each in LISTS.items():
        for offer in each.offers:
            if not set(offered[offer]) & set(has[name]):
                yield disagreement(each, offered[offer], has[name])
                break


def disagreement(kind: AlgorithmList, offered: Sequence[str], has: Collection[str]) -> str:
    """Return both lists, and the line for sshd_config that would help."""
    real = [name for name in offered if _NAME.fullmatch(name)]
    names = [name for name in real if not name.startswith(("ext-info-", "kex-strict-"))][:_MOST_NAMES]  # RFC 8308
    own = [name for name in has if not name.startswith(("ext-info-", "kex-strict-"))]
    key = " (`ssh-keygen -A` makes a key of that kind)" if kind.keyword == "HostKeyAlgorithms" else ""
    line = ",".join([*names, kind.common])
    return (
        f"its sshd and hpcforge have no {kind.title} in common: it offers {', '.join(names) or 'none'}; hpcforge has "
        f"{', '.join(own)}; add to {SSHD_FILE} there: {kind.keyword} {line}{key}, and reload sshd"
    )
