"""The secrets of a site: their file, its key, and the required secrets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hpcforge.cluster import Loaded
from hpcforge.plan.desired import Desired
from hpcforge.plan.roles.role import Role, declared_secrets
from hpcforge.plan.secrets import uses
from hpcforge.run.site import Site, compile_site, site_roles, wanted_kinds
from hpcforge.secrets.host_certificates import AUTHORITY, REVOKED, authority_fingerprint
from hpcforge.secrets.secret_files import keyed
from hpcforge.secrets.secrets import OF_SITE, SecretKinds, kinds_of, read_secrets


@dataclass(frozen=True)
class SiteSecrets:
    """The secrets of a blueprint."""

    loaded: Loaded
    key: Path
    roles: tuple[Role, ...]

    @property
    def file(self) -> Path:
        """The file that has them."""
        return self.loaded.secrets_path

    @property
    def kinds(self) -> SecretKinds:
        """All that roles declare, also those that no node has, and what the site may provide for hpcforge itself."""
        return {**kinds_of(declared_secrets(self.roles)), **OF_SITE}

    @cached_property
    def desired(self) -> Desired:
        """The desired state of nodes."""
        return compile_site(self.roles, {}, self.loaded.cluster)

    @property
    def wanted(self) -> SecretKinds:
        """The secrets that nodes of this blueprint have, or hpcforge itself."""
        return wanted_kinds(self.roles, self.desired)

    def read(self) -> dict[str, bytes]:
        """Return their values by name."""
        return read_secrets(self.file, self.key)

    def wanted_by(self) -> dict[str, list[str]]:
        """Return the roles that put a secret into a file of some node, by the secret's name."""
        roles_of: dict[str, dict[str, None]] = {}
        for use in uses(self.desired):
            roles_of.setdefault(use.name, {})[use.role] = None
        return {name: list(roles) for name, roles in roles_of.items()}


def secrets_of(site: Site) -> SiteSecrets:
    """Return the secrets of a site."""
    return SiteSecrets(site.loaded, site.identity, site_roles(site))


def fingerprint(kinds: SecretKinds, secrets: Mapping[str, bytes], name: str, value: bytes) -> str:
    """Return a text that differs for two values and reveals neither: hpcforge's own have 128 random bits and more."""
    if name == AUTHORITY:
        return authority_fingerprint(value)
    if name in kinds and kinds[name].make:
        return "sha256:" + hashlib.sha256(value).hexdigest()[:16]
    return "hmac:" + keyed(secrets, value)[:16]  # a site's own may be short enough to be found by its digest


def origin(kinds: SecretKinds, name: str) -> str:
    """Return who makes a secret."""
    if name not in kinds:
        return "hpcforge" if name == REVOKED else "unused"
    return "hpcforge" if kinds[name].make else "the site"


def purpose(kinds: SecretKinds, name: str) -> str:
    """Return the purpose of a secret."""
    if name == REVOKED:
        return "host keys of removed or replaced machines, which ssh on nodes refuses"
    return kinds[name].purpose if name in kinds else "no role of this blueprint declares it"
