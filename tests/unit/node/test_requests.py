"""What a node is asked is held to its type before anything is done; what does not fit is refused."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpcforge.kinds import KINDS
from hpcforge.node import answer_types, bundle, requests, verbs
from hpcforge.node.events import NodeError
from hpcforge.wire_types import NotRequired
from tests.support.node_program import taken

Json = dict[str, Any]

RUN = {"number": 7, "id": "cafe", "who": "ada@desk", "cluster": "small", "hpcforge": "0.1.0", "commit": None}
CHECK = {"name": "it answers", "command": ["true"], "stdout": None, "wait_s": 1.0}
OWNS = {"packages": [], "files": ["/etc/a"], "units": [], "trees": [], "on_remove": "stop", "leaves": []}
ITEMS: dict[str, Json] = {
    "accounts": {"name": "ann", "uid": 1001, "home": "/home/ann", "shell": "/bin/sh"},
    "groups": {"name": "staff", "gid": 1001},
    "sources": {"name": "a", "uris": ["u"], "suites": ["./"], "signed_by": "/k", "components": [], "architectures": []},
    "pins": {"name": "a", "packages": ["less"], "pin": "version 1.*", "priority": 1},
    "memberships": {"name": "ann:staff"},
    "directories": {"path": "/srv/a", "mode": "0755", "owner": "root", "group": "root"},
    "files": {
        "path": "/etc/a",
        "mode": "0644",
        "owner": "root",
        "group": "root",
        "digest": None,
        "secret": None,
        "early": False,
        "verify": [],
        "fills": [[3, "a secret"]],
        "unfilled": "ab",
        "content_base64": None,
    },
    "links": {"path": "/srv/l", "target": "a"},
    "sysctls": {"name": "vm.swappiness", "value": "1"},
    "kernel_arguments": {"name": "site", "words": "iommu=pt"},
    "holds": {"name": "less"},
    "mounts": {"path": "/srv/m", "what": "tmpfs", "type": "tmpfs", "options": "defaults"},
    "volumes": {"name": "v", "uuid": "u", "mount": "/v", "drives": 2, "drive_mb": 0, "raid": 0, "quota_gib": 0},
    "downloads": {"path": "/opt/a", "url": "http://d/a", "digest": "ab", "size_bytes": None, "mode": "0644"},
    "associations": {"name": "user ada account=vision", "settings": "fairshare=10"},
    "reservations": {
        "name": "course",
        "nodes": "w[01-02]",
        "start": "2030-01-01T08:00:00",
        "minutes": 90,
        "users": "ada",
        "accounts": "",
        "flags": "maint",
    },
    "timers": {"name": "t", "command": ["/bin/true"], "calendar": "daily", "user": "root", "delay_s": 0},
}
RESOURCES = {kind: [ITEMS[kind]] for kind in KINDS}
WORK = {
    "role": "one",
    "needs": ["none"],
    "packages": ["less"],
    "removes": [],
    "units": [{"name": "a.service", "actions": ["enable"], "refresh": [["true"]]}],
    "checks": [CHECK],
    "owns": OWNS,
    "guard": {"id": "g", "revert_s": 30},
    "reboot": False,
    **RESOURCES,
}
WANTED = {
    "role": "one",
    "packages": [],
    "replaces": [],
    "units": [{"name": "a.service"}],
    "checks": [CHECK],
    "opaque": {"digest": "d"},
    "trees": [{"path": "/opt/a"}],
    "leaves": [{"path": "/var/a", "why": "its state"}],
    **RESOURCES,
}
ROSTER = {"schema": 1, "cluster": "small", "run": {**RUN, "ended_s": 1.7e9}, "nodes": {}, "checksum": "c"}
PROCESS = {"where": "here", "pid": 7, "started": 9}
LEASE = {"run_id": "cafe", "who": "ada@desk", "number": 7, "process": PROCESS, "stale_s": 90, "over": None}
SAID: dict[tuple[str, str], Json] = {  # all that a request of each verb may say
    ("observe", ""): {"wanted": [WANTED], "reads": ["/etc/a"], "asks": {"a": ["true"]}, "surplus": True},
    ("converge", "prepare"): {"work": [WORK], "restarts": ["a.service"], "run": RUN, "task": "t"},
    ("converge", "finish"): {"work": [WORK], "run": RUN, "task": "t"},
    ("converge", "remove"): {
        "work": [{"role": "one", **OWNS, "wanted": True}],
        "leave": False,
        "run": RUN,
        "task": "t",
    },
    ("record", ""): {"role": "one", "digest": "d", "reboot": False, "run": RUN, "task": "t"},
    ("confirm", ""): {"guard": "g", "run": RUN, "limit_s": 30.0},
    ("revert", ""): {"guard": "g"},
    ("reboot", ""): {"boot_id": "b", "run": RUN},
    ("attach", ""): {"task": "t", "after": 3},
    ("wait", ""): {"timeout_s": 5.0},
    ("stop", ""): {"task": "t", "timeout_s": 5.0},
    ("lease", "take"): {"do": "take", **LEASE, "cut_off": False},
    ("lease", "drop"): {"do": "drop", **LEASE, "cut_off": True},
    ("lease", "look"): {"do": "look", "stale_s": 90},
    ("log", "write"): {"do": "write", "line": {"any": "thing"}, "roster": ROSTER, "last": 3},
    ("log", "read"): {"do": "read", "last": 3},
    ("log", "verdicts"): {"do": "verdicts", "text": "{}"},
    ("log", "verifications"): {"do": "verifications", "text": "{}"},
    ("logs", ""): {"folder": "/var/log/cluster", "nodes": ["w01"], "since_s": 5.0, "text": "Xid", "last": 3},
}


def whole(row: tuple[str, str]) -> Json:
    verb, step = row
    return {"verb": verb, **({"phase": step} if verb == "converge" else {}), **SAID[row]}


def places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in it."""
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*before, key)
        yield from places(one, (*before, key))


def with_(request: Json, place: tuple[Any, ...], value: Any) -> Json:
    changed = copy.deepcopy(request)
    parent: Any = changed
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    return changed


def misfits(request: Json) -> Iterator[tuple[tuple[Any, ...], Json]]:
    """The request with one value that is of no type of the wire's, or one key too many, wherever there may be none."""
    for place in places(request):
        if place[0] not in ("verb", "phase", "do", "line") and "nodes" not in place:  # which are only kept
            yield place, with_(request, place, {"odd": [float("inf")]})
    yield ("more",), {**request, "more": 1}


def test_every_verb_is_tried() -> None:
    assert set(SAID) == set(verbs.VERBS) == set(requests.TYPES)
    assert set(ITEMS) == set(KINDS)


@pytest.mark.parametrize("row", verbs.VERBS, ids="-".join)
def test_what_fits_is_taken_as_it_is(row: tuple[str, str]) -> None:
    request = whole(row)
    assert verbs.checked(json.loads(json.dumps(request))) == request
    assert verbs.VERBS[row].answer in answer_types.EVENTS


@pytest.mark.parametrize("row", verbs.VERBS, ids="-".join)
def test_one_that_does_not_fit_is_refused(row: tuple[str, str]) -> None:
    tried = 0
    for place, request in misfits(whole(row)):
        with pytest.raises(NodeError, match=r"nothing was done|unknown request"):
            verbs.checked(request)
            pytest.fail(f"{place} went through")
        tried += 1
    assert tried > 1


@pytest.mark.parametrize("row", verbs.VERBS, ids="-".join)
def test_what_has_to_be_said_may_not_be_missing(row: tuple[str, str]) -> None:
    request = whole(row)
    for key in requests.TYPES[row].__required_keys__ & set(SAID[row]) - {"do"}:
        hint = typing.get_type_hints(requests.TYPES[row], include_extras=True)[key]
        if getattr(hint, "__metadata__", ())[-1:] != NotRequired[int].__metadata__:  # type: ignore[attr-defined]
            with pytest.raises(NodeError, match=f"{key}: missing"):
                verbs.checked({name: value for name, value in request.items() if name != key})


def test_what_is_no_request_at_all_is_refused() -> None:
    for odd in (None, 7, "observe", [], {}, {"verb": ["observe"]}, {"verb": "converge", "phase": {}}):
        with pytest.raises(NodeError, match="unknown request"):
            verbs.checked(odd)


@pytest.mark.skipif(os.geteuid() != 0, reason="the node program runs as root")
@pytest.mark.parametrize("row", verbs.VERBS, ids="-".join)
def test_the_program_answers_one_refusal_and_changes_nothing(row: tuple[str, str], tmp_path: Path) -> None:
    file = {**ITEMS["files"], "path": str(tmp_path / "made"), "content_base64": "bmV3Cg=="}
    request = whole(row)
    if row[1] == "prepare":
        request["work"] = [{"role": "one", "files": [file]}]
    end = subprocess.run(
        ["python3", "-IS", "-c", bundle.LOADER],
        input=bundle.payload({**request, "more": "than is known"}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (end.returncode, end.stderr) == (0, "")
    failed, done = taken(end.stdout)
    assert (failed["event"], failed["role"]) == ("failed", None)
    assert failed["error"] == "nothing was done: invalid request: more: unknown"
    assert (done["event"], done["changed"]) == ("done", 0)
    assert not list(tmp_path.iterdir())
    assert not Path("/run/hpcforge/t.jsonl").exists()
