"""Dashboards of roles: Grafana's own types know all that they say, and Prometheus what they ask for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from hpcforge import bundled
from hpcforge.plan.roles.role import Role

_NAME = re.compile(r"\b((?:node|gpu|slurm|hpcforge|ipmi)_[a-z_]+)\b(?!=)")
_LABELS = re.compile(r"\b(?:by|without|on|group_left) \([^)]*\)|\{[^}]*\}")
_OF_NODE_EXPORTER = tuple(f"node_{kind}_" for kind in ("cpu", "memory", "network", "infiniband", "filesystem", "hwmon"))


@pytest.fixture(scope="module")
def dashboards(roles: tuple[Role, ...]) -> dict[str, Path]:
    """The files of all dashboards, by name."""
    found = {
        str(one.fields["name"]): role.folder / str(one.source)
        for role in roles
        for one in role.spec.contributes.get("dashboards", ())
    }
    assert len(found) >= 4
    return found


def _queries(dashboard: Any) -> Iterator[str]:
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def _lost(written: Any, known: Any, path: str = "") -> Iterator[str]:
    """Yield the places of a JSON value that its types do not have, or have otherwise."""
    if isinstance(written, dict) and isinstance(known, dict):
        for key, value in written.items():
            yield from _lost(value, known.get(key), f"{path}.{key}")
    elif isinstance(written, list) and isinstance(known, list) and len(written) == len(known):
        for place, value in enumerate(written):
            yield from _lost(value, known[place], f"{path}[{place}]")
    elif written != known:
        yield path


def test_grafanas_types_know_all_of_each_dashboard(dashboards: dict[str, Path]) -> None:
    for name, path in dashboards.items():
        written = json.loads(path.read_text())
        known = json.loads(json.dumps(Dashboard.from_json(written), cls=JSONEncoder))
        assert [*_lost(written, known)] == [], name
        assert written["uid"] == f"hpcforge-{name}"
        ids = [panel["id"] for panel in written["panels"]]
        assert len(ids) == len({*ids})
        places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in written["panels"]}
        assert len(places) == len(ids)


def test_a_misspelt_key_is_found() -> None:
    written = {"title": "x", "panels": [{"type": "timeseries", "titel": "y"}]}
    known = json.loads(json.dumps(Dashboard.from_json(written), cls=JSONEncoder))
    assert [*_lost(written, known)] == [".panels[0].titel"]


def test_prometheus_understands_each_query(dashboards: dict[str, Path], tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    assert promtool, "promtool is not installed: make host-test"
    queries = [query for path in dashboards.values() for query in _queries(json.loads(path.read_text()))]
    plain = [query.replace("$node", ".*").replace("$__rate_interval", "5m") for query in queries]
    rules = [{"record": f"asked:{place}", "expr": query} for place, query in enumerate(plain)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": rules}]}))
    done = subprocess.run(
        [promtool, "check", "rules", tmp_path / "rules.yaml"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_metric_is_one_that_nodes_have(dashboards: dict[str, Path]) -> None:
    printed = "".join(path.read_text() for path in bundled.root().glob("roles/*/*.py"))
    for path in dashboards.values():
        queries = _queries(json.loads(path.read_text()))
        names = {name for query in queries for name in _NAME.findall(_LABELS.sub("", query))}
        assert names
        assert [name for name in names if not name.startswith(_OF_NODE_EXPORTER) and name not in printed] == [], path
