"""Certificates for services that speak TLS, from an authority of the cluster's own.

The keys of the authority and of each node are derived from the host certificate authority's key (HKDF, RFC 5869): there
is no further secret to keep, and the same blueprint gives the same bytes. A certificate is for all names of its node.
It is valid in its step of time and the next, as host certificates are (`hpcforge.secrets.host_certificates`), and
renewed with them; the authority's own certificate never expires.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, derive_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256, Hash
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hpcforge.cluster.model import Cluster, Node

AUTHORITY = "tls_authority"
_BEGAN = datetime(2020, 1, 1, tzinfo=UTC)
_NEVER = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)  # RFC 5280, 4.1.2.5: no well-defined end
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256 (SEC 2, 2.4.2)
_SLACK = timedelta(days=1)  # clocks differ


def derived(host_authority: Ed25519PrivateKey, cluster: Cluster, step: int, step_s: int) -> dict[str, bytes]:
    """Return the authority's certificate, and key and certificate of each node of a certified service, in PEM.

    The names are those that roles use: `tls_authority`, `tls_key:NODE` (the only secret one), `tls_certificate:NODE`.
    """
    served = {name for service in cluster.services.values() if service.certified for name in service.on}
    if not served:
        return {}
    seed = host_authority.private_bytes_raw()
    authority = _key(seed, f"authority {cluster.name}")
    secrets = {AUTHORITY: _pem(_of_authority(authority, cluster))}
    began = datetime.fromtimestamp(step * step_s, UTC)
    valid = (began - _SLACK, began + timedelta(seconds=2 * step_s))
    for node in cluster.nodes:
        if node.name in served:
            key = _key(seed, f"node {cluster.name} {node.name}")
            secrets[f"tls_certificate:{node.name}"] = _pem(_of_node(key, authority, cluster, node, valid))
            secrets[f"tls_key:{node.name}"] = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return secrets


def span(certificate: bytes) -> tuple[float, float]:
    """Return begin and end of a PEM certificate's validity, seconds since 1970. Raises ValueError for other data."""
    parsed = x509.load_pem_x509_certificate(certificate)
    return parsed.not_valid_before_utc.timestamp(), parsed.not_valid_after_utc.timestamp()


def _key(seed: bytes, purpose: str) -> EllipticCurvePrivateKey:
    """Derive a key on P-256: browsers take no Ed25519. 64 extra bits make its bias negligible (FIPS 186-5, A.2.1)."""
    info = f"hpcforge tls p256 {purpose}".encode()
    number = int.from_bytes(HKDF(SHA256(), 40, salt=None, info=info).derive(seed), "big")
    return derive_private_key(number % (_ORDER - 1) + 1, SECP256R1())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _issuer(cluster: Cluster) -> x509.Name:
    return _name(f"{cluster.name} authority (hpcforge)")


def _of_authority(key: EllipticCurvePrivateKey, cluster: Cluster) -> x509.Certificate:
    issuer = _issuer(cluster)
    made = _begun(key, issuer, issuer, (_BEGAN, _NEVER), cluster.name)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return made.add_extension(_usage(signs=True), critical=True).sign(key, SHA256(), ecdsa_deterministic=True)


def _of_node(
    key: EllipticCurvePrivateKey,
    authority: EllipticCurvePrivateKey,
    cluster: Cluster,
    node: Node,
    valid: tuple[datetime, datetime],
) -> x509.Certificate:
    made = _begun(key, _name(node.name), _issuer(cluster), valid, f"{node.name} {valid[0]} {node.address}")
    made = made.add_extension(x509.SubjectAlternativeName(_names(cluster, node)), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(_usage(signs=False), critical=True)
    made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    return made.add_extension(by, critical=False).sign(authority, SHA256(), ecdsa_deterministic=True)


def _names(cluster: Cluster, node: Node) -> Iterator[x509.GeneralName]:
    yield x509.DNSName(node.name)
    yield x509.DNSName(f"{node.name}.{cluster.domain}")
    yield x509.IPAddress(IPv4Address(node.address))


def _begun(
    key: EllipticCurvePrivateKey,
    subject: x509.Name,
    issuer: x509.Name,
    valid: tuple[datetime, datetime],
    subject_text: str,
) -> x509.CertificateBuilder:
    digest = Hash(SHA256())
    digest.update(subject_text.encode() + key.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint))
    serial = int.from_bytes(digest.finalize()[:16], "big") | 1  # 128 bits, not 0: a function of the certified data
    made = x509.CertificateBuilder(issuer, subject, key.public_key(), serial, *valid)
    return made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
