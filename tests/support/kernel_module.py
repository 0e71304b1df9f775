"""Kernel modules as files, with what modinfo reads of them: real ELF and signatures, and nothing in them that runs.

Or one that a kernel loads: a module of the distribution's, by another name.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7
from cryptography.x509.oid import NameOID

_NAMES = b"\0.modinfo\0.symtab\0.strtab\0.shstrtab\0"
_HEADER, _SECTION, _SYMBOL = 64, 64, 24
_PROGBITS, _SYMTAB, _STRTAB = 1, 2, 3
_MAGIC = b"~Module signature appended~\n"  # of linux/module_signature.h, as the twelve bytes before it


def module(**information: str) -> bytes:
    """A module that says this of itself, a word each: `version`, `depends`, ..."""
    modinfo = b"".join(f"{key}={value}".encode() + b"\0" for key, value in information.items())
    parts = [(_PROGBITS, modinfo, 0, 0), (_SYMTAB, bytes(_SYMBOL), 3, _SYMBOL), (_STRTAB, b"\0", 0, 0)]
    parts.append((_STRTAB, _NAMES, 0, 0))
    at, table, body = _HEADER, bytes(_SECTION), b""
    for name, (kind, data, link, size) in zip((b"modinfo", b"symtab", b"strtab", b"shstrtab"), parts, strict=True):
        place = _NAMES.index(b"." + name)
        local = int(kind == _SYMTAB)
        table += struct.pack("<IIQQQQIIQQ", place, kind, 0, 0, at + len(body), len(data), link, local, 1, size)
        body += data
    header = struct.pack("<4sBBBB8sHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, bytes(8), 1, 62, 1, 0, 0, at + len(body),
                       0, _HEADER, 0, 0, _SECTION, len(parts) + 1, len(parts))  # fmt: skip
    return header + body + table


def real(cordic: bytes, name: str, version: str) -> bytes:
    """The kernel's own module `cordic` (a function for radios, which does nothing by itself) by a name of as many
    letters, with a version: it has the checksums of symbols without which that kernel would not load it, and no
    signature, which would be wrong now.
    """
    own, description, by = b"cordic\0", b"description=CORDIC algorithm\0", name.encode() + b"\0"
    says = f"version={version}".encode().ljust(len(description), b"\0")
    table, size, count = (*struct.unpack_from("<Q", cordic, 40), *struct.unpack_from("<HH", cordic, 58))
    unsigned = cordic[: table + size * count]  # what is behind the table of sections is the signature
    assert (
        len(by) == len(own)
        and len(says) == len(description)
        and unsigned.count(own) == 2
        and unsigned.count(description) == 1
    )
    return unsigned.replace(own, by).replace(description, says)


def signed(data: bytes, owner: str) -> bytes:
    """The same module, signed as the kernel's `sign-file` does, by a key whose certificate names an owner."""
    key = rsa.generate_private_key(65537, 2048)
    name, start = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, owner)]), datetime.now(UTC)
    certificate = x509.CertificateBuilder(name, name, key.public_key(), 1, start, start + timedelta(days=1))
    options = [pkcs7.PKCS7Options.DetachedSignature, pkcs7.PKCS7Options.Binary, pkcs7.PKCS7Options.NoCerts]
    options.append(pkcs7.PKCS7Options.NoAttributes)
    signature = (
        pkcs7.PKCS7SignatureBuilder()
        .set_data(data)
        .add_signer(certificate.sign(key, SHA256()), key, SHA256())
        .sign(Encoding.DER, options)
    )
    return data + signature + struct.pack(">BBBBB3xI", 0, 0, 2, 0, 0, len(signature)) + _MAGIC
