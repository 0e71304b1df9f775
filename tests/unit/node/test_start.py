"""The first code on a node."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

from hpcforge.node import bundle, start


def test_a_python_that_is_too_old_says_so(capsys, monkeypatch):
    scope: dict[str, Any] = {"__name__": "hpcforge.node.start"}
    exec(bundle.sources()["hpcforge.node.start"], scope)
    monkeypatch.setitem(scope, "OLDEST", (4, 0))
    scope["start"]({"modules": {}, "request": {}})
    failed, done = map(json.loads, capsys.readouterr().out.splitlines())
    assert "and 4.0 is needed" in failed["error"]
    assert done["event"] == "done"


def test_modules_that_were_sent_are_found_with_the_packages_around_them() -> None:
    finder = start.BundleFinder({"sent_package.inner.module": "VALUE = 7"})
    sys.meta_path.insert(0, finder)
    try:
        assert importlib.import_module("sent_package.inner.module").VALUE == 7
        assert finder.find_spec("sent_package.other") is None
        assert [finder.find_spec(name) is None for name in ("sent_package", "sent_package.inner", "json")] == [
            False, False, True,
        ]  # fmt: skip
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith("sent_package")]:
            del sys.modules[name]
