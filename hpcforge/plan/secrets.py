"""The secrets that roles declare: their forms, and the roles that may put them into files. Values never come here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hpcforge.kinds.files import File
from hpcforge.plan.desired import Desired

Alphabet = Literal["letters-and-digits", "hex"]
LETTERS: Mapping[Alphabet, str] = {
    "letters-and-digits": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
    "hex": "0123456789abcdef",
}
_LEAST_BITS = 128  # random bits of a generated secret: neither guesses nor its digest reveal it
_LARGEST = 64 * 1024  # characters or bytes

# Names derived from hpcforge's host authority, by the word before a colon. Roles put them into files, readable for all,
PUBLIC = ("ssh_known_hosts", "ssh_host_certificate", "tls_authority", "tls_certificate")
DERIVED = (*PUBLIC, "tls_key")  # except this one
PLAN_KEY = "plan_key"
# Secrets that stay on the operator host, and the derived ones; no role can declare these names.
OURS = (PLAN_KEY, "bmc_password", "bmc_passwords", "ssh_host_ca", "revoked_host_keys", *DERIVED)

SecretName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]


class SecretSpec(BaseModel):
    """A secret of a role: a number of random bytes, a random text of a `length`, or a value from the site."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    description: str = Field(description="What it is for.")
    on_rotation: str = Field(
        "the next apply brings it into the files that hold it", description="What happens after a rotation."
    )
    bytes: int | None = Field(None, le=_LARGEST, description="Number of random bytes, for a whole file.")
    length: int | None = Field(None, le=_LARGEST, description="Number of characters of a random text.")
    alphabet: Alphabet = Field("letters-and-digits", description="Characters of a generated text.")
    provided: bool = Field(False, description="The site provides it: `hpcforge secrets set`.")
    binary: bool = Field(False, description="The provided value is a whole file, including a final line break.")
    min_bytes: int = Field(1, gt=0, le=_LARGEST, description="Lowest number of bytes of the provided value.")

    @property
    def is_text(self) -> bool:
        """Whether a text may contain it."""
        return self.bytes is None and not self.binary

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if [self.bytes is not None, self.length is not None, self.provided].count(True) != 1:
            raise ValueError("give exactly one of bytes, length and provided: true")
        if not self.provided and {"binary", "min_bytes"} & self.model_fields_set:
            raise ValueError("binary and min_bytes are of what the site provides")
        if "alphabet" in self.model_fields_set and self.length is None:
            raise ValueError("an alphabet is for a secret with a length")
        bits = 8.0 if self.length is None else math.log2(len(LETTERS[self.alphabet]))
        least = math.ceil(_LEAST_BITS / bits)
        size = self.length if self.bytes is None else self.bytes
        if size is not None and size < least:
            raise ValueError(f"{size} is too short for a secret: at least {least}")
        return self


@dataclass(frozen=True)
class Secret:
    """A secret that a role declares."""

    name: str
    role: str
    spec: SecretSpec


def usable(role: str, needs: Iterable[str], secrets: Mapping[str, Secret]) -> dict[str, Secret]:
    """Return, by name, the secrets that a role may put into files: its own, and those of roles that it needs."""
    sources = {role, *(need.partition("@")[0] for need in needs)}
    return {name: secret for name, secret in secrets.items() if secret.role in sources}


def is_public(name: str) -> bool:
    """Return whether it is kept with secrets, but is public: derived from the host authority's public key."""
    return name.partition(":")[0] in PUBLIC


def is_derived(name: str) -> bool:
    """Return whether it is derived from the host authority; no role declares it."""
    return name.partition(":")[0] in DERIVED


def check_usable(name: str, secrets: Mapping[str, Secret]) -> None:
    """Raise ValueError for a name that is not among a role's usable `secrets`."""
    if name not in secrets and not is_derived(name):
        hint = f"it may use: {', '.join(secrets)}" if secrets else "they declare none"
        raise ValueError(f"neither this role nor a role that it needs declares the secret {name!r}; {hint}")


def check_text(name: str, secrets: Mapping[str, Secret]) -> None:
    """Raise ValueError for a secret that must not be part of a text."""
    check_usable(name, secrets)
    if is_derived(name) or not secrets[name].spec.is_text:
        raise ValueError(f"secret {name!r} is no text of one line: it can only be all of a file (`secret: {name}`)")


def check_mode(file: File) -> None:
    """Raise ValueError for a file that holds secrets and is readable by all users."""
    if int(file.mode, 8) & 0o007 and not all(map(is_public, file.holds)):
        raise ValueError(f"it holds {', '.join(file.holds)}, and mode {file.mode} is for everybody: 0600 or 0640, say")


@dataclass(frozen=True)
class Use:
    """A secret in a file of a role, on at least one node. `inside`: it is a part of a text."""

    name: str
    role: str
    path: str
    inside: bool


def uses(desired: Desired) -> tuple[Use, ...]:
    """Return the uses of secrets in files, each once, in the order of roles."""
    unique: dict[tuple[str, str, str, bool], None] = {}
    for role in desired.distinct:
        for file in role.of(File):
            unique.update(((name, role.role, file.path, not file.secret), None) for name in file.holds)
    places = {role: place for place, role in enumerate(desired.roles)}
    return tuple(sorted((Use(*fields) for fields in unique), key=lambda use: places[use.role]))
