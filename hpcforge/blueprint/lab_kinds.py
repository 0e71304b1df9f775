"""The kinds of labs that a blueprint may name; `hpcforge.lab.kinds` has a row for each."""

from __future__ import annotations

from typing import Literal

LabKind = Literal["nspawn", "vm", "vagrant"]
DEFAULT: LabKind = "nspawn"  # of a real site's rehearsal: its blueprint names none
