"""Unix accounts: each with a group of its own name and number. Nothing is ever deleted or renumbered.

The receipt has whether we made it.

An account may expire: from that day on (UTC) nobody logs in to it, by whatever means, and what runs goes on.
One that is wanted no more has its password locked and is made to have expired, on the second day of 1970: nobody
logs in to it any more. One that is wanted again no longer expires, or as wanted; its password stays locked.
"""

from __future__ import annotations

import datetime
import grp
import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.node import commands, paths, trees, unix
from hpcforge.node.events import EventReporter, Json, LaterError, NodeError
from hpcforge.node.kinds import SpaceNeed, mounts

if TYPE_CHECKING:
    from hpcforge.kinds.accounts import Account

_HOME = "hpcforge locks accounts and never deletes them"
OPEN = "it existed before hpcforge, so hpcforge does not lock it"
_OURS = "hpcforge logs in with it, so it is not locked"
HOME_MODE = "0750"  # for others a home is closed; the group is the account's own
_SKELETON = "/etc/skel"
_UNFINISHED = ".new."  # before a home's name, until it is whole
_MAKE_S = 60
_SHADOW = Path("/etc/shadow")
_EPOCH = datetime.date(1970, 1, 1)
_LEAST, _MOST = 1000, 59_999  # numbers that a blueprint accepts
_LOCKED = "1"  # our mark: the day of 1970 on which the account expired


def compare(wanted: Account) -> Json | None:
    """Return the present state of an account, if it is not as desired."""
    user, gid = _user(wanted.name), unix.gid(wanted.name)
    if user is None:
        nothing = dict.fromkeys(("uid", "home", "shell", "expires"))
        return {"name": wanted.name, "exists": False, "gid": gid, **nothing}
    expires = _expires(wanted.name)
    found = (user.pw_uid, user.pw_gid, gid, user.pw_dir, user.pw_shell, expires)
    lacks = user.pw_dir == wanted.home and _lacks_home(wanted)
    if not lacks and found == (wanted.uid, wanted.uid, wanted.uid, wanted.home, wanted.shell, _day(wanted.expires)):
        return None
    return {
        "name": wanted.name,
        "exists": True,
        "uid": user.pw_uid,
        "gid": user.pw_gid,
        "home": None if lacks else user.pw_dir,
        "shell": user.pw_shell,
        "expires": "locked" if expires == _LOCKED else _date(expires),
    }


def is_there(name: str) -> bool:
    """Whether there is an account of this name, other than one that we made once and locked."""
    return _user(name) is not None and not _locked(name)


def put(wanted: Account) -> str | None:
    """Make an account so; what was changed, or None. NodeError where its name or number is somebody else's.

    LaterError where its home stays what it is for now: nothing is mounted where it is to be, or the user is at work.
    """
    name, number = wanted.name, wanted.uid
    user = _user(name)
    in_the_way = obstacle(wanted, None)
    if in_the_way:
        raise NodeError(in_the_way)
    changes = []
    if unix.gid(name) is None:
        unix.edit(["groupadd", "--gid", str(number), "--", name])
        changes.append("group")
    if user is None:
        numbers = (f"--uid={number}", f"--gid={number}")
        home = (f"--home-dir={wanted.home}", "--no-create-home")
        until = (f"--expiredate={wanted.expires}",) if wanted.expires else ()
        unix.edit(["useradd", *numbers, *home, *until, f"--shell={wanted.shell}", "--", name])
        if _lacks_home(wanted):
            _make_home(wanted)
        return "created"
    expires = _expires(name)
    if expires != _day(wanted.expires):
        unix.edit(["usermod", "--expiredate", wanted.expires, "--", name])
        changes.append("unlocked" if expires == _LOCKED else f"expires {wanted.expires or 'never'}")
    if user.pw_shell != wanted.shell:
        unix.edit(["usermod", "--shell", wanted.shell, "--", name])
        changes.append(f"shell {user.pw_shell} -> {wanted.shell}")
    try:
        changes += _put_home(wanted, user.pw_dir)
    except LaterError as error:
        raise LaterError(f"its home is still {user.pw_dir}: {error}; then apply again", ", ".join(changes)) from error
    return ", ".join(changes) or None


def _put_home(wanted: Account, old: str) -> list[str]:
    """Let an account's home be where it is wanted, and be there; what was done. LaterError where that has to wait."""
    name, new, did = wanted.name, wanted.home, []
    if old != new:
        if wanted.mount and not mounts.is_mounted(wanted.mount):
            raise LaterError(f"mount {wanted.mount} first")
        try:
            unix.edit(["usermod", "--home", new, "--", name])
        except LaterError as error:
            raise LaterError(f"end all processes of the user first ({error})") from error
        did.append(f"home {old} -> {new}")
    if _lacks_home(wanted):
        _make_home(wanted)
        did.append(f"{new} made")
    return did


def _make_home(wanted: Account) -> None:
    """Make a home with what is in /etc/skel; all of it is on the disk before it has its name.

    useradd and mkhomedir_helper sync nothing of it: a power cut may leave a folder with empty files, which nobody could
    tell later from a home that its user has emptied.
    """
    parent, name = paths.split(wanted.home)
    unfinished = f"{_UNFINISHED}{name}"
    trees.remove(f"{parent}/{unfinished}")  # of one that was cut off
    folder = paths.open_directory(parent, create=True)
    try:
        os.mkdir(unfinished, 0o700, dir_fd=folder)
        home = os.open(unfinished, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            here = f"/proc/{os.getpid()}/fd/{home}/."  # this one, wherever somebody may move it
            for argv in (
                ["cp", "-dR", "--preserve=mode", "--", f"{_SKELETON}/.", here],
                ["chown", "-hR", f"{wanted.uid}:{wanted.uid}", "--", here],
                ["chmod", HOME_MODE, "--", here],
                ["find", here, "!", "-type", "l", "-exec", "sync", "--", "{}", "+"],
            ):
                commands.succeed(argv, _MAKE_S)
        finally:
            os.close(home)
        os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    finally:
        os.close(folder)


def _lacks_home(wanted: Account) -> bool:
    return wanted.make_home and not os.path.lexists(wanted.home)


def obstacle(wanted: Account, known: bool | None) -> str | None:  # noqa: ARG001
    """Return all that keeps its name or number from it."""
    name, number = wanted.name, wanted.uid
    user, gid = _user(name), unix.gid(name)
    found = []
    if user is not None and (user.pw_uid, user.pw_gid) != (number, number):
        found.append(
            f"account {name!r} has uid {user.pw_uid} and gid {user.pw_gid} on this node, but {number} in the "
            f"blueprint; a new number would change the owner of its files, so {_remedy(wanted, user, gid)}"
        )
    elif gid is not None and gid != number:
        found.append(
            f"group {name!r} has gid {gid} on this node, not {number}; renumber it by hand or change the blueprint"
        )
    owners: dict[str, list[str]] = {}
    for kind, other in (("uid", _name_of_user(number)), ("gid", _name_of_group(number))):
        if other is not None and other != name:
            owners.setdefault(other, []).append(kind)
    found += [
        f"{' and '.join(kinds)} {number} for {name!r} belong{'s' if len(kinds) == 1 else ''} to {other!r} on this "
        f"node; choose another number in the blueprint{_free_number(number)}, or renumber {other!r} by hand"
        for other, kinds in owners.items()
    ]
    return "; and ".join(found) or None


def _remedy(wanted: Account, user: pwd.struct_passwd, gid: int | None) -> str:
    """Return the number that fits an account as it is, else how to give it the blueprint's."""
    by_hand = "renumber it by hand"
    if not _LEAST <= user.pw_uid <= _MOST:
        return f"{by_hand}: a blueprint has {_LEAST} to {_MOST}"
    if (user.pw_gid, gid) != (user.pw_uid, user.pw_uid):
        return f"{by_hand}: no number fits while its group is not {wanted.name!r} with the number of the account"
    return f"write {user.pw_uid} in the blueprint: {wanted.name}: {{uid: {user.pw_uid}}}; or {by_hand}"


def own(name: str, change: Account | None, made: set[str]) -> bool:  # noqa: ARG001
    """Whether we are to make it."""
    return not is_there(name)


def restore(name: str, known: bool, report: EventReporter) -> str | None:
    """Lock an account that we made, unless it is the one that we come in by."""
    if not known:
        if is_there(name):
            report.warning(
                f"not locked, since they existed before hpcforge: {name}; to lock an account: usermod --lock "
                f"--expiredate {_LOCKED} NAME"
            )
        return None
    if name == os.environ.get("SUDO_USER"):
        report.warning(f"hpcforge logs in as account {name}: it is not locked, and no longer managed")
        return None
    return lock(name)


def stays(name: str, known: bool) -> tuple[str, str, str] | None:
    """Its home, or the whole of one that we do not lock."""
    user = _user(name)
    if not known:
        return "account", name, OPEN
    if name == os.environ.get("SUDO_USER"):
        return "account", name, _OURS
    return ("home", user.pw_dir, _HOME) if user else None


def room(wanted: Account) -> list[SpaceNeed]:
    """Return the space for a home from /etc/skel, and for /etc/passwd, group and shadow with their copies."""
    home = [SpaceNeed(wanted.home, unix.EDIT_BYTES, 8)] if wanted.make_home else []  # what is elsewhere is not touched
    return [*home, SpaceNeed("/etc", unix.EDIT_BYTES, 4)]


def lock(name: str) -> str | None:
    """Let nobody log in to an account any more; "locked", or None where it is so or there is no such account."""
    if _user(name) is None or _locked(name):
        return None
    unix.edit(["usermod", "--lock", "--expiredate", _LOCKED, "--", name])
    return "locked"


def _locked(name: str) -> bool:
    return _expires(name) == _LOCKED


def _expires(name: str) -> str:
    """Return the expiry day of an account, since 1970, as in /etc/shadow; empty: it never expires, or is missing."""
    try:
        lines = _SHADOW.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    fields = next((line.split(":") for line in lines if line.split(":")[0] == name), [])
    return "".join(fields[7:8])


def _day(date: str) -> str:
    """Return a date (year-month-day, or empty) as /etc/shadow has it."""
    return str((datetime.date.fromisoformat(date) - _EPOCH).days) if date else ""


def _date(day: str) -> str | None:
    """Return a day of /etc/shadow as a date; unchanged where it is not in the calendar."""
    try:
        return (_EPOCH + datetime.timedelta(days=int(day))).isoformat() if day else None
    except (ValueError, OverflowError):
        return day


def _user(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _name_of_user(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def _free_number(number: int) -> str:
    """Return the next number that neither a user nor a group has here, for a message."""
    for free in range(number + 1, min(number + 100, _MOST + 1)):
        if _name_of_user(free) is None and _name_of_group(free) is None:
            return f" ({free} is free here)"
    return ""


def _name_of_group(gid: int) -> str | None:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return None
