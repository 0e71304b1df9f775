"""Which kinds of labs there are: what a blueprint may ask for, and what `hpcforge.lab.kinds` has a row of."""

from __future__ import annotations

from typing import Literal

LabKind = Literal["nspawn", "vm", "vagrant"]
DEFAULT: LabKind = "nspawn"  # of a real site's rehearsal: its blueprint names none
