#!/usr/bin/python3 -IS
"""Makes volumes of GlusterFS as /etc/hpcforge/glusterfs.json has them, on the first of the servers of each.

`make`: servers become peers, volumes are made, get their options, and are started; none is deleted, and no brick of one
is moved. `check`: it is so. What is wrong is printed, and the exit status is 1. A server that is away is no fault of a
volume that is there already.

What gluster(8) prints is XML, and of so many bytes at most; without what XML can declare, entities say nothing else.
Standard library, Python 3.9.
"""

import json
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from typing import NamedTuple

SAID = "/etc/hpcforge/glusterfs.json"
GLUSTER = ["/usr/sbin/gluster", "--mode=script", "--xml"]
COMMAND_S = 45  # of one command; glusterd itself gives up some of its own after 120
MOST_BYTES = 16 << 20  # of an answer
BECOMES_S = 60  # for what other servers' daemons do
MOST_ALLOWED = 4000  # characters of `auth.allow`: with more than 4,095 of an option's value glusterd 10.3 ends
BUSY = "Another transaction"  # what one of two commands for the same volume is told
MARK = "user.hpcforge"  # an option that changes nothing: whose volume it is
_STARTED, _NEVER_STARTED = "1", "0"  # <status> of a volume; 2: stopped
_IN_CLUSTER = "3"  # <state> of a peer


class GlusterError(Exception):
    """What is wrong, for the person who will read it."""


class Wanted(NamedTuple):
    """A volume of the blueprint."""

    name: str
    address: str  # of this server, by which the others know it
    bricks: "list[list[str]]"  # address of a server, folder there
    replicas: int
    arbiter: bool
    system_disk: bool  # some brick is on the disk of its server's system, which GlusterFS asks to be told
    clients: "list[str]"  # addresses
    options: "dict[str, str]"

    @property
    def places(self) -> "list[str]":
        """Its bricks as GlusterFS names them."""
        return [f"{address}:{path}" for address, path in self.bricks]


class Found(NamedTuple):
    """A volume as GlusterFS has it."""

    status: str
    bricks: "list[str]"
    options: "dict[str, str]"


def main(what: str) -> "list[str]":
    """What is wrong, once the word's work is done."""
    with open(SAID, encoding="utf-8") as file:
        said = json.load(file)
    wrong: "list[str]" = []
    for each in said["volumes"]:
        wanted = Wanted(**each)
        wanted.options["auth.allow"] = allowed(wanted.clients)
        try:
            if what == "make":
                make(wanted)
            wrong += different(wanted, found(wanted.name))
        except GlusterError as error:
            wrong.append(f"{wanted.name}: {error}")
    return wrong


def make(wanted: Wanted) -> None:
    """Make and start a volume, where it is missing, and set its options. Raises GlusterError."""
    there = answering(wanted.name)
    if there is None:
        join([address for address, _ in wanted.bricks if address != wanted.address])
        copies = ["replica", str(wanted.replicas + wanted.arbiter)] if wanted.replicas > 1 else []
        copies += ["arbiter", "1"] if wanted.arbiter else []
        force = ["force"] if wanted.system_disk else []
        ask("volume", "create", wanted.name, *copies, *wanted.places, *force)
        there = found(wanted.name)
    if there is None or foreign(wanted, there):
        return  # which is said by who compares
    unlike = {key: value for key, value in wanted.options.items() if there.options.get(key) != value}
    if unlike:
        ask("volume", "set", wanted.name, *(word for pair in sorted(unlike.items()) for word in pair))
    if there.status != _STARTED:
        ask("volume", "start", wanted.name)
    elif down(wanted.name):
        ask("volume", "start", wanted.name, "force")
    until = time.monotonic() + BECOMES_S
    while down(wanted.name) and time.monotonic() < until:
        time.sleep(1)


def different(wanted: Wanted, there: "Found | None") -> Iterator[str]:
    """How a volume is other than the blueprint has it."""
    name = wanted.name
    if there is None:
        yield f"{name}: there is no such volume"
        return
    other = foreign(wanted, there)
    if other:
        yield f"{name}: {other}"
        return
    if there.status != _STARTED:
        yield f"{name}: it is not started"
        return
    for key, value in sorted(wanted.options.items()):
        if there.options.get(key) != value:
            yield f"{name}: {key} is {shown(there.options.get(key, 'not set'))}, to be {value}"
    for place in down(name):
        yield f"{name}: nothing serves {place}; what it logged: /var/log/glusterfs/bricks on that server"


def allowed(clients: "Sequence[str]") -> str:
    """Who may mount: each by its address; of so many that these are too long, all whose first numbers are the same.

    Whole numbers alone, as `10.1.2.*`: of a subnet that ends within one GlusterFS 10.3 compares the wrong bits.
    """
    said = ",".join(dict.fromkeys(clients))
    for numbers in (3, 2, 1):
        if len(said) <= MOST_ALLOWED:
            break
        said = ",".join(dict.fromkeys(".".join([*client.split(".")[:numbers], "*"]) for client in clients))
    return said


def foreign(wanted: Wanted, there: Found) -> str:
    """Why nothing of a volume is touched; empty: it is ours, and in its place."""
    ours, mark = wanted.options[MARK], there.options.get(MARK)
    new = mark is None and there.status == _NEVER_STARTED  # we were stopped before we had said so
    if there.bricks != wanted.places:
        return (
            f"its bricks are {shown(' '.join(there.bricks))}, to be {' '.join(wanted.places)}. hpcforge moves no files "
            f"between servers: put the blueprint back, or do it by `gluster volume add-brick` or `replace-brick`"
        )
    if mark != ours and not new:
        whose = f"of {shown(mark)}" if mark else "not made by hpcforge"
        return f"it is {whose}; to give it to this cluster: gluster volume set {wanted.name} {MARK} {ours}"
    return ""


def join(addresses: "Sequence[str]") -> None:
    """Make servers our peers that are none yet, and wait until all are. Raises GlusterError."""
    known = peers()
    for address in dict.fromkeys(addresses):
        if address not in known:
            ask("peer", "probe", address)
    until = time.monotonic() + BECOMES_S
    while True:
        known = peers()
        away = [address for address in dict.fromkeys(addresses) if not known.get(address)]
        if not away:
            return
        if time.monotonic() > until:
            raise GlusterError(f"no peer yet, or away: {', '.join(away)}; `gluster peer status` says more")
        time.sleep(1)


def peers() -> "dict[str, bool]":
    """Servers by each of their addresses, and whether they are there. Raises GlusterError."""
    known = {}
    for peer in ask("peer", "status").iterfind("peerStatus/peer"):
        there = text(peer, "connected") == "1" and text(peer, "state") == _IN_CLUSTER
        for name in [
            text(peer, "hostname"),
            *(hostname.text or "" for hostname in peer.iterfind("hostnames/hostname")),
        ]:
            known[name] = there
    return known


def answering(name: str) -> "Found | None":
    """The same as `found`, once glusterd answers at all: it was started a moment ago. Raises GlusterError."""
    until = time.monotonic() + BECOMES_S
    while True:
        try:
            return found(name)
        except GlusterError:
            if time.monotonic() > until:
                raise
        time.sleep(1)


def found(name: str) -> "Found | None":
    """A volume as GlusterFS has it; None: there is none. Raises GlusterError."""
    for volume in ask("volume", "info").iterfind("volInfo/volumes/volume"):
        if text(volume, "name") == name:
            return Found(
                text(volume, "status"),
                [text(brick, "name") for brick in volume.iterfind("bricks/brick")],
                {text(option, "name"): text(option, "value") for option in volume.iterfind("options/option")},
            )
    return None


def down(name: str) -> "list[str]":
    """Its bricks that nothing serves, of servers that are there. Raises GlusterError."""
    nodes = ask("volume", "status", name).iterfind("volStatus/volumes/volume/node")
    places = [(text(node, "hostname"), text(node, "path"), text(node, "status")) for node in nodes]
    return [f"{host}:{path}" for host, path, status in places if path.startswith("/") and status != "1"]


def ask(*words: str) -> ET.Element:
    """The answer to a command. Raises GlusterError with what GlusterFS says, or that it says nothing."""
    for _ in range(5):
        root = answer(said_by(*words), " ".join(words[:3]))
        if BUSY not in text(root, "opErrstr"):
            break
        time.sleep(2)
    if text(root, "opRet") != "0":
        why = shown(text(root, "opErrstr") or text(root, "output") or "no reason")
        raise GlusterError(f"`gluster {' '.join(words[:3])}`: {why}")
    return root


def said_by(*words: str) -> bytes:
    """What a command prints, within its time, and no more than is read of it. Raises GlusterError."""
    command = [*GLUSTER, *words]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, close_fds=True
        )
    except OSError as error:
        raise GlusterError(f"{command[0]}: {error.strerror}") from error
    late = threading.Event()
    clock = threading.Timer(COMMAND_S, lambda: (late.set(), process.kill()))
    clock.start()
    with process:
        assert process.stdout is not None
        try:
            said = process.stdout.read(MOST_BYTES + 1)
        finally:
            process.kill()  # one that says more than is read, too
            clock.cancel()
    if late.is_set():
        raise GlusterError(f"`gluster {' '.join(words[:3])}`: no answer within {COMMAND_S} s")
    if len(said) > MOST_BYTES:
        raise GlusterError(f"GlusterFS said more than {MOST_BYTES} bytes")
    return said


def answer(said: bytes, asked: str) -> ET.Element:
    """What it says as XML without declarations of its own. Raises GlusterError."""
    begin = said.find(b"<?xml")
    if begin < 0 or b"<!" in said:
        why = shown(said.decode("utf-8", "replace")) or "nothing"
        raise GlusterError(f"`gluster {asked}` said no XML: {why}")
    try:
        return ET.fromstring(said[begin:])  # noqa: S314 - without declarations
    except (ET.ParseError, RecursionError) as error:
        raise GlusterError(f"`gluster {asked}` said XML that is broken: {error}") from error


def text(element: ET.Element, path: str) -> str:
    """The text of what is below, empty where there is none."""
    return (element.findtext(path) or "").strip()


def shown(said: str) -> str:
    """What a daemon said, on one line, with what a terminal would act on left out."""
    return " ".join("".join(each if each.isprintable() else " " for each in said[:2000]).split())[:500]


if __name__ == "__main__":
    try:
        complaints = main(sys.argv[1])
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"{SAID}: {error}")
    sys.exit("\n".join(complaints) or 0)
