"""The kinds of labs that a blueprint may name; `hpcforge.lab.kinds` has a row for each."""

from __future__ import annotations

from typing import Literal

LabKind = Literal["nspawn", "vm", "vagrant"]
DEFAULT: LabKind = "nspawn"  # for the rehearsal of a real site, whose blueprint names no kind
