"""Collections of Ansible that roles use: each pinned by its version and by the digest of its archive."""

from __future__ import annotations

from hpcforge.catalog.ansible import ansible_wheel
from hpcforge.plan.desired import Artifact, Collection
from hpcforge.plan.role_spec import CollectionSpec


def collection(spec: CollectionSpec) -> Collection:
    """Return a collection with its archive; by default that is the wheel that the catalog pins."""
    if spec.source is None or spec.sha256 is None:
        pinned = ansible_wheel()
        archive = Artifact(f"collections/{pinned.wheel}", "pip", pinned.sha256, pinned.size_bytes)
    else:
        file = f"{spec.name.replace('.', '-')}-{spec.version}.tar.gz"
        archive = Artifact(f"collections/{file}", spec.source, spec.sha256)
    return Collection(spec.name, spec.version, archive)
