"""Foreign text in a page: harmless, and a forgotten name is an error."""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError

from hpcforge.report.html import page_environment


def test_text_is_escaped_and_shows_its_control_characters() -> None:
    made = page_environment({"loud": str.upper}).from_string("{{ said }} {{ 'a' | loud }}").render(said="<b>\x1b[2J")
    assert "<b>" not in made and "\x1b" not in made
    assert made.startswith("&lt;b&gt;") and made.endswith(" A")


def test_an_undefined_name_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        page_environment({}).from_string("{{ nothing }}").render()
