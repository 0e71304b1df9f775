"""What partitions and nodes have of a site's settings: names, values, and the lines of slurm.conf."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.cluster.load import load
from hpcforge.cluster.machines import groups, machine
from hpcforge.cluster.model import Cluster
from hpcforge.cluster.select import select

TEXT = """\
schema: 1
name: lake
domain: lake.example.org
access: {user: ops}
nodes:
  head: {functions: [head], hardware: node-a, addresses: 10.1.0.1}
  thin[1-2]:
    {functions: [worker], hardware: node-a, addresses: "10.1.0.[11-12]", features: [ib_hdr, "CPU_GEN:RME"]}
  fat1: {functions: [worker], hardware: node-a, addresses: 10.1.0.21, weight: 50}
hardware: {node-a: {sockets: 2, cores_per_socket: 8, threads_per_core: 2, memory_gib: 64}}
networks: {mgmt: {cidr: 10.1.0.0/24}}
services: {dns: {on: head}, time: {on: head}}
software: {os: {name: debian, release: "12"}}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  partitions:
    Week.long: {nodes: "thin[1-2],fat1", default: true}
    Express:
      nodes: thin
      settings:
        PriorityTier: 20
users: {tests: {uid: 2001}}
"""

SITE = """\
schema: 1
name: shore
domain: shore.example.org
access: {user: ops}
nodes:
  ctl:         {functions: [head],   hardware: box, addresses: 10.92.0.10}
  front1:      {functions: [login],  hardware: box, addresses: 10.92.0.20}
  cn[001-003]: {functions: [worker], hardware: box, addresses: "10.92.0.[31-33]"}
hardware: {box: {memory_gib: 128, sockets: 2, cores_per_socket: 12, threads_per_core: 2}}
networks: {cluster: {cidr: 10.92.0.0/24}}
services: {dns: {on: ctl}, time: {on: ctl}, accounting: {on: ctl}, directory: {external: [ldap.example.org]}}
software: {os: {name: debian, release: "12"}}
users: {tests: {uid: 2002}}
slurm:
  controller: ctl
  settings: {PreemptType: preempt/partition_prio, PreemptMode: REQUEUE}
  partitions:
    MONTH: {nodes: "cn[001-003]", default: true, max_time: "31-00:00:00"}
    short.q:
      nodes: cn003
      max_time: "1-00:00:00"
      settings: {PriorityTier: 30, PreemptMode: "OFF", AllowAccounts: geo, OverSubscribe: FORCE}
  accounts: {geo: {users: {r.mora: {}, tests: {}}}}
acceptance: {run_as: tests, tests: {allreduce: {nodes: [short.q, MONTH]}}}
"""


def lake(tmp_path: Path, text: str = TEXT) -> Cluster:
    path = tmp_path / "lake.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path).cluster


def test_partitions_and_nodes_have_a_sites_settings(tmp_path: Path) -> None:
    cluster = lake(tmp_path)
    assert [(each.name, each.settings) for each in cluster.slurm.partitions] == [
        ("Week.long", ()),
        ("Express", (("PriorityTier", "20"),)),
    ]
    assert [(node.features, node.weight) for node in cluster.workers[1:]] == [
        (("ib_hdr", "CPU_GEN:RME"), None),
        ((), 50),
    ]
    assert machine(cluster.by_name["fat1"])["weight"] == 50


def test_a_sites_partitions_are_taken_with_their_preemption_and_accounts(tmp_path: Path) -> None:
    cluster = lake(tmp_path, SITE)
    month, short = cluster.slurm.partitions
    assert (month.name, month.max_time, month.settings) == ("MONTH", "31-00:00:00", ())
    assert short.settings == (
        ("PriorityTier", "30"), ("PreemptMode", "OFF"), ("AllowAccounts", "geo"), ("OverSubscribe", "FORCE"),
    )  # fmt: skip
    assert cluster.acceptance
    assert [test.nodes for test in cluster.acceptance.tests] == [short.nodes, month.nodes]


def test_names_with_capitals_and_points_are_node_sets_and_groups(tmp_path: Path) -> None:
    cluster = lake(tmp_path)
    assert select(cluster, ["Week.long!thin1"], ["Express,head"]) == ("fat1",)
    assert groups(cluster)["partition_Week_long"] == ("thin1", "thin2", "fat1")


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        (
            "PriorityTeir: 20",
            "Slurm 22.05 of debian 12 has no parameter of a partition `PriorityTeir`",
            "did you mean `PriorityTier`?",
        ),
        (
            "PowerDownOnIdle: YES",
            "Slurm 22.05 of debian 12 has no parameter of a partition `PowerDownOnIdle`",
            None,
        ),
        (
            "PriorityTier: high",
            "Slurm 22.05 of debian 12 does not take `high` for `PriorityTier`",
            "use a whole number to 65535, or UNLIMITED",
        ),
        (
            "PreemptMode: requeu",
            "Slurm 22.05 of debian 12 does not take `requeu` for `PreemptMode`",
            "use OFF, CANCEL, REQUEUE or SUSPEND",
        ),
        ("maxtime: 1-00:00:00", "`maxtime` cannot be set here", "use `max_time` of the partition"),
        ("Nodes: thin1", "`Nodes` cannot be set here", "use `nodes` of the partition"),
        ("Default: YES", "`Default` cannot be set here", "use `default` of the partition"),
        ("QOS: high", "`QOS` cannot be set here", "use `qos` of the partition"),
        ("TRESBillingWeights: CPU=1", "`TRESBillingWeights` cannot be set here", "use `billing` of the partition"),
        ("Topology: tree", "`Topology` cannot be set here", "use `topology` of the partition"),
        ("State: DOWN", "`State` cannot be set here", "hpcforge sets it"),
        ("GraceTime: 5\n        gracetime: 6", "`gracetime` repeats `GraceTime`: Slurm ignores case in names", None),
        ("AllowGroups: a b", "`a b` is not a value for slurm.conf", None),
    ],
)
def test_a_setting_that_slurm_would_not_take_is_an_error_at_its_line(
    tmp_path: Path, line: str, message: str, hint: str | None
) -> None:
    with pytest.raises(InvalidInput) as caught:
        lake(tmp_path, TEXT.replace("PriorityTier: 20", line))
    [error] = [found for found in caught.value.diagnostics if found.severity == "error"]
    assert error.message.startswith(message)
    assert error.line == TEXT[: TEXT.index("PriorityTier")].count("\n") + 1 + line.count("\n")
    assert hint is None or error.hint == hint


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Express:", "Default:", "`Default` is a reserved name"),
        ("Express:", "Ex/press:", "`Ex/press` is not a name of a partition"),
        ("ib_hdr", "ib&hdr", "`ib&hdr` is not a feature of a node"),
        ("weight: 50", "weight: -1", "`-1` is below 0"),
        ("weight: 50", "weight: 4294967294", "must be at most 4294967293"),
    ],
)
def test_names_features_and_weights_that_slurm_cannot_have(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        lake(tmp_path, TEXT.replace(old, new))
    [error] = [found for found in caught.value.diagnostics if found.severity == "error"]
    assert message in error.message


def test_what_the_release_has_is_what_counts(tmp_path: Path) -> None:
    text = TEXT.replace("PriorityTier: 20", "PowerDownOnIdle: YES").replace('release: "12"', 'release: "13"')
    assert lake(tmp_path, text).slurm.partitions[1].settings == (("PowerDownOnIdle", "YES"),)
    older = text.replace("users:", 'overrides: {thin1: {release: "12", reason: its turn comes}}\nusers:')
    with pytest.raises(InvalidInput, match=r"Slurm 22\.05 of debian 12"):
        lake(tmp_path, older)


@pytest.mark.parametrize(
    ("setting", "message", "hint"),
    [
        ("AllowAccounts: fysics", "`fysics` is not an account of this blueprint", "did you mean `physics`?"),
        ("DenyAccounts: PHYSICS,none", "`none` is not an account of this blueprint", None),
        ("AllowQos: normal,hihg", "`hihg` is not a QOS of this blueprint", "did you mean `high`?"),
        ("AllowAccounts: Physics", None, None),
        ("AllowAccounts: ALL", None, None),
        ("DenyQos: high", None, None),
    ],
)
def test_accounts_and_qos_of_a_partition_are_those_of_the_blueprint(
    tmp_path: Path, setting: str, message: str | None, hint: str | None
) -> None:
    text = TEXT.replace("PriorityTier: 20", setting).replace(
        "time: {on: head}", "time: {on: head}, accounting: {on: head}"
    )
    text = text.replace(
        "users: {tests", "  accounts: {physics: {users: {tests: {}}}}\n  qos: {high: {}}\nusers: {tests"
    )
    if message is None:
        assert lake(tmp_path, text).slurm.partitions[1].settings == (tuple(setting.split(": ")),)
        return
    with pytest.raises(InvalidInput) as caught:
        lake(tmp_path, text)
    [error] = [found for found in caught.value.diagnostics if found.severity == "error"]
    assert (error.message, error.line) == (message, TEXT[: TEXT.index("PriorityTier")].count("\n") + 1)
    assert hint is None or error.hint == hint


ACCOUNTED = TEXT.replace("time: {on: head}", "time: {on: head}, accounting: {on: head}").replace(
    "users: {tests", "  accounts: {physics: {users: {tests: {}}}}\nusers: {tests"
)


def diagnosed(tmp_path: Path, text: str) -> list[tuple[str, str]]:
    """Severity and message of all that is wrong or doubtful."""
    path = tmp_path / "lake.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        found = list(load(path).diagnostics)
    except InvalidInput as caught:
        found = caught.diagnostics
    return [(each.severity, each.message) for each in found]


@pytest.mark.parametrize(
    ("setting", "severity", "message"),
    [
        ("AllowQos: nosuch", "error", "`nosuch` is not a QOS of this blueprint"),
        ("denyqos: normal,nosuch", "error", "`nosuch` is not a QOS of this blueprint"),
        ("Alternate: week.long", "error", "`week.long` is not a partition of this blueprint"),
        ("AllocNodes: login9,thin1", "warning", "login9: not among the nodes of this blueprint"),
        ("AllowGroups: tests,wheel", "warning", "`wheel` is not a group of this blueprint"),
    ],
)
def test_a_partition_names_what_there_is(tmp_path: Path, setting: str, severity: str, message: str) -> None:
    [(how, text)] = diagnosed(tmp_path, ACCOUNTED.replace("PriorityTier: 20", setting))
    assert (how, message in text) == (severity, True)


@pytest.mark.parametrize(
    "setting", ["AllowQos: normal", "Alternate: Week.long", "AllocNodes: head", "AllowGroups: ALL"]
)
def test_a_partition_may_name_what_there_is(tmp_path: Path, setting: str) -> None:
    assert diagnosed(tmp_path, ACCOUNTED.replace("PriorityTier: 20", setting)) == []


@pytest.mark.parametrize("setting", ["AllowAccounts: physics", "DenyAccounts: root", "AllowQos: normal", "DenyQos: x"])
def test_accounts_and_qos_of_a_partition_need_accounting(tmp_path: Path, setting: str) -> None:
    name = setting.partition(":")[0]
    assert diagnosed(tmp_path, TEXT.replace("PriorityTier: 20", setting)) == [
        ("error", f"`{name}` needs a cluster with accounting")
    ]


@pytest.mark.parametrize(
    "broken", ['AllowGroups: "a b"', "12: 3", "~: 1", "Bad-Key: 1"], ids=["value", "number", "null", "key"]
)
def test_the_rest_is_checked_where_a_setting_is_broken(tmp_path: Path, broken: str) -> None:
    rest = f"{broken}\n        AllowAccounts: nosuch\n        AllowQos: nosuch\n        PriorityTeir: 10"
    errors = [text for _, text in diagnosed(tmp_path, ACCOUNTED.replace("PriorityTier: 20", rest))]
    for message in ("`nosuch` is not an account", "`nosuch` is not a QOS", "`PriorityTeir`"):
        assert any(message in text for text in errors), (message, errors)


def test_the_rest_is_checked_where_a_partition_or_an_account_is_broken(tmp_path: Path) -> None:
    text = ACCOUNTED.replace("nodes: thin\n", 'nodes: thin\n      qos: nosuch\n      max_time: "25:61:00"\n')
    text = text.replace("{tests: {}}}}", "{tests: {}}}, chem: {parent: nobody, shares: x}}")
    text = text.replace("PriorityTier: 20", "AllowAccounts: chem,none")
    errors = [text for _, text in diagnosed(tmp_path, text)]
    for message in (
        "`nosuch` is not a QOS",
        "`25:61:00` is not a time",
        "`nobody` is not an account",
        "`none` is not an a",
    ):
        assert any(message in text for text in errors), (message, errors)
    assert not any("`chem`" in text for text in errors)


def test_what_only_workers_have_is_not_dropped_without_a_word(tmp_path: Path) -> None:
    text = TEXT.replace("functions: [head], ", "functions: [head], features: [zz], weight: 0, ")
    assert diagnosed(tmp_path, text) == [
        ("warning", f"`{key}` has no effect: only workers are nodes of Slurm") for key in ("features", "weight")
    ]


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ("weight: 50", "weight: -1", "a number from 0 to 4294967293"),
        ("uid: 2001", "uid: -5", "a number from 1000 to 59999"),
        ("cores: 0", "cores: -2", "a number from 0 to 64"),
    ],
)
def test_a_number_below_zero_is_answered_with_what_may_be_there(tmp_path: Path, old: str, new: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        lake(tmp_path, TEXT.replace(old, new))
    [error] = [found for found in caught.value.diagnostics if found.severity == "error"]
    assert (error.message, error.hint) == (f"`{new.partition(': ')[2]}` is below 0", hint)
