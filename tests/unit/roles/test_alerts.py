"""Alert rules of roles, judged by promtool: each fires in its case, is quiet near its limit, and for other faults.

The cases are in `alerts/ROLE.yaml`; prometheus.yaml there says how they are written.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpcforge import bundled
from hpcforge.plan.roles.role import Role
from tests.support.alert_rules import expected_alert, input_series, judge, rules_by_name, write_tests
from tests.unit.documents.test_documents import problem

_CASES = Path(__file__).parent / "alerts"
_INTERVAL = "30s"
_WRITTEN = re.compile(r"(-?[\d.]+)([+-][\d.]+)?(?:x(\d+))?")  # values as promtool reads them: 1, 0x10, 0+3x20
_SPAN = re.compile(r"(?:\[|offset )(\d+[smhd])\b")
_FILES = [str(path) for path in sorted(bundled.root().glob("roles/*/alerts.yaml"))]
_HELD_S = 240  # the longest interval at which the value before a failed scrape still counts


def _cases() -> dict[str, dict[str, Any]]:
    """All cases. Nothing in them is a number: YAML would read `0x10` as 16."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(_CASES.glob("*.yaml")):
        found |= yaml.load(path.read_text(), yaml.BaseLoader)
    return found


def _tests(
    interval: str, rules: dict[str, dict[str, Any]], cases: dict[str, dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    for name, case in cases.items():
        if case.get("interval", _INTERVAL) == interval:
            for kind in ("fires", "quiet", "gone"):
                if kind in case:
                    yield _test(name, kind, interval, case[kind], rules, case)


def _test(
    name: str, kind: str, interval: str, series: dict[str, str], rules: dict[str, dict[str, Any]], case: dict[str, Any]
) -> dict[str, Any]:
    """Return a test of promtool: of all rules this one alone fires, or none."""
    fires = kind in ("fires", "missed")
    beside = {*case.get("with", ())} if fires else set()
    asked = [
        {
            "eval_time": case["at"],
            "alertname": other,
            "exp_alerts": [expected_alert(name, rules[name], case)] if fires and other == name else [],
        }
        for other in rules
        if other not in beside
    ]
    return {
        "name": f"{name} {kind}", "interval": interval, "input_series": input_series(series), "alert_rule_test": asked,
    }  # fmt: skip


def _seconds(duration: str) -> int:
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[duration[-1]]


def _values(written: str) -> list[str]:
    """Return a series' values, one for each scrape."""
    found: list[str] = []
    for word in written.split():
        if word == "stale":
            found.append(word)
            continue
        match = _WRITTEN.fullmatch(word)
        assert match, word
        found += [f"{float(match[1]) + float(match[2] or 0) * n:g}" for n in range(int(match[3] or 0) + 1)]
    return found


def _missed(case: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the interval and the series of a case whose last scrape before it fires failed: it left `up` alone."""
    interval_s = _seconds(case.get("interval", _INTERVAL))
    step_s, at_s = min(interval_s, _HELD_S), _seconds(case["at"])
    found = {}
    for name, written in case["fires"].items():
        values = _values(written)
        sampled = [values[min(time_s // interval_s, len(values) - 1)] for time_s in range(0, at_s + 1, step_s)]
        if not name.startswith("up{"):
            sampled[-2] = "stale"
        found[name] = " ".join(sampled)
    return f"{step_s}s", found


def test_each_rule_has_a_case_and_each_case_a_rule() -> None:
    rules = rules_by_name()
    assert sorted(_cases()) == sorted(rules)
    assert len(rules) >= 24
    for rule in rules.values():
        assert {"summary", "next"} <= {*rule["annotations"]}
        assert rule["labels"]["severity"] in ("critical", "warning", "info", "none")


# Programs of nodes that `next` may name, and how their arguments begin. hpcforge's own are parsed.
_PROGRAMS = {
    "chronyc": r"-n (?:tracking|sources)$", "dmesg": "", "du": "-x", "ethtool": "-m ", "grep": "", "ibqueryerrors": "$",
    "ibstat": "", "journalctl": "-[tu] ", "lspci": "", "mdadm": "--detail ", "mlxlink": "-d ", "nvidia-smi": "",
    "promtool": r"check (?:config /|metrics < /)", "scontrol": "(?:update NodeName=|show job )", "sinfo": "-R$",
    "sort": "-[hn]$", "systemctl": "(?:status|start|stop|list-timers|reboot)\\b", "tail": "$",
}  # fmt: skip


def _commands(text: str) -> list[str]:
    """Return the commands of a line: they stand between backticks."""
    return re.findall(r"`([^`]+)`", text)


def _unknown(command: str) -> str | None:
    """Return what a command has that does not exist; None if all of it does. scontrol reboot needs a RebootProgram."""
    if command.startswith("hpcforge "):
        return problem(command)
    for part in re.split(r" \| ", command):
        name, _, arguments = part.partition(" ")
        if name not in _PROGRAMS or not re.match(_PROGRAMS[name], arguments):
            return part
    return None


def test_each_rule_says_what_to_do_by_commands_that_exist() -> None:
    for name, rule in rules_by_name().items():
        named = _commands(rule["annotations"]["next"])
        assert named, name
        assert {command: _unknown(command) for command in named if _unknown(command)} == {}, name
        outside = re.sub(r"`[^`]+`", "", rule["annotations"]["next"])
        assert not re.search(r"\b(?:hpcforge|systemctl|journalctl|scontrol|nvidia-smi) ", outside), name
    assert _unknown("hpcforge nodes ad") == "ad"
    assert _unknown("hpcforge verify BLUEPRINT --cables") == "--cables"
    assert _unknown("scontrol reboot ASAP w01") == "scontrol reboot ASAP w01"


def test_the_page_of_alerts_has_each_rule(golden: Callable[[Path, str], None]) -> None:
    rows = [
        f"| `{name}` | {rule['labels']['severity']} | {_shown(rule, 'summary')} | {_shown(rule, 'next')} |"
        for name, rule in sorted(rules_by_name().items())
        if rule["labels"]["severity"] != "none"
    ]
    text = (
        "# Alerts, and what to do\n\nMade by a test from the rules in `roles/*/alerts.yaml`; "
        "[monitoring](monitoring.md#alerts) has how they reach people. Words in capitals stand for labels.\n\n"
        "| alert | severity | meaning | what to do |\n|---|---|---|---|\n"
    )
    golden(bundled.root() / "docs" / "alerts.md", text + "\n".join(rows) + "\n")


def _shown(rule: dict[str, Any], annotation: str) -> str:
    """Return a text of a rule with words in place of labels and values."""
    text = re.sub(r"\{\{ if .*?\{\{ else \}\}(.*?)\{\{ end \}\}", r"\1", rule["annotations"][annotation])
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda label: label[1].upper(), text)
    return re.sub(r"\{\{ \$value.*?\}\}", "N", text).replace("|", "\\|")


def test_each_rule_fires_in_its_case_and_in_no_other(promtool: str, tmp_path: Path) -> None:
    rules, cases = rules_by_name(), _cases()
    for interval in sorted({case.get("interval", _INTERVAL) for case in cases.values()}):
        write_tests(tmp_path / f"{interval}.yaml", interval, [*_tests(interval, rules, cases)], _FILES)
    judge(promtool, tmp_path)


def test_a_failed_scrape_does_not_delay_a_rule(promtool: str, tmp_path: Path) -> None:
    rules, cases = rules_by_name(), _cases()
    missed = {name: _missed(case) for name, case in cases.items() if "for" in rules[name]}
    assert len(missed) > 20
    for interval in {interval for interval, _ in missed.values()}:
        tests = [
            _test(name, "missed", interval, series, rules, cases[name])
            for name, (of, series) in missed.items()
            if of == interval
        ]
        write_tests(tmp_path / f"{interval}.yaml", interval, tests, _FILES)
    judge(promtool, tmp_path)


# What another node can report to silence alerts, with the labels that the server gives its series.
_HOSTILE = {
    **{
        f'{name},node="w09",rack="r1",job="node",exported_node="w01"}}': "1x300"
        for name in (
            'probe_success{exported_job="ping"',
            'slurm_node_maintenance{x=""',
            'hpcforge_run_active{x=""',
            'slurm_node_drained{reason=""',
            'ALERTS{alertname="NodeDown",alertstate="firing",explains="drain"',
        )
    },
    **{
        f'{name},node="w09",rack="r1",job="node",exported_node="w01"}}': "0x300"
        for name in (
            'hpcforge_source_up{collector="slurm",source="sdiag"',
            'hpcforge_collector_success{collector="slurm"',
        )
    },
    'hpcforge_source_up{node="w08",rack="r1",job="node",collector="x",source="squeue"}': "0x300",
    'ipmi_dcmi_power_consumption_watts{node="w09",rack="r1",job="node"}': "-1000000x300",
    'gpu_power_watts{node="w08",rack="r1",job="node"}': "-1000000x300",
    **{f'slurm_node_down{{node="w09",job="node",exported_node="x{n}"}}': "0x300" for n in range(30)},
    **{f'gpu_pcie_replays_total{{node="w09",job="node",gpu="{n}"}}': "0+900x300" for n in range(100, 120)},
}


def test_another_node_cannot_silence_a_rule(promtool: str, tmp_path: Path) -> None:
    rules, cases = rules_by_name(), _cases()
    for interval in sorted({case.get("interval", _INTERVAL) for case in cases.values()}):
        tests = [
            _of_one(name, interval, case["fires"] | _HOSTILE, case, [expected_alert(name, rules[name], case)])
            for name, case in cases.items()
            if case.get("interval", _INTERVAL) == interval
        ]
        write_tests(tmp_path / f"{interval}.yaml", interval, tests, _FILES)
    judge(promtool, tmp_path)


@pytest.mark.parametrize("names", ["slurm config", "slurm squeue", "slurmctld slurmctld"])
def test_a_source_of_slurm_has_an_alert_for_the_controller(promtool: str, tmp_path: Path, names: str) -> None:
    collector, source = names.split()
    name = "MetricSourceDown"
    series = {
        f'hpcforge_source_up{{NODE,job="cluster",collector="{collector}",source="{source}"}}': "0x40",
        'hpcforge_source_up{NODE,job="cluster",collector="slurm",source="sdiag"}': "1x40",
    }
    summary = f"the source {source} of {collector} of w01 does not answer: its metrics are missing"
    case = {"fires": series, "at": "15m", "summary": summary}
    alerts = [expected_alert(name, rules_by_name()[name], case)]
    test = _of_one(name, _INTERVAL, series | _HOSTILE, case, alerts)
    write_tests(tmp_path / f"{name}.yaml", _INTERVAL, [test], _FILES)
    judge(promtool, tmp_path)


def test_a_node_cannot_report_for_the_cluster(promtool: str, tmp_path: Path) -> None:
    of_cluster = {name: case for name, case in _cases().items() if any("cluster" in series for series in case["fires"])}
    assert len(of_cluster) > 10
    for name, case in of_cluster.items():
        series = {series.replace('job="cluster"', 'job="node"'): values for series, values in case["fires"].items()}
        interval = case.get("interval", _INTERVAL)
        write_tests(tmp_path / f"{name}.yaml", interval, [_of_one(name, interval, series, case, [])], _FILES)
    judge(promtool, tmp_path)


def _of_one(
    name: str, interval: str, series: dict[str, str], case: dict[str, Any], alerts: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return a test of promtool that asks for one rule."""
    expected = {"eval_time": case["at"], "alertname": name, "exp_alerts": alerts}
    return {"name": name, "interval": interval, "input_series": input_series(series), "alert_rule_test": [expected]}


# A broken worker that its alerts led to remove: drained and down in Slurm until Slurm and Prometheus forget it, at 5 m.
_REMOVED = {
    'up{NODE,job="ping"}': "1x10 stale",
    'probe_success{NODE,job="ping"}': "0x10 stale",
    'slurm_node_down{NODE,job="cluster"}': "1x10",  # not marked as ended: Prometheus read a changed configuration
    'slurm_node_drained{NODE,job="cluster",reason="fan"}': "1x10",
    'slurm_node_down{node="w02",job="cluster"}': "0x3200",
    'slurm_node_drained{node="w02",job="cluster",reason=""}': "0x3200",
    'node_edac_uncorrectable_errors_total{NODE,controller="0"}': "0 5x9 stale",
    "gpu_remapped_rows_uncorrectable{GPU}": "0 1x9 stale",
}
_REMOVED_S, _LONGEST_S = 330, 24 * 3600  # when it was; what the rule that looks back furthest reads


def test_a_removed_node_is_held_back_as_long_as_rules_look_back(promtool: str, tmp_path: Path) -> None:
    """Rules that read a node's state end with the node. Others do later: Alertmanager holds those back meanwhile."""
    held = {
        "exp_labels": {"node": "w01", "rack": "r1", "rack_u": "4", **rules_by_name()["NodeRemoved"]["labels"]},
        "exp_annotations": {
            "place": "w01, rack r1, unit 4",
            "summary": "w01 is no node of the cluster any more",
            "next": rules_by_name()["NodeRemoved"]["annotations"]["next"],
        },
    }
    ended = ("NodeDown", "SlurmNodeDown", "SlurmNodeDrained", "SlurmNodesOffline", "ExporterDown")
    asked = [
        {"eval_time": f"{at_s}s", "alertname": name, "exp_alerts": []}
        for name in ended
        for at_s in range(_REMOVED_S, _REMOVED_S + 600, 30)
    ]
    asked += [
        {"eval_time": f"{_REMOVED_S + after_s}s", "alertname": "NodeRemoved", "exp_alerts": [held]}
        for after_s in (60, 300, 600, 3600, _LONGEST_S)
    ]
    asked.append({"eval_time": f"{_REMOVED_S + 26 * 3600}s", "alertname": "NodeRemoved", "exp_alerts": []})
    test = {"name": "removed", "interval": "30s", "input_series": input_series(_REMOVED), "alert_rule_test": asked}
    write_tests(tmp_path / "removed.yaml", "30s", [test], _FILES)
    judge(promtool, tmp_path)


def test_many_workers_that_restart_as_planned_are_no_outage(promtool: str, tmp_path: Path) -> None:
    workers = [f"w{number:02}" for number in range(10)]
    series = {f'slurm_node_down{{node="{name}",job="cluster"}}': f"{int(name < 'w05')}x60" for name in workers}
    planned = {f'hpcforge_run_node{{node="{name}",job="cluster"}}': "1x60" for name in workers if name < "w05"}
    outage = {
        "exp_labels": rules_by_name()["SlurmNodesOffline"]["labels"],
        "exp_annotations": {
            "summary": "50% of the workers are down",
            "next": rules_by_name()["SlurmNodesOffline"]["annotations"]["next"],
        },
    }
    tests = [
        _of_one("SlurmNodesOffline", _INTERVAL, given, {"at": "20m"}, alerts)
        for given, alerts in ((series, [outage]), (series | planned, []))
    ]
    write_tests(tmp_path / "planned.yaml", _INTERVAL, tests, _FILES)
    judge(promtool, tmp_path)


def test_no_rule_looks_back_further_than_a_removed_node_is_held_back() -> None:
    longest = max(_seconds(span) for rule in rules_by_name().values() for span in _SPAN.findall(str(rule["expr"])))
    assert longest <= _LONGEST_S


def test_promtool_accepts_each_file(promtool: str, roles: tuple[Role, ...]) -> None:
    files = [
        role.folder / one.source for role in roles for one in role.spec.contributes.get("alert_rules", ()) if one.source
    ]
    assert {path.parent.name for path in files} == {
        path.parent.name for path in bundled.root().glob("roles/*/alerts.yaml")
    }
    done = subprocess.run([promtool, "check", "rules", *files], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
