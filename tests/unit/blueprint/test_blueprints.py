"""Every file in cases/ is read as a blueprint; what is said about it is compared with NAME.expected as a whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput, render_all
from hpcforge.cluster import load

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_is_said_about_a_blueprint(
    path: Path, golden: Callable[[Path, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    try:
        diagnostics = load(Path(path.name)).diagnostics
        text = f"{render_all(diagnostics)}valid\n"
    except InvalidInput as error:
        text = render_all(error.diagnostics)
    assert all(line.isprintable() for line in text.replace("\t", "").splitlines())
    golden(path.with_suffix(".expected"), text.replace(str(path.parent.resolve()), "/FOLDER"))
