#!/usr/bin/python3 -IS
"""Write the configuration of Prometheus' web servers: a certificate, and the hash of a password.

    hpcforge-web-config PASSWORD CERTIFICATE KEY WEB_CONFIG

All four are paths; the last is written, for everybody to read: it has no secret. Standard library, Python 3.9.
"""

import ctypes
import os
import secrets
import string
import sys

USER = "hpcforge"
ROUNDS = 10  # powers of two; the password is random, and a page asks often
ALPHABET = "./" + string.ascii_letters + string.digits  # of bcrypt's salts


def bcrypt(password: str) -> str:
    """Return the bcrypt hash of a password, by the libcrypt that every Debian has. Raises OSError where it has none."""
    crypt = ctypes.CDLL("libcrypt.so.1", use_errno=True).crypt
    crypt.argtypes, crypt.restype = (ctypes.c_char_p, ctypes.c_char_p), ctypes.c_char_p
    salt = "".join(secrets.choice(ALPHABET) for _ in range(21)) + "."  # the last has two bits
    hashed = crypt(password.encode(), f"$2b${ROUNDS:02}${salt}".encode())
    if not hashed or not hashed.startswith(b"$2b$"):
        raise OSError("libcrypt has no bcrypt")
    return str(hashed.decode())


def main(password: str, certificate: str, key: str, web_config: str) -> None:
    """Write it; the old one stays until the new one is whole."""
    with open(password, encoding="ascii") as file:
        hashed = bcrypt(file.read().strip())
    text = (
        f"tls_server_config: {{cert_file: {certificate}, key_file: {key}, min_version: TLS12}}\n"
        f'basic_auth_users: {{{USER}: "{hashed}"}}\n'
    )
    new = f"{web_config}.new"
    with open(new, "w", encoding="ascii") as file:
        file.write(text)
    os.replace(new, web_config)


if __name__ == "__main__":
    main(*sys.argv[1:])
