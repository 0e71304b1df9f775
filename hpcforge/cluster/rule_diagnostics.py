"""What facility rules say, with its place in the blueprint. Pure."""

from __future__ import annotations

from hpcforge.blueprint.diagnostics import Diagnostic
from hpcforge.blueprint.reader import mark_of
from hpcforge.blueprint.validate import Draft
from hpcforge.design.facility.design import Remark
from hpcforge.design.facility.rules import Breach


def remark(draft: Draft, breach: Breach) -> Remark:
    """Return the entry of a design."""
    mark = mark_of(draft.document.root, breach.loc, key=breach.key) if breach.loc else None
    return Remark(
        code=breach.code,
        severity=breach.judged,
        message=breach.message,
        arithmetic=breach.arithmetic,
        hint=breach.hint,
        file=((mark and mark.source) or draft.document.source).name,
        line=mark.line if mark else None,
        column=mark.column if mark else None,
    )


def diagnostic(draft: Draft, breach: Breach) -> Diagnostic:
    """Return the entry of `validate`: the code in front, the arithmetic in the message."""
    mark = mark_of(draft.document.root, breach.loc, key=breach.key) if breach.loc else None
    message = f"{breach.code}: {breach.message}" + (f": {breach.arithmetic}" if breach.arithmetic else "")
    return Diagnostic(breach.judged, message, draft.document.source, mark, breach.hint)
