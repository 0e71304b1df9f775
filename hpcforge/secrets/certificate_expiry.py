"""The validity of hpcforge's certificates on nodes, and the units that read them.

The dates are those of the certificate on the node, not of the sent one: this detects a replaced file and an old disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hpcforge.kinds.files import File
from hpcforge.plan.desired import DesiredRole
from hpcforge.secrets import host_certificates

State = Literal["valid", "due", "expired", "not yet valid", "unreadable"]
Span = tuple[float, float]


@dataclass(frozen=True)
class Certificate:
    """A certificate on a node. Times are seconds since 1970; None if it cannot be read."""

    path: str
    role: str
    units: tuple[str, ...]  # the units that read it
    state: State  # `due`: an apply renews it
    begins_s: float | None
    ends_s: float | None


def certificate_paths(roles: Sequence[DesiredRole]) -> list[str]:
    """Return the paths of the certificates of a node with these roles."""
    return [file.path for _, file, _ in _files(roles)]


def certificates(
    roles: Sequence[DesiredRole], texts: Mapping[str, str | None], now_s: float
) -> tuple[Certificate, ...]:
    """Return the certificates of a node with these roles. `texts`: the file at each path, None if it is absent."""
    return tuple(
        _judged(role, file, text, span_of, now_s)
        for role, file, span_of in _files(roles)
        if (text := texts.get(file.path)) is not None
    )


def _files(roles: Sequence[DesiredRole]) -> Iterator[tuple[DesiredRole, File, Callable[[bytes], Span]]]:
    for role in roles:
        for file in role.of(File):
            span_of = _SPANS.get((file.secret or "").partition(":")[0])
            if span_of is not None:
                yield role, file, span_of


def _judged(role: DesiredRole, file: File, text: str, span_of: Callable[[bytes], Span], now_s: float) -> Certificate:
    readers = [unit.name for unit in role.units if file.path in unit.watches]
    readers += [restart.unit for restart in role.restarts if file.path in restart.watches]
    begins_s: float | None = None
    ends_s: float | None = None
    state: State = "unreadable"
    try:
        begins_s, ends_s = span_of(text.encode())
    except ValueError:
        pass  # its state stays `unreadable`
    else:
        state = _state(begins_s, ends_s, now_s)
    return Certificate(file.path, role.role, tuple(readers), state, begins_s, ends_s)


def _state(begins_s: float, ends_s: float, now_s: float) -> State:
    if now_s >= ends_s:
        return "expired"
    if now_s < begins_s:
        return "not yet valid"
    return "due" if ends_s - now_s <= host_certificates.STEP_S else "valid"


def _tls(text: bytes) -> Span:
    from hpcforge.secrets.tls_certificates import span  # noqa: PLC0415 - 0.2 s that few clusters need

    return span(text)


_SPANS: Mapping[str, Callable[[bytes], Span]] = {
    "ssh_host_certificate": host_certificates.span,
    "tls_certificate": _tls,
}
