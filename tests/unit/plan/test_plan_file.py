"""A plan as a file: it comes back equal, and whatever was done to it is refused."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.kinds.resource import Resource
from hpcforge.plan import plan_file
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.diff import diff
from hpcforge.plan.observation import Observation
from hpcforge.plan.plan import FIELDS, Plan
from hpcforge.plan.plan_file import PlanFileError, dump_plan, load_plan
from hpcforge.plan.resources import TYPES
from hpcforge.plan.roles.role import load_roles

KEY = bytes(range(32))
FACTS = {"memory_kib": 1 << 20, "cpus": 2, "gpus": {"fake": 2, "nvidia": 0}}
OLD_TEXT = 'what was there: ünïcode, "quotes", \\ and\ttabs\n'


@pytest.fixture
def plan(cluster: Cluster, roles_folder: Path) -> Plan:
    """A plan with some of everything: new and changed files, units, opaque work, shortfalls, an unreachable node."""
    desired = compile_desired(cluster, load_roles(roles_folder), {"munge_key": "ab" * 32})
    changed = {"path": "/etc/server.conf", "exists": True, "digest": "00", "mode": "0600", "owner": "root"}
    return diff(
        cluster,
        desired,
        {
            "head": Observation("head", FACTS, {"server": {"files": [{**changed, "group": "adm", "text": OLD_TEXT}]}}),
            "w1": Observation("w1", FACTS, python=False),
            "w2": Observation("w2", unreachable="no route to w2"),
        },
    )


def test_it_comes_back_equal(plan: Plan) -> None:
    assert plan.changes.steps
    assert plan.state.shortfalls
    assert plan.changes.texts
    assert plan.state.unreachable
    back = load_plan(dump_plan(plan, KEY), KEY)
    assert back.flat == plan.flat
    assert [list(step.changes) for step in back.changes.steps] == [list(step.changes) for step in plan.changes.steps]
    assert type(back.changes.steps[0]) is type(plan.changes.steps[0])
    assert OLD_TEXT in {
        found.get("text") for step in back.changes.steps for c in step.changes.values() for _, found in c.of(File)
    }


def sample(kind: Any, resource: type[Resource] = File) -> Any:
    """A value of a type with something in every field, whatever fields there are; where it may, with this resource."""
    if kind is Resource:
        kind = resource
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{field.name: sample(hints[field.name], resource) for field in dataclasses.fields(kind)})
    if origin is tuple:
        return tuple(sample(each, resource) for each in args if each is not ...)
    if origin is Mapping:
        return {"key": sample(args[1], resource)}
    if origin is typing.Literal:
        return args[-1]
    if args and type(None) in args:
        return sample(next(each for each in args if each is not type(None)), resource)
    return {str: "ä\n", int: 7, float: 0.1, bool: True, typing.Any: {"list": [1, None, "x"]}}[kind]


@pytest.mark.parametrize("resource", TYPES.values())
def test_every_field_there_is_comes_back(resource: type[Resource]) -> None:
    plan = sample(Plan, resource)
    assert plan.changes.steps[0].changes["key"].of(resource)
    assert load_plan(dump_plan(plan, KEY), KEY) == plan


def header(data: bytes, **changes: Any) -> bytes:
    first, _, rest = data.partition(b"\n")
    return json.dumps({**json.loads(first), **changes}).encode() + b"\n" + rest


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (flipped, "edited"),
        (lambda data: data.replace(b"no route to w2", b"no route to w3"), "edited"),
        (lambda data: data + b'{"more": 1}\n', "edited"),
        (lambda data: header(data, cluster="another"), "edited"),
        (lambda data: header(data, hmac="00" * 32), "edited"),
        (lambda data: header(data, hmac=None), "edited"),
        (lambda data: header(data, hmac="ü"), "edited"),
        (lambda data: header(data, bytes="many"), "edited"),
        (lambda data: data[: len(data) // 2], "incomplete: it has "),
        (lambda data: data[:-200], "incomplete: it has "),
        (lambda data: data[:60], "not a plan of hpcforge"),
        (lambda data: b"", "not a plan of hpcforge"),
        (lambda data: b"name: a blueprint\nschema: 1\n", "not a plan of hpcforge"),
        (lambda data: b"[]\n{}\n", "not a plan of hpcforge"),
        (lambda data: b"[" * 4000 + b"\n", "not a plan of hpcforge"),
        (lambda data: b"\xff\xfe\n", "not a plan of hpcforge"),
        (lambda data: header(data, hpcforge_plan=2, hpcforge="9.9"), r"another version of hpcforge \('9.9'\)"),
        (lambda data: header(data, shape="0", hpcforge="0.0.1"), r"another version of hpcforge \('0.0.1'\)"),
    ],
)
def test_what_was_done_to_it_is_refused(plan: Plan, harm: Callable[[bytes], bytes], said: str) -> None:
    with pytest.raises(PlanFileError, match=said) as error:
        load_plan(harm(dump_plan(plan, KEY)), KEY)
    assert "plan again" in error.value.hint


def test_under_another_key_it_is_refused(plan: Plan) -> None:
    with pytest.raises(PlanFileError, match="another cluster"):
        load_plan(dump_plan(plan, KEY), b"another key" * 3)


def test_a_line_end_that_an_editor_adds_or_takes_is_no_edit(plan: Plan) -> None:
    data = dump_plan(plan, KEY)
    assert load_plan(data.removesuffix(b"\n"), KEY).flat == plan.flat


def test_a_field_more_is_another_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    before = plan_file._shape()

    @dataclasses.dataclass(frozen=True)
    class Wider(Plan):
        more: str = ""

    monkeypatch.setattr(plan_file, "_file_type", lambda: Wider)
    plan_file._shape.cache_clear()
    after = plan_file._shape()
    plan_file._shape.cache_clear()
    assert before != after


def test_the_file_has_every_field_of_the_plan_once() -> None:
    parts = {entry.name: entry.type for entry in dataclasses.fields(Plan)}
    own = [name for name in parts if name not in plan_file._PARTS]
    names = [*own, *(entry.name for part in plan_file._PARTS.values() for entry in dataclasses.fields(part))]
    assert sorted(names) == sorted(FIELDS)
