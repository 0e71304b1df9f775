#!/usr/bin/python3 -IS
"""Whether the directory may be relied on; /etc/hpcforge/directory.json says which it is.

`state` prints a line for each of three questions, so that checks of several roles are one run of this program:
`answers: yes`: a server answers over TLS, with a certificate that is valid for its name, and has what is asked for;
`lasts: yes`: its certificate is good for two weeks more;
`clashes: none`: nobody in it has the name or the number of somebody of this node, or a group that of a group;
or instead of that one word what is wrong, without line breaks.
`people`: the names of all people in it whom nodes may know, a line each.
`numbers`: the numbers of all its people and groups, with their names, a line each. What is wrong is printed, and
the exit status is 1.
Standard library, Python 3.9.
"""

import base64
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Union

SAID = "/etc/hpcforge/directory.json"
BIND_FILE = "/etc/ldap/hpcforge_password"  # a file; all of it is the password
PORT = 636
CONNECT_S = 5.0
SEARCH_S = 8.0
DAY_S = 86400
LASTS_DAYS = 14
PAGE = 500  # entries
FIRST, NOBODY = 1000, 65534  # of numbers that are no system accounts


class UnreliableError(Exception):
    """Why the directory may not be relied on, for the person who will read it."""


class Directory(NamedTuple):
    """Where the directory is, and how it is asked."""

    servers: list[str]  # names or addresses
    base: str
    ca: str  # a file
    bind_dn: str  # "": as nobody
    min_id: int


Shown = Union[float, OSError, UnreliableError]  # when it ends, seconds since 1970; or why it was not seen


class Entry(NamedTuple):
    """Somebody, or a group, here or there."""

    name: str
    number: int
    where: str  # for people


def main(what: str) -> None:
    """Do what the word says. Raises UnreliableError."""
    with open(SAID, encoding="utf-8") as file:
        directory = Directory(**json.load(file))
    if what == "state":
        return print(*state(directory), sep="\n")
    server = answering(certificates(directory))
    list_lines = numbers if what == "numbers" else people
    return print("".join(f"{line}\n" for line in list_lines(directory, server)), end="")


def state(directory: Directory) -> Iterator[str]:
    """The three lines. What a directory says could pass for another line: it is put on one."""
    shown = certificates(directory)
    answers, both = "yes", "nobody was asked"
    try:
        server = answering(shown)
        base_is_there(directory, server)
    except UnreliableError as error:
        answers = str(error)
    else:
        try:
            both = "; ".join(clashes(directory, server)) or "none"
        except UnreliableError as error:
            both = str(error)
    yield _line("answers", answers)
    yield _line("lasts", "; ".join(ends_soon(shown)) or "yes")
    yield _line("clashes", both)


def _line(question: str, answer: str) -> str:
    return f"{question}: {' '.join(answer.split())}"


def certificates(directory: Directory) -> "dict[str, Shown]":
    """What each server shows: when its certificate ends, or why there is none that is valid."""
    found: dict[str, Shown] = {}
    for server in directory.servers:
        try:
            found[server] = certificate_end(server, directory.ca)
        except (OSError, UnreliableError) as error:
            found[server] = error
    return found


def certificate_end(server: str, ca: str) -> float:
    """When the certificate of a server ends, seconds since 1970, once it was found valid. Raises OSError too."""
    context = ssl.create_default_context(cafile=ca)
    with socket.create_connection((server, PORT), CONNECT_S) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=server) as tls:
                shown = tls.getpeercert() or {}
        except ssl.SSLCertVerificationError as error:
            raise UnreliableError(f"{server}: its certificate is refused: {error.verify_message}") from error
    return float(ssl.cert_time_to_seconds(str(shown["notAfter"])))


def answering(shown: "dict[str, Shown]") -> str:
    """The first server that answers; all that do have valid certificates. Raises UnreliableError."""
    for answer in shown.values():
        if isinstance(answer, UnreliableError):
            raise answer
    found = [server for server, answer in shown.items() if isinstance(answer, float)]
    if not found:
        silent = ((server, answer) for server, answer in shown.items() if isinstance(answer, OSError))
        raise UnreliableError("; ".join(f"{name}: no answer on port {PORT}: {e.strerror or e}" for name, e in silent))
    return found[0]


def ends_soon(shown: "dict[str, Shown]") -> "list[str]":
    """Whose certificate ends soon; one that cannot be seen is another question's."""
    left = ((server, answer - time.time()) for server, answer in shown.items() if isinstance(answer, float))
    return [
        f"{server}: its certificate is good for {max(0, int(left_s // DAY_S))} days more"
        for server, left_s in left
        if left_s < LASTS_DAYS * DAY_S
    ]


def search(directory: Directory, server: str, *asked: str) -> "list[dict[str, list[str]]]":
    """What the directory has, each entry's attributes by name. Raises UnreliableError."""
    words = ["ldapsearch", "-x", "-LLL", "-o", "ldif-wrap=no", "-o", f"nettimeout={CONNECT_S:g}", "-l", f"{SEARCH_S:g}"]
    words += ["-H", f"ldaps://{server}:{PORT}", "-b", directory.base]
    if directory.bind_dn:
        words += ["-D", directory.bind_dn, "-y", BIND_FILE]
    environment = {**os.environ, "LDAPTLS_CACERT": directory.ca, "LDAPTLS_REQCERT": "hard", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            [*words, *asked],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SEARCH_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UnreliableError(f"{server}: no answer to a search within {SEARCH_S:g} s") from error
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())
        raise UnreliableError(
            f"{server}: {said or f'ldapsearch ended with {done.returncode}'} (base {directory.base!r})"
        )
    return list(entries(done.stdout.decode(errors="replace")))


def entries(ldif: str) -> "Iterator[dict[str, list[str]]]":
    """The entries of LDIF whose lines are not folded."""
    for block in ldif.split("\n\n"):
        found: dict[str, list[str]] = {}
        for line in block.splitlines():
            name, colon, value = line.partition(":")
            if colon and value.startswith(":"):
                value = base64.b64decode(value[1:]).decode(errors="replace")
            found.setdefault(name.lower(), []).append(value.strip())
        if "dn" in found:
            yield found


def base_is_there(directory: Directory, server: str) -> None:
    """Raises UnreliableError where what is asked for is not in the directory."""
    if not search(directory, server, "-s", "base", "(objectClass=*)", "dn"):
        raise UnreliableError(f"{server}: there is no {directory.base!r} in it")


def clashes(directory: Directory, server: str) -> "list[str]":
    """All who are here and there. What SSSD passes over does not count here. Raises UnreliableError."""
    found = []
    for what, file, kind, name, number in (
        ("user", "/etc/passwd", "posixAccount", "uid", "uidNumber"),
        ("group", "/etc/group", "posixGroup", "cn", "gidNumber"),
    ):
        ours = list(local(file))
        either = "".join(f"({name}={escaped(entry.name)})({number}={entry.number})" for entry in ours)
        if not ours:
            continue
        asked = f"(&(objectClass={kind})(|{either}))"
        theirs = list(remote(search(directory, server, asked, name, number), name, number, directory.min_id))
        found += [
            f"{what} {entry.name} ({entry.number}) of {entry.where} and "
            f"{what} {other.name} ({other.number}) of {other.where}"
            for entry in ours
            for other in theirs
            if entry.name == other.name or entry.number == other.number
        ]
    pairs = list(dict.fromkeys(found))
    return [*pairs[:-1], f"{pairs[-1]}: give one of each pair another name and number"] if pairs else []


def people(directory: Directory, server: str) -> "list[str]":
    """All people whose number is not below the least, in the order of their names. Raises UnreliableError."""
    # By pages: servers give so many at once (RFC 2696; Active Directory 1,000).
    asked = ("-E", f"pr={PAGE}/noprompt", "(objectClass=posixAccount)", "uid", "uidNumber")
    found = remote(search(directory, server, *asked), "uid", "uidNumber", directory.min_id)
    return sorted({entry.name for entry in found if entry.name.isprintable()})


def numbers(directory: Directory, server: str) -> "list[str]":
    """Return NUMBER NAME of all people and groups, from the least number of people on. Raises UnreliableError."""
    found: list[Entry] = []
    for kind, name, number in (("posixAccount", "uid", "uidNumber"), ("posixGroup", "cn", "gidNumber")):
        pages = ("-E", f"pr={PAGE}/noprompt", f"(objectClass={kind})", name, number)
        found += remote(search(directory, server, *pages), name, number, directory.min_id)
    return sorted({f"{entry.number} {entry.name}" for entry in found if entry.name.isprintable()})


def local(file: str) -> Iterator[Entry]:
    """Who is in a file of this node's, of those that somebody in the directory could be."""
    with open(file, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            fields = line.rstrip("\n").split(":")
            if len(fields) > 2 and fields[2].isdigit() and FIRST <= int(fields[2]) != NOBODY:
                yield Entry(fields[0], int(fields[2]), file)


def remote(found: "Iterable[dict[str, list[str]]]", name: str, number: str, min_id: int) -> Iterator[Entry]:
    """Who is in what the directory answered, by each of its names."""
    for entry in found:
        numbers = [int(text) for text in entry.get(number.lower(), ()) if text.isdigit()]
        for text in entry.get(name, ()):
            yield from (Entry(text, each, entry["dn"][0]) for each in numbers if each >= min_id)


def escaped(text: str) -> str:
    """A text as filters take it (RFC 4515)."""
    return "".join(f"\\{ord(letter):02x}" if letter in "\\*()\0" else letter for letter in text)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except UnreliableError as error:
        sys.exit(str(error))
