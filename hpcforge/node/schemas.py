"""The forms of requests and the defaults of their resources, as plain data made from the types.

Only the data travels under this name, see `bundle`: types would cost a node more time than all its other work.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from hpcforge.kinds import KINDS, sent
from hpcforge.node.requests import TYPES
from hpcforge.schemas import Form
from hpcforge.typed_json import form


def _defaults(kind: str) -> dict[str, Any]:
    defaults = {
        field.name: field.default
        for field in dataclasses.fields(sent(kind))
        if field.default is not dataclasses.MISSING
    }
    return {name: list(value) if isinstance(value, tuple) else value for name, value in defaults.items()}


FORMS: Mapping[str, Form] = {
    " ".join(row).strip(): form(request_type) for row, request_type in TYPES.items()
}  # by verb and step
DEFAULTS: Mapping[str, Mapping[str, Any]] = {kind: _defaults(kind) for kind in KINDS}  # by kind and field
