"""An image that was never built, for tests of what is written down of one."""

from __future__ import annotations

import hashlib
from pathlib import Path

from hpcforge.image import store
from hpcforge.image.manifest import Lock, MadeFor, Manifest, Package, to_text
from hpcforge.image.request import ImageRequest

_CONTENT = b"0123456789"
REQUEST = ImageRequest("debian", "12", ("munge",), ("munge.service",))
LOCK = Lock(
    REQUEST,
    "recipe",
    ("deb http://deb.debian.org/debian bookworm main",),
    1_700_000_000,
    (Package("munge", "0.5.15-2", "amd64", "0" * 64, 1 << 20, 4096),),
    (),
)
MANIFEST = Manifest(
    "a-0123",
    LOCK,
    (MadeFor("/site.yaml", "0" * 64),),
    hashlib.sha256(_CONTENT).hexdigest(),
    len(_CONTENT),
    1_700_000_100.0,
    "0.2.0",
)


def put(manifest: Manifest = MANIFEST) -> Path:
    """Lay an image where images are; its folder."""
    place = store.directory(manifest.name)
    place.mkdir(parents=True)
    (place / store.ARCHIVE).write_bytes(_CONTENT)
    (place / store.MANIFEST).write_text(to_text(manifest))
    return place
