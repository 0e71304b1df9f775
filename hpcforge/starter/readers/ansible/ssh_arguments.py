"""The jump host in arguments of ssh: `-J`, ProxyJump, and `ProxyCommand ssh -W %h:%p`. Nothing is run. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from hpcforge.blueprint import values as v
from hpcforge.starter.readers.words import accepts

_LONGEST = 20_000  # length of all arguments
_WITH_VALUE = "BbcDEeFIiJLlmOopQRSWw"  # options of ssh(1) that take a value


@dataclass(frozen=True)
class JumpHost:
    """`via`: a jump host as `user@host` or `host`. `problems`: why there is none, or what more the arguments have."""

    via: str | None = None
    problems: tuple[str, ...] = ()


def jump_of(arguments: str) -> JumpHost:
    """Return the jump host that arguments of ssh name."""
    if "{{" in arguments:
        return JumpHost(problems=("a template, which is not filled in here",))
    if len(arguments) > _LONGEST:  # the time is quadratic in the length
        return JumpHost(problems=(f"more than {_LONGEST} characters",))
    jump, others = JumpHost(), list[str]()
    try:
        for option, value in _options(shlex.split(arguments)):
            name, _, rest = re.sub(r"\s*[= ]\s*", "=", value, count=1).partition("=")
            if option == "J":
                jump = _hops(value)
            elif option == "o" and name.lower() == "proxyjump":
                jump = _hops(rest)
            elif option == "o" and name.lower() == "proxycommand":
                jump = _command(rest)
            elif option:
                others.append(name if option == "o" else f"-{option}")
    except ValueError as error:
        return JumpHost(problems=(f"arguments that cannot be read: {error}",))
    if others:
        jump = JumpHost(jump.via, (*jump.problems, f"options of ssh, which ~/.ssh/config can have: {' '.join(others)}"))
    return jump


def proxy_command(command: str) -> JumpHost:
    """Return the jump host of a ProxyCommand."""
    return jump_of(f"-o {shlex.quote(f'ProxyCommand={command}')}")


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield options with their values; other words have "" as their option."""
    rest = iter(words)
    for word in rest:
        if word == "--" or not word.startswith("-") or len(word) < 2:
            yield "", word
            continue
        for position, letter in enumerate(word[1:], 2):
            if letter in _WITH_VALUE:
                yield letter, word[position:] or next(rest, "")
                break
            yield letter, ""


def _hops(text: str) -> JumpHost:
    """Parse the jump host of `-J`."""
    if text.strip().lower() == "none":
        return JumpHost()
    if "," in text:
        return JumpHost(problems=("several jump hosts in a row: access.via has one",))
    return destination(text)


def _command(command: str) -> JumpHost:
    """Parse the jump host of a ProxyCommand that is ssh with -W alone."""
    program, *words = shlex.split(command) or [""]
    if command.strip().lower() == "none":
        return JumpHost()
    user, port, places, forward = "", "", list[str](), False
    if program.rpartition("/")[2] != "ssh":
        return JumpHost(problems=(f"a ProxyCommand that runs {program[:40]!r}, which is not run here",))
    for option, value in _options(words):
        forward |= option == "W" and value in ("%h:%p", "[%h]:%p", "%h:22")
        user = value if option == "l" else user
        port = value if option == "p" else port
        if not option:
            places.append(value)
        elif option == "J" or (option == "o" and value.lower().startswith("proxy")):
            return JumpHost(problems=("several jump hosts in a row: access.via has one",))
    if not forward or len(places) != 1:
        return JumpHost(problems=("a ProxyCommand other than `ssh -W %h:%p USER@HOST`, which is not run here",))
    place = places[0] if "@" in places[0] or not user else f"{user}@{places[0]}"
    return destination(f"{place}:{port}" if port else place)


def destination(text: str) -> JumpHost:
    """Return the jump host of `user@host:port`; access.via has only user and host."""
    user, _, place = text.removeprefix("ssh://").rstrip("/").rpartition("@")
    host, _, port = place.partition(":")
    host = host.lower()
    if not accepts(v.HostOrAddress, host) or (user and not accepts(v.LoginName, user)):
        return JumpHost(problems=("a jump host or its account that a blueprint does not accept",))
    problems = () if port in ("", "22") else ("a jump host with another port than 22, which ~/.ssh/config can have",)
    return JumpHost(f"{user}@{host}" if user else host, problems)
