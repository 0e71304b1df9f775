"""The cluster's SSH host certificate authority: a certificate for each node's host key, and the known_hosts for it.

With it ssh on one node accepts another by name without asking, and a new node changes nothing on the others. It does
not decide whether a user may log in: the user's own key does.
hpcforge's own connections do not use it: they pin each node's key.

Time has steps of 90 days. A certificate of one step is valid in that step and the next: at any time those of two steps
are valid, and an apply within 90 days of the last one renews them in time. The host key of a removed or replaced
machine is revoked, with all certificates for it, until there is another authority.

A certificate is a function of authority, key, names and step, so that the same blueprint gives the same bytes. Its
nonce, which OpenSSH draws at random, is derived from the signed fields. (A nonce prevents that the owner of a key
chooses all of the signed input. Ed25519 signs with SHA-512, so security does not depend on the nonce here.) The format
is OpenSSH's PROTOCOL.certkeys.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from hpcforge.cluster.model import Cluster, Node

if TYPE_CHECKING:  # 7 MiB, which a plan for a cluster without secrets does not need
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

AUTHORITY = "ssh_host_ca"
KNOWN_HOSTS = "ssh_known_hosts"  # not secret, but derived from the authority
_HOST_CERTIFICATE = 2  # PROTOCOL.certkeys, "type": 1 is a user's
REVOKED = "revoked_host_keys"  # not secret either: stored with the authority that no longer certifies these keys
STEP_S = 90 * 86400
_SLACK_S = 86400  # a certificate is valid this long before its step: clocks differ


def new_authority() -> bytes:
    """Make a new authority: an Ed25519 private key as `ssh-keygen` writes it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat  # noqa: PLC0415

    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def current_step() -> int:
    """Return the present step, counted from 1970."""
    return int(time.time()) // STEP_S


def with_revoked(secrets: Mapping[str, bytes], keys: Iterable[str]) -> dict[str, bytes]:
    """Add these host keys (OpenSSH public keys) to the revoked ones among the secrets. Never removes one."""
    revoked = set(secrets.get(REVOKED, b"").decode().splitlines())
    all_ = revoked | {bare(key) for key in keys}
    return dict(secrets) | ({REVOKED: "".join(f"{key}\n" for key in sorted(all_)).encode()} if all_ != revoked else {})


def with_derived(secrets: Mapping[str, bytes], cluster: Cluster, step: int) -> dict[str, bytes]:
    """Return the secrets, and those derived for this cluster in this step, under the names that roles use.

    `ssh_known_hosts` is for every node, `ssh_host_certificate:NODE` exists for nodes with a known host key. Without an
    authority nothing is derived.
    """
    all_secrets = dict(secrets)
    if AUTHORITY in secrets:
        authority = _authority(secrets[AUTHORITY])
        ours = {
            bare(key) for node in cluster.nodes for key in node.host_keys
        }  # a returned machine's key is valid again
        revoked = [key for key in secrets.get(REVOKED, b"").decode().splitlines() if key not in ours]
        all_secrets[KNOWN_HOSTS] = known_hosts(authority, cluster, revoked).encode()
        for node in cluster.nodes:
            if node.best_host_key:
                certificate = host_certificate(authority, node, cluster, step)
                all_secrets[f"ssh_host_certificate:{node.name}"] = certificate.encode()
        if any(service.certified and service.on for service in cluster.services.values()):
            from hpcforge.secrets.tls_certificates import derived  # noqa: PLC0415 - 0.2 s that few clusters need

            all_secrets |= derived(authority, cluster, step, STEP_S)
    return all_secrets


def host_certificate(authority: Ed25519PrivateKey, node: Node, cluster: Cluster, step: int) -> str:
    """Return the line for the file of sshd's HostCertificate: for the node's best host key, by all of its names."""
    kind, blob = node.best_host_key.split()[:2]
    kind_field, rest = _first_field(base64.b64decode(blob))
    names = (node.name, f"{node.name}.{cluster.domain}", node.address)
    signed_by = _public_blob(authority)
    body = b"".join(
        (
            rest,  # the key's own numbers, whatever its type
            (0).to_bytes(8, "big"),  # serial: revocation goes by key here
            _HOST_CERTIFICATE.to_bytes(4, "big"),
            _field(f"{cluster.name}/{node.name}".encode()),
            _field(b"".join(_field(name.encode()) for name in names)),
            (step * STEP_S - _SLACK_S).to_bytes(8, "big"),
            ((step + 2) * STEP_S).to_bytes(8, "big"),
            _field(b""),  # critical options, extensions, reserved: none are defined for hosts
            _field(b""),
            _field(b""),
            _field(signed_by),
        )
    )
    certified = kind_field + b"-cert-v01@openssh.com"
    nonce = hashlib.sha256(b"hpcforge host certificate\0" + certified + body + signed_by).digest()
    signed_part = _field(certified) + _field(nonce) + body
    signature = _field(b"ssh-ed25519") + _field(authority.sign(signed_part))
    text = base64.b64encode(signed_part + _field(signature)).decode()
    return f"{kind}-cert-v01@openssh.com {text} {node.name}\n"


def span(certificate: bytes) -> tuple[float, float]:
    """Return begin and end of a certificate's validity, seconds since 1970. Raises ValueError for other data."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import SSHCertificate, load_ssh_public_identity  # noqa: PLC0415

    try:
        identity = load_ssh_public_identity(certificate)
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from error
    if not isinstance(identity, SSHCertificate):
        raise ValueError("a key without a certificate")
    return float(identity.valid_after), float(identity.valid_before)


def known_hosts(authority: Ed25519PrivateKey, cluster: Cluster, revoked: Collection[str]) -> str:
    """Return the file known_hosts: the authority for all names of the cluster. It stays the same when nodes are added.

    The patterns are the domain, plain names (no dot, no colon), and the addresses of the cluster's network, no others.
    The `revoked` keys have the same patterns: hpcforge does not change ssh to other hosts.
    """
    key = f"ssh-ed25519 {base64.b64encode(_public_blob(authority)).decode()}"
    heading = f"# Written by hpcforge: host keys of {cluster.name} are vouched for by its certificate authority.\n"
    addresses = ",".join(address_patterns(cluster.network.cidr))
    whom = (f"*.{cluster.domain}", "*,!*.*,!*:*", addresses)
    lines = [f"@cert-authority {patterns} {key}" for patterns in whom]
    lines += [f"@revoked {patterns} {key}" for key in revoked for patterns in whom]
    return heading + "".join(f"{line} {cluster.name}\n" for line in lines)


def address_patterns(cidr: str) -> Iterator[str]:
    """Yield a subnet as patterns of known_hosts, which has only `*` and `?`: at most 256 of them."""
    network = ipaddress.IPv4Network(cidr)
    whole_bytes = -(-network.prefixlen // 8)  # up to the next byte: a /22 is four of /24
    for part in network.subnets(new_prefix=whole_bytes * 8):
        octets = str(part.network_address).split(".")[:whole_bytes]
        yield ".".join([*octets, "*"]) if whole_bytes < 4 else ".".join(octets)


@lru_cache(maxsize=8)
def _authority(text: bytes) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key  # noqa: PLC0415

    key = load_ssh_private_key(text, password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{AUTHORITY} is not an Ed25519 key")
    return key


def authority_fingerprint(secret: bytes) -> str:
    """Return the authority's public key as ssh prints it, "SHA256:..."."""
    return fingerprint(_public_blob(_authority(secret)))


def fingerprint(blob: bytes) -> str:
    """Return a public key's fingerprint from its wire form, as ssh-keygen -l prints it, "SHA256:..."."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def bare(key: str) -> str:
    """Return an OpenSSH public key without its comment."""
    return " ".join(key.split()[:2])


def _public_blob(authority: Ed25519PrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415

    public = authority.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return _field(b"ssh-ed25519") + _field(public)


def _first_field(blob: bytes) -> tuple[bytes, bytes]:
    end = 4 + int.from_bytes(blob[:4], "big")
    return blob[4:end], blob[end:]


def _field(data: bytes) -> bytes:
    """Return a string of SSH's wire format (RFC 4251, section 5)."""
    return len(data).to_bytes(4, "big") + data
