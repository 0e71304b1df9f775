"""May this apply follow the last? An older hpcforge may not; a commit that does not descend is warned about. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.version import InvalidVersion, Version

from hpcforge.errors import ExpectedError
from hpcforge.plan.roster import LastRun, Roster
from hpcforge.run.commit import Commit


class OlderError(ExpectedError):
    """This hpcforge is older than one that has applied before."""

    hint = "it could undo what it does not know: install that version or a newer one"


def refuse_older(ours: str, roster: Roster, nodes: Mapping[str, str | None]) -> None:
    """Raise `OlderError` if a newer hpcforge wrote the roster or, by node, a receipt."""
    seen = {f"the receipt of {node}": version for node, version in nodes.items() if version}
    if roster.run is not None:
        seen[_called(roster.run)] = roster.run.hpcforge
    newest = max(seen, key=lambda where: _version(seen[where]), default=None)
    if newest is not None and _version(seen[newest]) > _version(ours):
        raise OlderError(f"this is hpcforge {ours}, and {newest} is of hpcforge {seen[newest]}")
    if roster.newer:
        raise OlderError(f"this is hpcforge {ours}, and the roster on the head was {roster.problem}")


def commit_warning(ours: Commit | None, last: LastRun | None, descends: bool | None) -> str | None:
    """What to say if the blueprint's commit does not follow that of the last apply; None if there is nothing to say.

    `descends` is what `hpcforge.run.commit.descends` says of the last apply's commit.
    """
    if last is None or last.commit is None or (ours is not None and ours.id == last.commit) or descends:
        return None
    before = f"{_called(last)} was of commit {last.commit[:12]}"
    if ours is None:
        return f"{before}, and this blueprint is in no git repository: what was changed there since may be undone"
    if descends is None:
        return f"{before}, which git does not know here: fetch it, or what it brought may be undone"
    return f"{before}, which this blueprint's commit {ours.id[:12]} does not contain: what it brought may be undone"


def _called(run: LastRun) -> str:
    return f"the last apply (run {run.number} by {run.who})"


def _version(text: str) -> Version:
    """What is no version is older than everything: it cannot refuse anybody."""
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0.dev0")
