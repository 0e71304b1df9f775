"""A plan as a file for review. An apply uses it later unchanged, or refuses it.

Two lines of JSON: a header, and the plan. The header's HMAC, under a key among the cluster's secrets, covers both. So
hpcforge refuses an edited or incomplete plan, or one of another cluster, before it parses the content.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from copy import copy
from dataclasses import fields, make_dataclass
from functools import cache
from typing import Any, get_type_hints

from hpcforge import __version__
from hpcforge.adapters import adapter
from hpcforge.errors import ExpectedError
from hpcforge.plan.plan import FIELDS, Changes, ClusterState, Plan, Policy

_FORMAT = 1
_HEADER_LIMIT = 4096  # bytes
_PARTS = {"changes": Changes, "state": ClusterState, "policy": Policy}


@cache
def _file_type() -> Any:
    """Return a dataclass with the fields of the plan's parts, in the order of `FIELDS`."""
    entries: dict[str, tuple[str, Any, Any]] = {}
    for part in (Plan, *_PARTS.values()):
        hints = get_type_hints(part)
        entries |= {entry.name: (entry.name, hints[entry.name], copy(entry)) for entry in fields(part)}
    return make_dataclass("PlanFile", [entries[name] for name in FIELDS])


class PlanFileError(ExpectedError):
    """A file that must not be applied."""

    kind = "invalid"
    hint = "make the plan again: hpcforge plan BLUEPRINT -o FILE"


def dump_plan(plan: Plan, key: bytes) -> bytes:
    """Return the file's content: the whole plan, with old and new texts of files, without secrets."""
    body = adapter(_file_type()).dump_json(_file_type()(**plan.flat))
    header = {
        "hpcforge_plan": _FORMAT,
        "cluster": plan.cluster,
        "hpcforge": __version__,
        "shape": _shape(),
        "bytes": len(body),
    }
    return json.dumps({**header, "hmac": _seal(header, body, key)}).encode() + b"\n" + body + b"\n"


def load_plan(data: bytes, key: bytes) -> Plan:
    """Load a plan dumped under the same key by an hpcforge with the same plan types. Raise `PlanFileError`."""
    first, newline, rest = data.partition(b"\n")
    header = _header(first) if newline else None
    if header is None:
        raise PlanFileError("this is not a plan of hpcforge, or its first line was edited or cut off")
    if header.get("hpcforge_plan") != _FORMAT or header.get("shape") != _shape():
        made_by = str(header.get("hpcforge"))[:40]
        raise PlanFileError(f"another version of hpcforge ({made_by!r}) made this plan; this is {__version__!r}")
    size = header.get("bytes")
    if isinstance(size, int) and len(rest) < size:
        raise PlanFileError(f"this plan is incomplete: it has {len(rest)} of {size} bytes")
    body, seal = rest.removesuffix(b"\n"), header.pop("hmac", None)
    if not isinstance(seal, str) or not hmac.compare_digest(seal.encode(), _seal(header, body, key).encode()):
        raise PlanFileError("this plan was edited, or belongs to another cluster")
    flat = adapter(_file_type()).validate_json(body)
    parts = {
        name: part(**{entry.name: getattr(flat, entry.name) for entry in fields(part)}) for name, part in _PARTS.items()
    }
    return Plan(flat.cluster, flat.nodes, **parts)


def _header(line: bytes) -> dict[str, Any] | None:
    try:
        header = json.loads(line) if len(line) <= _HEADER_LIMIT else None
    except (ValueError, RecursionError):
        return None
    return header if isinstance(header, dict) and "hpcforge_plan" in header else None


def _seal(header: dict[str, Any], body: bytes, key: bytes) -> str:
    return hmac.new(key, json.dumps(header, sort_keys=True).encode() + b"\n" + body, hashlib.sha256).hexdigest()


@cache
def _shape() -> str:
    """Return a digest of the plan's types. It changes with every new, removed or retyped field."""
    return hashlib.sha256(json.dumps(_bare(adapter(_file_type()).json_schema()), sort_keys=True).encode()).hexdigest()[
        :16
    ]


def _bare(schema: Any) -> Any:
    """Return a schema without its prose."""
    if isinstance(schema, dict):
        return {key: _bare(value) for key, value in schema.items() if key not in ("title", "description")}
    return [_bare(value) for value in schema] if isinstance(schema, list) else schema
