"""Shipped blueprints, for tests that write them elsewhere."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]


def anywhere(path: Path) -> str:
    """A blueprint's text, with its machines where they are: it means the same in any folder."""
    return path.read_text(encoding="utf-8").replace("inventory: ../inventory/", f"inventory: {ROOT}/inventory/")
