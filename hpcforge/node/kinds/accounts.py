"""Unix accounts, each with a group of the same name and number. hpcforge never deletes or renumbers one.

The receipt records whether hpcforge made the account.

An account may expire: from that day on (UTC) every login fails, and running processes continue. hpcforge locks an
account that the blueprint no longer has: it locks the password, and sets the expiry to the second day of 1970. If the
blueprint has the account again, hpcforge sets the expiry as desired; the password stays locked.
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
HOME_MODE = "0750"  # a home is closed to others; the group is the account's own
_SKELETON = "/etc/skel"
_UNFINISHED = ".new."  # before a home's name, until it is complete
_MAKE_S = 60
_SHADOW = Path("/etc/shadow")
_EPOCH = datetime.date(1970, 1, 1)
_LEAST, _MOST = 1000, 59_999  # numbers that a blueprint accepts
_LOCKED = "1"  # our mark: the day of 1970 on which the account expired


def compare(account: Account) -> Json | None:
    """Return the present state of an account, if it is not as desired."""
    user, gid = _user(account.name), unix.gid(account.name)
    if user is None:
        nothing = dict.fromkeys(("uid", "home", "shell", "expires"))
        return {"name": account.name, "exists": False, "gid": gid, **nothing}
    expires = _expires(account.name)
    present = (user.pw_uid, user.pw_gid, gid, user.pw_dir, user.pw_shell, expires)
    lacks = user.pw_dir == account.home and _lacks_home(account)
    if not lacks and present == (
        account.uid,
        account.uid,
        account.uid,
        account.home,
        account.shell,
        _day(account.expires),
    ):
        return None
    return {
        "name": account.name,
        "exists": True,
        "uid": user.pw_uid,
        "gid": user.pw_gid,
        "home": None if lacks else user.pw_dir,
        "shell": user.pw_shell,
        "expires": "locked" if expires == _LOCKED else _date(expires),
    }


def is_there(name: str) -> bool:
    """Return whether the account exists and hpcforge has not locked it."""
    return _user(name) is not None and not _locked(name)


def put(account: Account) -> str | None:
    """Create or change an account; return the changes, or None. NodeError if another account has its name or number.

    LaterError if its home stays as it is for now: its file system is not mounted, or the user has processes.
    """
    name, number = account.name, account.uid
    user = _user(name)
    conflict = obstacle(account, None)
    if conflict:
        raise NodeError(conflict)
    changes = []
    if unix.gid(name) is None:
        unix.edit(["groupadd", "--gid", str(number), "--", name])
        changes.append("group")
    if user is None:
        numbers = (f"--uid={number}", f"--gid={number}")
        home = (f"--home-dir={account.home}", "--no-create-home")
        until = (f"--expiredate={account.expires}",) if account.expires else ()
        unix.edit(["useradd", *numbers, *home, *until, f"--shell={account.shell}", "--", name])
        if _lacks_home(account):
            _make_home(account)
        return "created"
    expires = _expires(name)
    if expires != _day(account.expires):
        unix.edit(["usermod", "--expiredate", account.expires, "--", name])
        changes.append("unlocked" if expires == _LOCKED else f"expires {account.expires or 'never'}")
    if user.pw_shell != account.shell:
        unix.edit(["usermod", "--shell", account.shell, "--", name])
        changes.append(f"shell {user.pw_shell} -> {account.shell}")
    try:
        changes += _put_home(account, user.pw_dir)
    except LaterError as error:
        raise LaterError(f"its home is still {user.pw_dir}: {error}; then apply again", ", ".join(changes)) from error
    return ", ".join(changes) or None


def _put_home(account: Account, old: str) -> list[str]:
    """Set and create an account's home; return the changes. LaterError if that has to wait."""
    name, new, did = account.name, account.home, []
    if old != new:
        if account.mount and not mounts.is_mounted(account.mount):
            raise LaterError(f"mount {account.mount} first")
        try:
            unix.edit(["usermod", "--home", new, "--", name])
        except LaterError as error:
            raise LaterError(f"end all processes of the user first ({error})") from error
        did.append(f"home {old} -> {new}")
    if _lacks_home(account):
        _make_home(account)
        did.append(f"{new} made")
    return did


def _make_home(account: Account) -> None:
    """Make a home from /etc/skel, and sync it to the disk before it gets its name.

    useradd and mkhomedir_helper do not sync: a power cut may leave a folder with empty files, which looks like a home
    that its user has emptied.
    """
    parent, name = paths.split(account.home)
    unfinished = f"{_UNFINISHED}{name}"
    trees.remove(f"{parent}/{unfinished}")  # from an interrupted run
    folder = paths.open_directory(parent, create=True)
    try:
        os.mkdir(unfinished, 0o700, dir_fd=folder)
        home = os.open(unfinished, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            target = f"/proc/{os.getpid()}/fd/{home}/."  # valid even if another program moves the folder
            for argv in (
                ["cp", "-dR", "--preserve=mode", "--", f"{_SKELETON}/.", target],
                ["chown", "-hR", f"{account.uid}:{account.uid}", "--", target],
                ["chmod", HOME_MODE, "--", target],
                ["find", target, "!", "-type", "l", "-exec", "sync", "--", "{}", "+"],
            ):
                commands.succeed(argv, _MAKE_S)
        finally:
            os.close(home)
        os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    finally:
        os.close(folder)


def _lacks_home(account: Account) -> bool:
    return account.make_home and not os.path.lexists(account.home)


def obstacle(account: Account, record: bool | None) -> str | None:  # noqa: ARG001
    """Return the conflicts over its name and its number."""
    name, number = account.name, account.uid
    user, gid = _user(name), unix.gid(name)
    conflicts = []
    if user is not None and (user.pw_uid, user.pw_gid) != (number, number):
        conflicts.append(
            f"account {name!r} has uid {user.pw_uid} and gid {user.pw_gid} on this node, but {number} in the "
            f"blueprint; a new number would change the owner of its files, so {_remedy(account, user, gid)}"
        )
    elif gid is not None and gid != number:
        conflicts.append(
            f"group {name!r} has gid {gid} on this node, not {number}; renumber it by hand or change the blueprint"
        )
    owners: dict[str, list[str]] = {}
    for kind, owner in (("uid", _name_of_user(number)), ("gid", _name_of_group(number))):
        if owner is not None and owner != name:
            owners.setdefault(owner, []).append(kind)
    conflicts += [
        f"{' and '.join(kinds)} {number} for {name!r} belong{'s' if len(kinds) == 1 else ''} to {owner!r} on this "
        f"node; choose another number in the blueprint{_free_number(number)}, or renumber {owner!r} by hand"
        for owner, kinds in owners.items()
    ]
    return "; and ".join(conflicts) or None


def _remedy(account: Account, user: pwd.struct_passwd, gid: int | None) -> str:
    """Return the number that fits an account as it is, else how to give it the blueprint's."""
    by_hand = "renumber it by hand"
    if not _LEAST <= user.pw_uid <= _MOST:
        return f"{by_hand}: a blueprint has {_LEAST} to {_MOST}"
    if (user.pw_gid, gid) != (user.pw_uid, user.pw_uid):
        return f"{by_hand}: no number fits while its group is not {account.name!r} with the number of the account"
    return f"write {user.pw_uid} in the blueprint: {account.name}: {{uid: {user.pw_uid}}}; or {by_hand}"


def own(name: str, change: Account | None, made: set[str]) -> bool:  # noqa: ARG001
    """Return whether hpcforge makes it."""
    return not is_there(name)


def restore(name: str, record: bool, report: EventReporter) -> str | None:
    """Lock an account that hpcforge made, unless hpcforge logs in with it."""
    if not record:
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


def stays(name: str, record: bool) -> tuple[str, str, str] | None:
    """Return its home, or the account if hpcforge does not lock it."""
    user = _user(name)
    if not record:
        return "account", name, OPEN
    if name == os.environ.get("SUDO_USER"):
        return "account", name, _OURS
    return ("home", user.pw_dir, _HOME) if user else None


def room(account: Account) -> list[SpaceNeed]:
    """Return the space for a home from /etc/skel, and for /etc/passwd, group and shadow with their copies."""
    home = [SpaceNeed(account.home, unix.EDIT_BYTES, 8)] if account.make_home else []  # a home elsewhere is not touched
    return [*home, SpaceNeed("/etc", unix.EDIT_BYTES, 4)]


def lock(name: str) -> str | None:
    """Lock an account; return "locked", or None if it is locked or missing."""
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
