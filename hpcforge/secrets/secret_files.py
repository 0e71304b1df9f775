"""Files that hold secrets: filled on the way to the node, and hidden again in the node's answer.

A node compares files by the SHA-256 of their content, so it gets the digest of the filled text. Its answer about such a
file is changed on arrival, before it becomes part of a plan. Digests become HMACs under a key that never leaves this
host: a short secret of the site could be guessed from its digest. Of the old text only lines that the desired text has,
too, stay.
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

NOT_SHOWN = "(not shown)"  # a line of the old text that the desired text lacks: it may contain a secret
_FOR_NOW = os.urandom(32)  # replaces a missing plan key: digests are then valid for this run only
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
    """The content of files: texts by their SHA-256, and the values of secrets in them."""

    texts: Mapping[str, str]
    secrets: Mapping[str, bytes] = field(repr=False)

    def content(self, file: File) -> bytes | None:
        """Return the full content of a file; None if one of its secrets is missing."""
        if any(name not in self.secrets for name in file.holds):
            return None
        if file.secret is not None:
            return self.secrets[file.secret]
        text = self.texts[str(file.text)]
        return file.filled(text, self._value).encode()

    def sent(self, file: File) -> dict[str, Any]:
        """Return the content in the form for a node instead of the digest that plans have."""
        content = self.content(file) if file.holds else None
        return {} if content is None else {"digest": _sha256(content)}

    def put(self, file: File, observed: ActualState) -> dict[str, Any]:
        """Return the request to write a file; without content if the node has it already."""
        content = None if file.same_content(observed) else self.content(file)
        return {
            **self.sent(file),
            "content_base64": None if content is None else base64.b64encode(content).decode(),
        }

    def heard(self, file: File | None, observed: ActualState) -> ActualState:
        """Return a node's report on a file without secrets; None for a file that was not requested."""
        if file is None or not file.holds:
            return self._without_values(observed)
        digest = self.sent(file).get("digest")
        digests = {key: self._digest(file, digest, observed[key]) for key in ("digest", "written") if key in observed}
        old = observed.get("text")
        if file.secret is not None or old is None:
            return {**observed, **digests, "text": None}
        text, changed = self._hidden(file, old)
        return {**observed, **digests, "text": text, "secrets": changed}

    def _without_values(self, observed: ActualState) -> ActualState:
        """Hide lines with a secret's value in a file that should hold no secret."""
        old = observed.get("text")
        if not old or not any(value in old for value in self._texts):
            return observed
        lines = [NOT_SHOWN if any(value in line for value in self._texts) else line for line in old.split("\n")]
        return {**observed, "text": "\n".join(lines)}

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        """The secrets to search for in lines; shorter ones occur in many lines by chance."""
        lines = (value.decode("utf-8", "replace") for name, value in self.secrets.items() if not is_public(name))
        return tuple(line for line in lines if line.isprintable() and len(line) >= _TELLING)

    def _digest(self, file: File, desired: str | None, observed: str | None) -> str | None:
        return (
            file.digest
            if observed is not None and observed == desired
            else observed and keyed(self.secrets, observed.encode())
        )

    def _value(self, name: str) -> str:
        return self.secrets.get(name, b"").decode()

    def _hidden(self, file: File, old: str) -> tuple[str, list[str]]:
        """Return the old text with only the desired text's content in it, and the secrets with other values there."""
        forms = list(_forms(file, self.texts[str(file.text)]))
        plain_lines = {form.pieces[0] for form in forms if not form.names}
        lines, same, different = [], set[str](), dict[str, None]()
        for line in old.split("\n"):
            form = None if line in plain_lines else next((form for form in forms if form.fits(line)), None)
            if form is None:
                lines.append(line if line in plain_lines else NOT_SHOWN)
                continue
            lines.append(form.filled(lambda _: HIDDEN))
            if line == form.filled(self._value):
                same.update(form.names)
            else:
                different.update(dict.fromkeys(form.names))
        return "\n".join(lines), [name for name in different if name not in same]


@dataclass(frozen=True)
class _Form:
    """A line of a desired text: the pieces between secrets, and the names of the secrets."""

    pieces: tuple[str, ...]  # one more than names
    names: tuple[str, ...]

    def fits(self, line: str) -> bool:
        """Return whether `line` may be this line with other secrets."""
        first, last = self.pieces[0], self.pieces[-1]
        if not self.names:
            return False
        return len(line) >= len(first) + len(last) and line.startswith(first) and line.endswith(last)

    def filled(self, value: Callable[[str], str]) -> str:
        """Return the line with the value of each name."""
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
    """Yield, once each, the secrets that are not set or do not fit where a role uses them, with the reason."""
    reported = set()
    for use in uses:
        value = secrets.get(use.name)
        reason = (
            "is not set" if value is None else "is not text in one line" if use.inside and not _one_line(value) else ""
        )
        if reason and use.name not in reported:
            reported.add(use.name)
            yield use, reason


def _one_line(value: bytes) -> bool:
    try:
        return value.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
