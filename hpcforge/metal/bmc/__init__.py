"""Power and first boot of machines, by their management controllers (BMCs): Redfish, or IPMI by ipmitool.

A controller's answer alone is not trusted: a verb ends when the machine is observed in the requested state. Faults of
controllers are data, in quirks.yaml, and the habits of makes in makes.yaml. The package may import
`hpcforge.blueprint`, the pure modules of `hpcforge.metal` and shared modules. It knows neither nodes nor jobs:
`hpcforge.metal.power` does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

from hpcforge.errors import ExpectedError

_Owner = TypeVar("_Owner")
_Value = TypeVar("_Value")
JsonObject = Mapping[str, object]
# service: no Redfish at this address; override: the next boot cannot be chosen
Reason = Literal["unreachable", "service", "login", "licence", "certificate", "answer", "effect", "override"]
Power = Literal["on", "off", "changing", "unknown"]
Device = Literal["network", "disk", "none"]  # none: the order of the firmware's settings
Reset = Literal["on", "off", "hard-off"]


class lazy_property(Generic[_Owner, _Value]):  # noqa: N801 - used as a decorator, as `property` is
    """A property that is computed once for each object.

    Until Python 3.12 `functools.cached_property` has one lock for all objects of a class: of forty controllers one was
    asked at a time, and all waited for a slow one.
    """

    def __init__(self, compute: Callable[[_Owner], _Value]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __get__(self, owner: _Owner, _: type[_Owner] | None = None) -> _Value:
        value = self._compute(owner)
        vars(owner)[self._compute.__name__] = value  # Python reads it before it calls this again
        return value


class BmcError(ExpectedError):
    """A management controller did not do what was requested; `reason` is the kind of error."""

    def __init__(self, message: str, reason: Reason, hint: str = "", details: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint)
        self.reason: Reason = reason
        self.details = details  # each message of the answer
        self.power: Power = "unknown"  # the machine's last known state


class LostAnswerError(BmcError):
    """A request was sent, and its answer is missing or unreadable: a change may have been carried out."""


@dataclass(frozen=True)
class Login:
    """Address and login of a controller."""

    address: str
    user: str
    password: str = field(repr=False)  # "": no password is sent
    port: int = 443
    certificate: str | None = None  # SHA-256 of its TLS certificate, in hexadecimal
    verified: bool = True  # False: every certificate is accepted
    cipher_suite: int = 17  # cipher suite of IPMI


@dataclass(frozen=True)
class Boot:
    """The device for a machine's next boot, and whether only for that."""

    device: Device
    once: bool


class Controller(Protocol):
    """One machine's controller. Each call raises `BmcError`."""

    @property
    def quirks(self) -> Collection[str]:
        """Return its observed faults, by the names of quirks.yaml."""

    def power(self) -> Power:
        """Read the power state."""

    def reset(self, kind: Reset) -> None:
        """Ask for a change of power; that it happened is for the caller to see."""

    def check_reset(self, kind: Reset) -> None:
        """Raise where it lists its changes of power, and none of this kind."""

    def boot(self) -> Boot:
        """Read the override of the next boot."""

    def set_boot(self, device: Device) -> None:
        """Ask for an override of the next boot."""
