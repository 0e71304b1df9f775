"""Where roles/, smoke_tests/, page/ and other shipped folders are: beside the package, inside it when installed."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def root() -> Path:
    """The folder that holds roles/, smoke_tests/, blueprints/ and inventory/."""
    inside = _PACKAGE / "shipped"
    return inside if inside.is_dir() else _PACKAGE.parent


def roles() -> Path:
    """The folder of the shipped roles."""
    return root() / "roles"


def vagrant() -> Path:
    """The folder of the Vagrantfile."""
    return root() / "vagrant"


def smoke_tests() -> Path:
    """The folder of the shipped smoke tests."""
    return root() / "smoke_tests"


def page() -> Path:
    """The folder of the page that shows a cluster: HTML, style and scripts."""
    return root() / "page"
