"""Requests to a Redfish service (DMTF DSP0266): the paths of its resources, and the meaning of its refusals.

Paths come from the service root and from links. Everything has a limit: members of a list, tries, and time.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import takewhile
from typing import Self
from urllib.parse import quote, urlsplit

from hpcforge.metal.bmc import BmcError, JsonObject, Login, LostAnswerError, Reason, lazy_property
from hpcforge.metal.bmc.https import HttpAnswer, exchange
from hpcforge.metal.bmc.quirk_table import Do, Quirk, Table, first, quirks

ROOT = "/redfish/v1"
MOST_MEMBERS = 256  # members of a collection; further ones are not read
_AS_THEY_ARE = "%/?#[]@!$&'()*+,;=:~"  # unescaped in a path: reserved characters of RFC 3986, and existing escapes
_PRIVILEGE = re.compile(r"insufficient ?privilege", re.IGNORECASE)  # Redfish DSP8011, and the text of its message
_LICENCE = re.compile(r"licen[cs]", re.IGNORECASE)


class RedfishService:
    """The Redfish service of a controller. Each request raises `BmcError`."""

    def __init__(self, access: Login, table: Table | None = None, limit_s: float = math.inf) -> None:
        self.access = access
        self._limit_s, self._until_s = limit_s, time.monotonic() + limit_s  # limit for all requests together
        self.quirks: dict[str, None] = {}  # in the order of their first use
        self.unread: dict[str, None] = {}  # reasons why parts could not be read
        self.table = table or quirks()
        self._refusal: BmcError | None = None
        self._accepted = False  # True: a request with this login succeeded

    def with_access(self, access: Login) -> Self:
        """Return a service with another login, and the same time for all requests."""
        service = type(self)(access, self.table, self._limit_s)
        service._until_s = self._until_s
        return service

    @lazy_property
    def root(self) -> JsonObject:
        """Return the service root; if the controller has none, the usual path of systems."""
        try:
            return self.read_root()
        except BmcError as error:
            if error.reason != "answer":
                raise
            return {"Systems": {"@odata.id": f"{ROOT}/Systems"}}

    def read_root(self) -> JsonObject:
        """Read the service root without a login: with one, a wrong password would count twice for a lockout.

        Raises `BmcError`.
        """
        bare = self.with_access(replace(self.access, password=""))
        try:
            return bare.get(f"{ROOT}/").data
        except BmcError as error:
            if error.reason != "login" or not self.access.password:
                raise
            return self.get(f"{ROOT}/").data
        finally:
            self.quirks |= {name: None for name in bare.quirks if self.table[name].do != "stop"}

    def get(self, path: str) -> HttpAnswer:
        """Read a resource of this service. Raises `BmcError`."""
        return self.send("GET", path)

    def send(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        etag: Callable[[], str | None] | None = None,
        etag_first: bool = False,
    ) -> HttpAnswer:
        """Send a request and return the answer, a success. Raises `BmcError`.

        `etag` reads the resource's ETag, for services that change nothing without one; `etag_first`: as this one.
        """
        path = self._path(path)
        answer = self._ask(method, path, body, (etag() or "*") if etag and etag_first else None)
        for tag in (etag, lambda: "*") if etag else ():
            if not self._meets("send-etag", statuses=answer.status):
                break
            answer = self._ask(method, path, body, tag() or "*")
        if answer.status >= 300 or (method == "GET" and _is_no_resource(answer)):
            raise self._refused(path, answer)
        self._accepted = bool(self.access.password)
        return answer

    def members(self, path: str) -> Iterator[str]:
        """Yield the paths of a collection's members, of all its pages; none for no path. Raises `BmcError`."""
        count = 0
        while path and count < MOST_MEMBERS:
            data = self.get(path).data
            listed = data.get("Members")
            paths = links(listed)[: MOST_MEMBERS - count]
            if isinstance(listed, list) and not all(link(member) for member in listed if isinstance(member, dict)):
                self.unread[f"{path} has members without a link: not read"] = None
            yield from map(self._path, paths)
            count += max(1, len(paths))
            path = text(data, "Members@odata.nextLink", 500)

    def each(self, paths: Iterable[str]) -> Iterator[JsonObject]:
        """Yield these resources. What cannot be read is left out, and `unread` says why. Raises `BmcError`."""
        for path in self.tried(paths):
            try:
                data = self.get(path).data
            except BmcError as error:
                self._leave_out(error)
            else:
                yield data

    def tried(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield these paths up to one that cannot be read, as `each` does."""
        try:
            yield from paths
        except BmcError as error:
            self._leave_out(error)

    def _leave_out(self, error: BmcError) -> None:
        if error.reason not in ("answer", "licence") and not isinstance(error, LostAnswerError):
            raise error
        self.unread[str(error).removeprefix(f"{self.access.address}: ")] = None

    def _path(self, path: str) -> str:
        """Return a path of this service, as a controller names it: another machine, or other requests, are refused."""
        if not path.startswith(f"{ROOT}/") or not path.isprintable():
            raise self._error("it names a resource outside its own service", "answer")
        return quote(path, safe=_AS_THEY_ARE)

    def _ask(self, method: str, path: str, body: JsonObject | None = None, etag: str | None = None) -> HttpAnswer:
        """Ask, again and again while it says that it is not ready. A refused login is not tried again."""
        began_s = time.monotonic()
        while True:
            if self._refusal is not None:
                raise self._refusal
            if time.monotonic() >= self._until_s:
                raise self._too_slow()
            answer = self._exchange(method, path, body, etag)
            quirk = first(self.table, "retry-after", statuses=answer.status)
            if quirk is None:
                return answer
            if method == "POST" and answer.status not in quirk.not_processed:  # the machine may have made the change
                raise LostAnswerError(f"{self.access.address}: HTTP {answer.status} for {path}", "answer")
            self.note(quirk)
            pause_s = _seconds(answer.retry_after) or quirk.every_s
            if time.monotonic() + pause_s > min(self._until_s, began_s + quirk.wait_s):
                return answer
            time.sleep(pause_s)

    def _exchange(self, method: str, path: str, body: JsonObject | None, etag: str | None) -> HttpAnswer:
        """Send a request; a redirect to the same path, with or without a slash at its end, is followed once."""
        answer = self._once(method, path, body, etag)
        if answer.location and self._meets("follow-redirect", statuses=answer.status):
            answer = self._once(method, self._redirect(path, answer.location), body, etag)
            if self._meets("follow-redirect", statuses=answer.status):
                raise self._error(f"it redirects {path} in a circle", "answer")
        if answer.expired:
            self._meets("accept-expired")
        return answer

    def _once(self, method: str, path: str, body: JsonObject | None, etag: str | None) -> HttpAnswer:
        """Send a request, which ends when the time for all of them does."""
        try:
            return exchange(self.access, method, path, body, etag, self._until_s - time.monotonic())
        except BmcError as error:
            if error.reason == "unreachable" and time.monotonic() >= self._until_s:
                raise self._too_slow() from None
            raise

    def _too_slow(self) -> BmcError:
        return self._error(f"its answers take more than {self._limit_s:g} s", "unreachable")

    def _redirect(self, path: str, location: str) -> str:
        try:
            to = urlsplit(location)
            place = (to.scheme or "https", to.hostname or self.access.address, to.port or (443 if to.netloc else None))
        except ValueError:
            raise self._error(f"it redirects {path} to no address", "answer") from None
        if place not in {("https", self.access.address, port) for port in (self.access.port, None)}:
            raise self._error(f"it redirects {path} to another host ({printable(to.netloc)}): not followed", "answer")
        if to.path.rstrip("/") != path.rstrip("/") or to.query:
            raise self._error(f"it redirects {path} to {printable(to.path)}: not followed", "answer")
        return self._path(to.path)

    def _refused(self, path: str, answer: HttpAnswer) -> BmcError:
        """Return the error of an unsuccessful answer."""
        messages = _messages(answer.data)
        feature = next(part for part in reversed(path.split("/")) if part and not part.isdigit())
        if answer.status != 401 and (
            licence := next((message for message in messages if _LICENCE.search(message)), "")
        ):
            return self._error(f"needs a licence: {feature}: {licence}", "licence")
        reason = next((message for message in messages if "ExtendedInfo" not in message), "")
        if answer.status < 300:
            reason = reason or "no resource"
        if quirk := first(self.table, "stop", statuses=answer.status):
            user = f"user {self.access.user}" if self.access.password else "a request without a login"
            own = f" (HTTP {answer.status})" + (f": {reason}" if reason else "")
            if answer.status == 403 and any(_PRIVILEGE.search(message) for message in messages):
                hint = f"give {user} the role Operator or Administrator in the controller"
                return BmcError(f"{self.access.address}: {user} lacks a privilege for {feature}{own}", "answer", hint)
            self.note(quirk)
            accepted = "accepted this login before, and now refuses" if self._accepted else "refuses"
            hint = "its sessions or its account may have changed: try again later" if self._accepted else ""
            self._refusal = BmcError(f"{self.access.address}: it {accepted} {user}{own}", "login", hint)
            return self._refusal
        if first(self.table, "retry-after", statuses=answer.status) and (seconds := _seconds(answer.retry_after)):
            reason = f"not ready, and not before {seconds:.0f} s" + (f": {reason}" if reason else "")
        message = f"{self.access.address}: HTTP {answer.status} for {path}" + (f": {reason}" if reason else "")
        return BmcError(message, "answer", details=tuple(messages))

    def _error(self, message: str, reason: Reason) -> BmcError:
        return BmcError(f"{self.access.address}: {message}", reason)

    def note(self, quirk: Quirk) -> None:
        """Keep the name of a quirk that was met."""
        self.quirks[quirk.name] = None

    def _meets(self, do: Do, **values: object) -> bool:
        """Return whether a row of the table with this word fits what was seen, and keep its name."""
        quirk = first(self.table, do, **values)
        if quirk:
            self.note(quirk)
        return quirk is not None


def _is_no_resource(answer: HttpAnswer) -> bool:
    """Return whether a success has no content, or an error's, as while a controller starts."""
    return answer.status == 204 or ("@odata.id" not in answer.data and bool(mapping(answer.data, "error")))


def _messages(data: JsonObject) -> Sequence[str]:
    """Return the messages of an error, its reasons first; some makers have the reason in a MessageId alone."""
    error = mapping(data, "error")
    extended = error.get("@Message.ExtendedInfo")
    rows = [row for row in extended if isinstance(row, dict)] if isinstance(extended, list) else []
    messages = [text(row, "Message", 200) for row in rows[:8]]
    messages += [text(error, "message", 200), text(error, "Message", 200)]
    messages += [f"{text(row, 'MessageId', 100)} {text(row, 'Message', 200)}".strip() for row in rows[:8]]
    return [message for message in messages if message]


def _seconds(retry_after: str) -> float | None:
    """Read the header Retry-After, seconds or a date; None for anything else, and for the past."""
    if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 10:
        return float(retry_after) or None
    try:
        until = parsedate_to_datetime(retry_after)
    except (TypeError, ValueError):
        return None
    left_s = (until if until.tzinfo else until.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp()
    return left_s if left_s > 0 else None


def printable(value: str, most: int = 64) -> str:
    """Return text without what could steer a terminal."""
    return "".join(letter for letter in value[:most] if letter.isprintable()).strip()


def text(data: JsonObject, key: str, most: int = 64) -> str:
    """Text that a controller says, without what could steer a terminal; "" where it says none."""
    value = data.get(key)
    return printable(value, most) if isinstance(value, str) else ""


def link(data: JsonObject) -> str:
    """Return the path that a link names; "" for none."""
    return text(data, "@odata.id", 500)


def links(data: object) -> list[str]:
    """Return the paths that a list of links names; a link alone is a list of one."""
    return [
        path
        for member in (data if isinstance(data, list) else [data])
        if isinstance(member, dict)
        if (path := link(member))
    ]


def number(data: JsonObject, key: str) -> float | None:
    """Return a number from 0 to a million million that a controller reports; None for anything else."""
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1e12 else None


def before(until_s: float, resources: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yield these resources up to a time."""
    return takewhile(lambda _: time.monotonic() < until_s, resources)


def mapping(data: JsonObject, key: str) -> JsonObject:
    """Return an object in another; {} for anything else."""
    value = data.get(key)
    return value if isinstance(value, dict) else {}
