"""Files that hold secrets: filled on the way to the node, and hidden again in what comes back.

A node compares files by the SHA-256 of what is in them. It is sent that of the filled text, and what it says of such a
file is changed where it comes in, before it is part of any plan: digests are HMACs under a key that stays here (what a
site provides may be short enough to be found by its digest), and of the old text only what the wanted one says, too, is
kept.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

from hpcforge.kinds.files import HIDDEN, File
from hpcforge.kinds.resource import ActualState
from hpcforge.plan.secrets import PLAN_KEY, Use, is_public

NOT_SHOWN = "(not shown)"  # a line of the old text that the wanted one does not have: a secret may be in it
_FOR_NOW = os.urandom(32)  # in place of the plan key where there is none yet: digests of this run alone
_TELLING = 4  # characters of a secret


def keyed(secrets: Mapping[str, bytes], data: bytes) -> str:
    """Return a digest that reveals nothing about the data without the site's secrets."""
    key = hmac.digest(secrets.get(PLAN_KEY) or _FOR_NOW, b"hpcforge digests of secrets", "sha256")
    return hmac.new(key, data, hashlib.sha256).hexdigest()


def digests(secrets: Mapping[str, bytes]) -> dict[str, str | None]:
    """Return a digest that distinguishes values, by name, also for derived ones."""
    return {name: keyed(secrets, value) for name, value in secrets.items()}


@dataclass(frozen=True)
class Contents:
    """What is in files: texts by their SHA-256, and the values that belong in them."""

    texts: Mapping[str, str]
    secrets: Mapping[str, bytes] = field(repr=False)

    def of(self, file: File) -> bytes | None:
        """All of a file; None where a secret of it is not there yet."""
        if any(name not in self.secrets for name in file.holds):
            return None
        if file.secret is not None:
            return self.secrets[file.secret]
        text = self.texts[str(file.text)]
        return file.filled(text, self._value).encode()

    def sent(self, file: File) -> dict[str, Any]:
        """Return the content in the form for a node instead of the digest that plans have."""
        content = self.of(file) if file.holds else None
        return {} if content is None else {"digest": _sha256(content)}

    def put(self, file: File, found: ActualState) -> dict[str, Any]:
        """Return the request for a file to be put; no content where it is there already."""
        content = None if file.same_content(found) else self.of(file)
        return {
            **self.sent(file),
            "content_base64": None if content is None else base64.b64encode(content).decode(),
        }

    def heard(self, file: File | None, found: ActualState) -> ActualState:
        """Return a node's report on a file without secrets; None for a file that was not requested."""
        if file is None or not file.holds:
            return self._without_values(found)
        here = self.sent(file).get("digest")
        digests = {key: self._digest(file, here, found[key]) for key in ("digest", "written") if key in found}
        old = found.get("text")
        if file.secret is not None or old is None:
            return {**found, **digests, "text": None}
        text, changed = self._hidden(file, old)
        return {**found, **digests, "text": text, "secrets": changed}

    def _without_values(self, found: ActualState) -> ActualState:
        """Where a file is to hold no secret, and has one that there is: its line is not for plans either."""
        old = found.get("text")
        if not old or not any(value in old for value in self._texts):
            return found
        lines = [NOT_SHOWN if any(value in line for value in self._texts) else line for line in old.split("\n")]
        return {**found, "text": "\n".join(lines)}

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        """The secrets that may stand in a line; shorter ones stand in many by chance."""
        lines = (value.decode("utf-8", "replace") for name, value in self.secrets.items() if not is_public(name))
        return tuple(line for line in lines if line.isprintable() and len(line) >= _TELLING)

    def _digest(self, file: File, here: str | None, said: str | None) -> str | None:
        return file.digest if said is not None and said == here else said and keyed(self.secrets, said.encode())

    def _value(self, name: str) -> str:
        return self.secrets.get(name, b"").decode()

    def _hidden(self, file: File, old: str) -> tuple[str, list[str]]:
        """Return the old text with only the desired text's content in it, and the secrets with other values there."""
        forms = list(_forms(file, self.texts[str(file.text)]))
        known = {form.pieces[0] for form in forms if not form.names}
        lines, same, other = [], set[str](), dict[str, None]()
        for line in old.split("\n"):
            form = None if line in known else next((form for form in forms if form.fits(line)), None)
            if form is None:
                lines.append(line if line in known else NOT_SHOWN)
                continue
            lines.append(form.filled(lambda _: HIDDEN))
            if line == form.filled(self._value):
                same.update(form.names)
            else:
                other.update(dict.fromkeys(form.names))
        return "\n".join(lines), [name for name in other if name not in same]


@dataclass(frozen=True)
class _Form:
    """A line of a wanted text: what is between secrets, and their names."""

    pieces: tuple[str, ...]  # one more than names
    names: tuple[str, ...]

    def fits(self, line: str) -> bool:
        """Whether it may be this line, with other secrets in it."""
        first, last = self.pieces[0], self.pieces[-1]
        if not self.names:
            return False
        return len(line) >= len(first) + len(last) and line.startswith(first) and line.endswith(last)

    def filled(self, value: Callable[[str], str]) -> str:
        """With the value of each name."""
        return "".join([*chain(*zip(self.pieces, map(value, self.names), strict=False)), self.pieces[-1]])


def _forms(file: File, text: str) -> Iterator[_Form]:
    at, fills = 0, list(file.fills)
    for line in text.split("\n"):
        pieces, names, start = [], [], 0
        while fills and fills[0][0] <= at + len(line):
            offset, name = fills.pop(0)
            pieces.append(line[start : offset - at])
            names.append(name)
            start = offset - at
        yield _Form((*pieces, line[start:]), tuple(names))
        at += len(line) + 1


def unfit(uses: Iterable[Use], secrets: Mapping[str, bytes]) -> Iterator[tuple[Use, str]]:
    """Secrets that are not set, or cannot stand where a role puts them, each once; and why."""
    said = set()
    for use in uses:
        value = secrets.get(use.name)
        why = (
            "is not set" if value is None else "is not text in one line" if use.inside and not _one_line(value) else ""
        )
        if why and use.name not in said:
            said.add(use.name)
            yield use, why


def _one_line(value: bytes) -> bool:
    try:
        return value.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
