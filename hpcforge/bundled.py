"""The shipped folders roles/, smoke_tests/, page/ and others: beside the package, inside it when installed."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def root() -> Path:
    """Return the folder that holds roles/, smoke_tests/, blueprints/ and inventory/."""
    inside = _PACKAGE / "shipped"
    return inside if inside.is_dir() else _PACKAGE.parent


def roles() -> Path:
    return root() / "roles"


def vagrant() -> Path:
    return root() / "vagrant"


def smoke_tests() -> Path:
    return root() / "smoke_tests"


def page() -> Path:
    """Return the folder of the page that shows a cluster: HTML, style and scripts."""
    return root() / "page"
