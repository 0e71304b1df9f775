"""The sections `access`, `users` and `groups`, and contradictions between them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import closest, did_you_mean, quote
from hpcforge.blueprint.public_keys import HostKey, UserKey
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.section import Section
from hpcforge.blueprint.sections.services import has_directory
from hpcforge.blueprint.validate import Draft, Finding


class Via(Section):
    """The machine that nodes are reached through."""

    host: v.HostOrAddress = Field(description="A node, or the name or IPv4 address of another machine.")
    user: v.LoginName | None = Field(None, description="The ssh user there; default, and for a node always: `user`.")
    host_keys: tuple[HostKey, ...] = Field(
        (), description="Its OpenSSH public host keys, type and base64; default for a node: from the inventory."
    )


Through = Annotated[Via, v.ShortForm("host")]


class AccessSection(Section):
    """A way into the nodes."""

    user: v.LoginName = Field(description="The ssh user on every node; need not be root.")
    become: Literal["sudo", "none"] = Field("sudo", description="How that user becomes root; none: it is root already.")
    via: Through | None = Field(
        None,
        description="A jump host: hpcforge reaches all other nodes through one connection to this host. Default: none.",
    )


Shell = Literal["bash", "zsh", "fish", "nologin"]


class UserSection(Section):
    """A person or a service account, the same on every node."""

    uid: v.Whole = Field(ge=1000, le=59_999, description="User and group number, 1000 to 59999.")
    admin: v.Truth = Field(False, description="May become root with sudo.")
    keys: tuple[UserKey, ...] = Field(
        (), description="OpenSSH public keys, or paths of .pub files relative to the blueprint."
    )
    groups: tuple[v.GroupName, ...] = Field(
        (), description="Names from `groups` that the user belongs to, in addition to the user's own group."
    )
    shell: Shell = Field(
        "bash", description="The login shell; `nologin`: the user may own files and jobs, but cannot log in."
    )
    expires: v.Date | None = Field(None, description="The account is locked from this day on (year-month-day, UTC).")


class GroupSection(Section):
    """People who share files, the same on every node."""

    gid: v.Whole = Field(ge=1000, le=59_999, description="Group number, 1000 to 59999, different from every user's.")


def people_findings(draft: Draft) -> Iterator[Finding]:
    """Yield errors of numbers, groups and the login account."""
    users: dict[str, UserSection] = draft.sections["users"] or {}
    owners: dict[int, str] = {}
    for name, user in users.items():
        first = owners.setdefault(user.uid, name)
        if first != name:
            yield Finding(("users", name, "uid"), f"uid {user.uid} belongs to `{first}`", "each user needs its own")
    yield from _groups(draft, users)
    access: AccessSection | None = draft.sections["access"]
    if access is not None and draft.intact("access", "user") and access.user in users:
        yield from _login_account(access.user, users[access.user])


def _groups(draft: Draft, users: Mapping[str, UserSection]) -> Iterator[Finding]:
    groups: dict[str, GroupSection] = draft.sections["groups"] or {}
    owners = {user.uid: f"the primary group of user `{name}`" for name, user in users.items()}
    for name, group in groups.items():
        if name in users:
            yield Finding(
                ("groups", name),
                f"user {quote(name)} already has a primary group of that name",
                "choose another",
                key=True,
            )
        first = owners.setdefault(group.gid, f"`{name}`")
        if first != f"`{name}`":
            yield Finding(("groups", name, "gid"), f"gid {group.gid} belongs to {first}", "each group needs its own")
    declared = draft.keys("groups")
    for name, user in users.items() if draft.keys_intact("groups") else ():
        for place, group_name in enumerate(user.groups):
            if group_name not in declared:
                hint = did_you_mean(group_name, declared) or f"add it: groups: {{{group_name}: {{gid: 3001}}}}"
                yield Finding(("users", name, "groups", place), f"group {quote(group_name)} does not exist", hint)


def _login_account(name: str, user: UserSection) -> Iterator[Finding]:
    """Check the settings of hpcforge's login account."""
    for key, closed in (("expires", user.expires is not None), ("shell", user.shell == "nologin")):
        if closed:
            message = f"hpcforge logs in as {quote(name)}: this would lock it out"
            yield Finding(("users", name, key), message, "remove it, or name another `access.user`")
    if user.keys:
        yield Finding(
            ("users", name, "keys"),
            f"hpcforge logs in as {quote(name)}: it needs these keys itself",
            "nodes revert a change of these keys after a minute unless hpcforge can log in again",
            severity="warning",
            key=True,
        )


def unknown_user(draft: Draft, loc: Loc, user: str, *, key: bool = False) -> Iterator[Finding]:
    """Yield a finding for an unknown user; with a directory none, since the controller checks the name there."""
    users = draft.keys("users")
    if user in users or not draft.keys_intact("users") or not draft.intact("services") or has_directory(draft):
        return
    close = closest(user, users)
    elsewhere = f"add `{user}` under `users`; users of a directory need the service `directory`"
    hint = f"did you mean `{close}`?" if close else elsewhere
    yield Finding(loc, f"{quote(user)} is not a user of this blueprint", hint, key=key)
