#!/usr/bin/python3 -IS
"""Makes the homes that nodes share, on the node that has them; /etc/hpcforge/homes.json says whose.

`make`: who has none gets one: hers alone, with what is in /etc/skel. `check`: each user of the blueprint has one.
What is wrong is printed, and the exit status is 1. One that is there is never touched, nor is one of somebody who left.

The folder that has them is root's alone, as all that lead there are; a home is filled under another name that nobody
but root may enter, and gets its own when it is whole. So nothing that a user can move is on the way.
Standard library, Python 3.9.
"""

import grp
import json
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

SAID = "/etc/hpcforge/homes.json"
SKELETON = "/etc/skel"
DIRECTORY = ["/usr/sbin/hpcforge-directory-check", "people"]
DIRECTORY_S = 60
LEAST = 1000  # of numbers that are no system accounts
NOBODY = 65534
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,255}")  # a file's name, and no part of a path
_UNFINISHED = ".new."  # before a name: no user's begins with a point
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class HomeError(Exception):
    """Why there is no home, for the person who will read it."""


class Said(NamedTuple):
    """Whose homes are where."""

    path: str  # the folder that has them on this node
    mount: str  # where everybody finds it: of a directory only whose home is said to be there gets one
    users: "list[str]"  # of the blueprint, who have theirs there
    directory: bool  # people of the directory, too
    allowed_groups: "list[str]"  # of these alone, where there are any


class Person(NamedTuple):
    """Somebody who is to have a home."""

    name: str
    uid: int
    gid: int


def main(what: str) -> "list[str]":
    """What is wrong, once the word's work is done."""
    with open(SAID, encoding="utf-8") as file:
        said = Said(**json.load(file))
    wrong: "list[str]" = []
    folder = open_folder(said.path)
    try:
        for name in everybody(said, what == "make", wrong):
            try:
                look_after(folder, said, name, what == "make")
            except (HomeError, OSError) as error:
                wrong.append(f"{name}: {error}")
    finally:
        os.close(folder)
    return wrong


def everybody(said: Said, ask: bool, wrong: "list[str]") -> Iterator[str]:
    """Each once; those of the blueprint before the directory is asked, which may let one wait."""
    yield from dict.fromkeys(said.users)
    if ask and said.directory:
        yield from dict.fromkeys(name for name in people(wrong) if name not in said.users)


def look_after(folder: int, said: Said, name: str, make: bool) -> None:
    """Somebody's home is there, or made. Raises HomeError."""
    if make and name not in said.users and is_there(folder, name):
        return  # nobody is asked who she is
    person = who(said, name)
    if person is None:
        return
    found = found_at(folder, person)
    if found is None and not make:
        raise HomeError(f"there is no {said.path}/{name}")
    if found is None:
        made(folder, said.path, person)
    elif found:
        raise HomeError(f"{said.path}/{name} {found}; nothing of it was changed")


def people(wrong: "list[str]") -> "list[str]":
    """The names in the directory; none where it is away, which is told."""
    try:
        done = subprocess.run(
            DIRECTORY, stdin=subprocess.DEVNULL, capture_output=True, timeout=DIRECTORY_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        wrong.append(f"the directory was not asked: {error}")
        return []
    if done.returncode:
        wrong.append(f"the directory: {' '.join(done.stderr.decode(errors='replace').split())}")
        return []
    return done.stdout.decode(errors="replace").split("\n")[:-1]


def who(said: Said, name: str) -> "Person | None":
    """Whose home this is, as this node knows her; None: nobody who is to have one here. Raises HomeError."""
    if not _NAME.fullmatch(name):
        raise HomeError(f"{name!r} cannot be the name of a folder")
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        if name in said.users:
            raise HomeError("there is no such user on this node") from None
        return None  # of the directory, and SSSD passes over her
    if found.pw_name != name or (name not in said.users and found.pw_dir != f"{said.mount}/{name}"):
        return None  # her home is elsewhere; an account of the blueprint gets its own once it is there
    if not LEAST <= found.pw_uid != NOBODY or found.pw_gid < LEAST:
        raise HomeError(f"user {found.pw_uid}, group {found.pw_gid}: those of the system have no home here")
    if said.allowed_groups and name not in said.users and not is_allowed(found, said.allowed_groups):
        return None
    return Person(name, found.pw_uid, found.pw_gid)


def is_allowed(person: pwd.struct_passwd, groups: "list[str]") -> bool:
    """Whether somebody of the directory is in one of these groups."""
    for name in groups:
        try:
            group = grp.getgrnam(name)
        except KeyError:
            continue
        if person.pw_gid == group.gr_gid or person.pw_name in group.gr_mem:
            return True
    return False


def open_folder(path: str) -> int:
    """The folder that has the homes, walked to without a link; nobody but root may change it. Raises HomeError."""
    folder = os.open("/", _FOLDER)
    for name in filter(None, path.split("/")):
        above, mode = folder, os.fstat(folder).st_mode
        try:
            folder = os.open(name, _FOLDER, dir_fd=above)
        except OSError as error:
            raise HomeError(
                f"{path}: {name}: {error.strerror}; it is to be a folder, and no link leads there"
            ) from error
        finally:
            os.close(above)
        if os.fstat(folder).st_uid not in (0, os.geteuid()) or (mode & _OTHERS_WRITE and not mode & stat.S_ISVTX):
            os.close(folder)
            raise HomeError(f"{path}: somebody other than root can move {name}")
    if os.fstat(folder).st_mode & _OTHERS_WRITE:
        os.close(folder)
        raise HomeError(f"{path}: others than root may write there (to change that: chmod go-w {path})")
    return folder


def is_there(folder: int, name: str) -> bool:
    """Whether something has this name, a link that leads nowhere, too."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except (OSError, ValueError):  # a name that no file can have
        return False
    return True


def found_at(folder: int, person: Person) -> "str | None":
    """What is wrong with what has her name, empty: nothing; None: nothing has it."""
    try:
        info = os.stat(person.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISDIR(info.st_mode):
        return "is no folder"
    return "" if info.st_uid == person.uid else f"belongs to user {info.st_uid}, and she is {person.uid}"


def made(folder: int, path: str, person: Person) -> None:
    """A home of hers alone, with what is in the skeleton; all of it, or none."""
    unfinished = _UNFINISHED + person.name
    if is_there(folder, unfinished):  # of one that was stopped
        shutil.rmtree(f"{path}/{unfinished}")
    os.mkdir(unfinished, 0o700, dir_fd=folder)
    home = os.open(unfinished, _FOLDER, dir_fd=folder)
    try:
        for name in filled(home, SKELETON):
            os.chown(name, person.uid, person.gid, dir_fd=home, follow_symlinks=False)
        os.fchown(home, person.uid, person.gid)
        os.fchmod(home, 0o700)
        os.fsync(home)
    finally:
        os.close(home)
    os.rename(unfinished, person.name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def filled(home: int, skeleton: str) -> Iterator[str]:
    """Copy files, folders and links from a folder, and yield the path of each in `home`."""
    for below, folders, files in os.walk(skeleton, topdown=True):
        inside = os.path.relpath(below, skeleton)
        for name in folders + files:
            there, here = os.path.join(below, name), os.path.normpath(os.path.join(inside, name))
            mode = os.lstat(there).st_mode
            if stat.S_ISLNK(mode):
                os.symlink(os.readlink(there), here, dir_fd=home)
            elif stat.S_ISDIR(mode):
                os.mkdir(here, stat.S_IMODE(mode) & 0o777, dir_fd=home)
            elif stat.S_ISREG(mode):
                copied(there, home, here, stat.S_IMODE(mode) & 0o777)
            else:
                continue
            yield here


def copied(there: str, home: int, here: str, mode: int) -> None:
    """One file of the skeleton."""
    target = os.open(here, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=home)
    with open(there, "rb") as source, open(target, "wb") as file:
        shutil.copyfileobj(source, file)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


if __name__ == "__main__":
    try:
        complaints = main(sys.argv[1])
    except HomeError as error:
        sys.exit(str(error))
    sys.exit("\n".join(complaints) or 0)
