"""Each row of second_settings.yaml: what hpcforge writes where it is declared, or what `validate` says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpcforge import bundled
from hpcforge.blueprint.diagnostics import Diagnostic
from hpcforge.blueprint.sections.slurm import Limits, Qos
from hpcforge.blueprint.values import may_set
from hpcforge.cluster.load import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.roles.role import load_roles
from hpcforge.slurm.second_settings import (
    WEIGHTS,
    CheckedSetting,
    WrittenSetting,
    second_settings,
)
from tests.unit.roles import goldens

ROOT = Path(__file__).parents[3]
BASE = """\
schema: 1
name: second
domain: second.example.org
access: {user: ops}
nodes:
  head: {functions: [head], hardware: rehearsal-node, addresses: 10.1.0.1}
  w01: {functions: [worker], hardware: rehearsal-node, addresses: 10.1.0.11, gpus: {model: fake, count: 2}}
networks: {mgmt: {cidr: 10.1.0.0/24}}
services: {dns: {on: head}, time: {on: head}, accounting: {on: head}}
software: {os: {name: debian, release: "12"}}
slurm: {controller: head, partitions: {main: {nodes: all, default: true}}}
users: {ada: {uid: 2001}}
"""
WITHOUT: Mapping[str, object] = {"enforce": []}
TABLE = second_settings()
INSTEAD = tuple({row.instead for row in TABLE.checked if row.instead})


def loaded(
    folder: Path,
    *parts: Mapping[str, object],
    release: str = "12",
    accounting: bool = True,
    role_folders: tuple[str, ...] = (),
    words: tuple[str, ...] = ("has no effect without", *INSTEAD),
) -> tuple[Cluster, list[Diagnostic]]:
    """The blueprint with these keys of `slurm`, and its warnings with these words."""
    blueprint = yaml.load(BASE, Loader=yaml.BaseLoader)  # `on` is text there
    blueprint["software"]["os"]["release"] = release
    blueprint["role_folders"] = list(role_folders)
    if not accounting:
        del blueprint["services"]["accounting"]
    for part in parts:
        for key, value in part.items():
            before = blueprint["slurm"].get(key)
            both = isinstance(before, dict) and isinstance(value, dict)
            blueprint["slurm"][key] = {**before, **value} if both else value
    path = folder / "second.yaml"
    path.write_text(yaml.safe_dump(blueprint), encoding="utf-8")
    done = load(path)
    return done.cluster, [found for found in done.found if any(word in found.message for word in words)]


@pytest.fixture(scope="module")
def lines() -> Callable[[Cluster, str], list[str]]:
    """What a file of /etc/slurm has on the head."""
    roles = load_roles(bundled.root() / "roles")

    def read(cluster: Cluster, name: str) -> list[str]:
        desired = goldens.compiled(cluster, roles)
        found = [file for node in desired.nodes["head"] for file in node.of(File) if file.path == f"/etc/slurm/{name}"]
        return [line for file in found for line in desired.texts[str(file.text)].splitlines()]

    return read


Lines = Callable[[Cluster, str], list[str]]


def have(row: WrittenSetting, written: list[str]) -> bool:
    """Whether a file has the lines of a row, of which lists may have more."""
    values = {line.partition("=")[0]: line.partition("=")[2].split(",") for line in written}
    expected = [line.partition("=") for line in row.lines]
    return all({*value.split(",")} <= {*values.get(key, ())} for key, _, value in expected)


@pytest.mark.parametrize("row", TABLE.written, ids=lambda row: f"{row.declared}-{row.file}")
def test_what_is_declared_brings_its_second_setting(row: WrittenSetting, tmp_path: Path, lines: Lines) -> None:
    cluster, warnings = loaded(tmp_path, row.example)
    assert have(row, lines(cluster, row.file))
    assert not warnings
    without, _ = loaded(tmp_path, {"enforce": ["gpus"]} if row.example == WITHOUT else WITHOUT)
    assert have(row, lines(without, row.file)) is row.always


@pytest.mark.parametrize("row", TABLE.checked, ids=lambda row: f"{row.declared}-{'-'.join(row.needs)}")
def test_what_has_no_effect_is_named_with_what_it_needs(row: CheckedSetting, tmp_path: Path) -> None:
    _, warnings = loaded(tmp_path, row.example, release=row.release, accounting=row.accounting)
    texts = [row.instead] if row.instead else [f" without {need}" for need in row.needs]
    named = [warning for warning in warnings if any(text in warning.message for text in texts)]
    assert named, [warning.message for warning in warnings]
    assert not row.hint or row.hint in {warning.hint for warning in named}
    if not row.accounting:
        assert not loaded(tmp_path, row.example, release=row.release)[1]
    if row.hint or not all(map(may_set, row.needs)):
        return
    settings: Any = row.example.get("settings", {})
    value = {"set": "7", "larger": "4000000"}
    second = {name: value.get(need, need) for name, need in row.needs.items()}
    second |= {"PreemptType": "preempt/qos"} if row.needs.get("PreemptType") == "set" else {}
    second |= {"PreemptMode": "SUSPEND,GANG", "PreemptType": "preempt/qos"} if row.needs.get("PreemptMode") else {}
    second |= {"PreemptMode": "CANCEL"} if "PreemptType" in row.needs else {}
    second |= {"AcctGatherEnergyType": "acct_gather_energy/rapl"} if "AcctGatherEnergyType" in row.needs else {}
    second |= {"JobRequeue": "1"} if "JobRequeue" in row.needs else {}
    second |= {"MCSPlugin": "mcs/user"} if "MCSPlugin" in row.needs else {}
    _, after = loaded(tmp_path, row.example, {"settings": {**settings, **second}}, release=row.release)
    assert not [warning for warning in after if any(f" without {need}" in warning.message for need in row.needs)]


def test_a_site_with_a_weight_has_all_of_its_own(tmp_path: Path, lines: Lines) -> None:
    qos = {"accounts": {"research": {"users": {"ada": {}}}}, "qos": {"high": {"priority": 7}}}
    cluster, [warning] = loaded(tmp_path, qos, {"settings": {"priorityweightage": 5}})
    assert not [line for line in lines(cluster, "slurm.conf") if line.partition("=")[0] in WEIGHTS]
    assert warning.message == "`priority` has no effect without PriorityWeightQOS"
    assert warning.hint == "add `PriorityWeightQOS` to `slurm.settings`, or remove this"
    assert loaded(tmp_path, qos, {"settings": {"priorityweightqos": 5}})[1] == []


GROUP = {"accounts": {"research": {"grp_tres_mins": {"cpu": 9}, "users": {"ada": {"grp_tres_mins": {"gpu": 9}}}}}}


def of_partition(parameter: str) -> dict[str, object]:
    return {"partitions": {"main": {"nodes": "all", "default": True, "settings": {"SelectTypeParameters": parameter}}}}


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((GROUP, {"settings": {"prioritydecayhalflife": "14-0"}}), []),
        ((GROUP, {"settings": {"PriorityDecayHalfLife": 0, "PriorityUsageResetPeriod": "MONTHLY"}}), []),
        ((GROUP, {"settings": {"PriorityUsageResetPeriod": "MONTHLY"}}), ["grp_tres_mins"] * 2),
        ((GROUP, {"settings": {"PriorityType": "priority/basic"}}), ["grp_tres_mins"] * 2),
        ((of_partition("CR_Socket"),), ["SelectTypeParameters"]),
        ((of_partition("CR_Core"), {"enforce": ["cores", "gpus"]}), []),
        ((of_partition("CR_Socket_Memory"),), []),
        (({"settings": {"unkillablesteptimeout": 60}},), ["unkillablesteptimeout"]),
        (({"settings": {"UnkillableStepTimeout": 150}},), []),
    ],
)
def test_what_is_weaker_than_declared_is_named_once(
    parts: tuple[Mapping[str, object], ...], expected: list[str], tmp_path: Path
) -> None:
    assert [warning.message.split("`")[1] for warning in loaded(tmp_path, *parts)[1]] == expected


def test_a_file_that_hpcforge_does_not_write_may_come_from_a_role_of_the_site(tmp_path: Path) -> None:
    parts = {"settings": {"MailDomain": "example.org", "CliFilterPlugins": "lua"}}
    assert len(loaded(tmp_path, parts)[1]) == 2
    (tmp_path / "ours" / "mail").mkdir(parents=True)
    (tmp_path / "ours" / "mail" / "role.yaml").write_text("description: Mail of jobs.\npackages: [bsd-mailx]\n")
    assert loaded(tmp_path, parts, role_folders=("ours",))[1] == []


@pytest.mark.parametrize(("release", "given", "written"), [("12", "150", 1), ("13", "150", 0), ("12", "200", 1)])
def test_slurm_waits_long_enough_for_processes_that_end(
    tmp_path: Path, lines: Lines, release: str, given: str, written: int
) -> None:
    """Slurm 24.11 computes it; the site's own stands alone."""
    own = {"settings": {"UnkillableStepTimeout": given}} if given != "150" else {}
    text = lines(loaded(tmp_path, own, release=release)[0], "slurm.conf")
    assert [line for line in text if line.startswith("Unkillable")] == [f"UnkillableStepTimeout={given}"] * written


def test_a_partition_s_factor_counts_without_accounting(tmp_path: Path) -> None:
    partition = {"nodes": "all", "default": True, "settings": {"PriorityJobFactor": 7}}
    cluster, warnings = loaded(tmp_path, {"partitions": {"main": partition}}, accounting=False)
    assert cluster.slurm.implied == (("PriorityType", "priority/multifactor"), ("PriorityWeightPartition", "100000"))
    assert not warnings
    assert loaded(tmp_path, accounting=False)[0].slurm.implied == ()
    basic = {"settings": {"PriorityType": "priority/basic"}, "partitions": {"main": partition}}
    assert loaded(tmp_path, basic, accounting=False)[0].slurm.implied == ()


def test_what_is_private_is_as_slurmdbd_spells_it(tmp_path: Path) -> None:
    for given, written in {
        "job,user,nodes": "jobs,users",
        "ALL": "accounts,events,jobs,reservations,usage,users",
    }.items():
        assert loaded(tmp_path, {"settings": {"PrivateData": given}})[0].slurm.implied_of_slurmdbd == (
            ("PrivateData", written),
        )
    for given in ("none", "nodes"):
        assert loaded(tmp_path, {"settings": {"PrivateData": given}})[0].slurm.implied_of_slurmdbd == ()


def test_qos_that_no_account_may_use_are_named(tmp_path: Path) -> None:
    qos = {"qos": {"high": {"max_jobs_per_user": 7}}}
    message = "QOS are enforced, so Slurm refuses jobs of users without an account, and `accounts` has none"
    assert loaded(tmp_path, qos, words=(message,))[1]
    assert not loaded(tmp_path, qos, {"accounts": {"research": {"users": {"ada": {}}}}}, words=(message,))[1]


def test_the_page_has_each_row(golden: Callable[[Path, str], None]) -> None:
    golden(ROOT / "docs" / "slurm-settings.md", "\n".join(page()) + "\n")


def test_no_limit_of_a_qos_decays() -> None:
    """GrpTRESMins and GrpWall would: with one of them, the flag NoDecay of sacctmgr(1) has to be written."""
    assert not {"grp_tres_mins", "grp_wall"} & {*Qos.model_fields}
    assert "grp_tres_mins" in Limits.model_fields


def test_each_effect_is_seen_by_a_test() -> None:
    for row in (*TABLE.written, *TABLE.unneeded):
        if row.shown:
            path, _, name = row.shown.partition("::")
            assert f"\ndef {name}(" in (ROOT / path).read_text(encoding="utf-8"), row.shown


def page() -> Iterator[str]:
    """Yield docs/slurm-settings.md by lines."""
    yield "# Settings of Slurm that need a second one"
    yield ""
    yield "Generated by a test from `hpcforge/slurm/second_settings.yaml`, which was read from the manual pages of"
    yield "Slurm 22.05 and 24.11."
    yield ""
    yield "## Written by hpcforge"
    yield ""
    yield "| declared | hpcforge writes | why | source | effect seen by |"
    yield "|---|---|---|---|---|"
    for row in TABLE.written:
        lines = ", ".join(f"`{line}`" for line in row.lines)
        shown = f"`{row.shown}`" if row.shown else ""
        yield f"| `{row.declared}` | {lines} in {row.file} | {row.purpose} | {row.source} | {shown} |"
    yield ""
    yield "## Checked by `hpcforge validate`"
    yield ""
    yield "It warns where the second one is missing. hpcforge has no key for those that name a program or a file, and"
    yield "none for `AutoDetect`."
    yield ""
    yield "| declared | needs | without it | source |"
    yield "|---|---|---|---|"
    for check in TABLE.checked:
        values = " or ".join(check.values or check.words)
        declared = f"`{check.declared}{f': {values}' if values else ''}`"
        needs = ", ".join(
            f"`{name}`{'' if need in ('set', 'file') else f': {need}'}" for name, need in check.needs.items()
        )
        yield f"| {declared} | {needs} | {check.instead or 'no effect'} | {check.source} |"
    yield ""
    yield "## Not written"
    yield ""
    yield "| declared | setting | why not | source | effect seen by |"
    yield "|---|---|---|---|---|"
    for unneeded in TABLE.unneeded:
        shown = f"`{unneeded.shown}`" if unneeded.shown else ""
        yield f"| {unneeded.declared} | {unneeded.setting} | {unneeded.reason} | {unneeded.source} | {shown} |"
