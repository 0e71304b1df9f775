"""Alert rules of roles, and promtool to judge them on written series."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from hpcforge import bundled
from tests.support.said import end_of

_SHORT = {
    "NODE": 'node="w01",rack="r1",rack_u="4"',
    "GPU": 'node="w01",rack="r1",rack_u="4",gpu="3"',
    "IB": 'node="w01",rack="r1",rack_u="4",device="mlx5_0",port="1"',
    "FS": 'node="w01",rack="r1",rack_u="4",mountpoint="/home"',
}
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_SUMMED = {"NvlinkErrors": {"kind"}}  # labels that a rule sums over


def rules_by_name() -> dict[str, dict[str, Any]]:
    """All alerts of all roles, by name."""
    rules: dict[str, dict[str, Any]] = {}
    for path in sorted(bundled.root().glob("roles/*/alerts.yaml")):
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                assert rule["alert"] not in rules, rule["alert"]
                rules[rule["alert"]] = rule
    return rules


def input_series(written: dict[str, str]) -> list[dict[str, str]]:
    return [{"series": long_name(name), "values": values} for name, values in written.items()]


def long_name(name: str) -> str:
    return re.sub(r"\b(NODE|GPU|IB|FS)\b", lambda match: _SHORT[match[0]], name)


def expected_alert(name: str, rule: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """The alert of a case: labels are those of its first series, and annotations speak of them."""
    labels = case.get("labels", dict(_LABEL.findall(long_name(next(iter(case["fires"]))))))
    labels = {key: text for key, text in labels.items() if key not in _SUMMED.get(name, ())}
    following = re.sub(
        r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels.get(match[1], ""), rule["annotations"]["next"]
    )
    place = {"place": "w01, rack r1, unit 4"} if "place" in rule["annotations"] else {}
    annotations = {"summary": case["summary"], "next": following, **place}
    return {"exp_labels": {**labels, **rule["labels"]}, "exp_annotations": annotations}


def write_tests(path: Path, interval: str, tests: list[dict[str, Any]], files: list[str]) -> None:
    document = {"rule_files": files, "evaluation_interval": interval, "tests": tests}
    path.write_text(yaml.safe_dump(document, sort_keys=False))


def judge(promtool: str, folder: Path) -> None:
    written = sorted(folder.iterdir())
    process = subprocess.run(
        [promtool, "test", "rules", *written], capture_output=True, text=True, check=False, timeout=300
    )
    assert process.returncode == 0, end_of(process.stdout + process.stderr)
