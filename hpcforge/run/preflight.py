"""Check the run order: an older hpcforge may not apply; a commit that does not descend is warned about. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packaging.version import InvalidVersion, Version

from hpcforge.cluster.model import Cluster
from hpcforge.errors import ExpectedError
from hpcforge.host.commit import Commit
from hpcforge.plan.roster import LastRun, Roster

_AHEAD = 1000  # runs in a receipt that the roster may lack: killed runs, and runs that lost the head
_NO_RUN = 5 * 10**8  # half of the highest number in a receipt: after a leap to it as many numbers remain
_RECEIPT = "/var/lib/hpcforge/receipt.json"


class OlderError(ExpectedError):
    """This hpcforge is older than one that has applied before."""

    hint = "it could undo newer changes: install that version or a newer one"


def refuse_older(ours: str, roster: Roster) -> None:
    """Raise `OlderError` if a newer hpcforge wrote the roster."""
    if roster.run is not None and _version(roster.run.hpcforge) > _version(ours):
        raise OlderError(f"this is hpcforge {ours}, and {_describe(roster.run)} is of hpcforge {roster.run.hpcforge}")
    if roster.newer:
        raise OlderError(f"this is hpcforge {ours}, and the node list on the head was {roster.problem}")


def distrusted(ours: str, number: int | None, receipts: Mapping[str, Mapping[str, Any] | None]) -> dict[str, str]:
    """Return nodes that are skipped because of their receipts, and why; a receipt affects only its own node.

    `number` is the last run's by the roster; None where there is none to compare with.
    """
    reasons = {}
    for node, receipt in receipts.items():
        if receipt is None:
            continue
        version, run = receipt.get("hpcforge"), receipt.get("run") or 0
        if version and _version(version) > _version(ours):
            reasons[node] = (
                f"its record is of hpcforge {version}, and this is {ours}: install that version or a newer one"
            )
        elif run > (_NO_RUN if number is None else number + _AHEAD):
            last = "no cluster reaches this number" if number is None else f"the last one of this cluster is {number}"
            reasons[node] = (
                f"its record tells of run {run}, and {last}: nodes that believed it would refuse every run until "
                f"then; look at that node, and move {_RECEIPT} away there"
            )
    return reasons


def other_releases(cluster: Cluster, facts: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return nodes that have another distribution or release than the blueprint says, and what to do about it."""
    reasons = {}
    for node, node_facts in facts.items():
        os = cluster.os_of(node)
        system = (str(node_facts["os_id"]), str(node_facts["os_release"]))
        if system not in ((os.name, os.release), (os.name, os.suite)):
            reasons[node] = (
                f"it has {' '.join(system)!a:.60}, and the blueprint says {os.name} {os.release}: install that, or "
                f"declare what it has: `overrides: {{{node}: {{release: ..., reason: ...}}}}`"
            )
    return reasons


def commit_warning(ours: Commit | None, last: LastRun | None, descends: bool | None) -> str | None:
    """Return a warning if the blueprint's commit does not follow that of the last apply; else None.

    `descends` is the result of `hpcforge.host.commit.descends` for the last apply's commit.
    """
    if last is None or last.commit is None or (ours is not None and ours.id == last.commit) or descends:
        return None
    before = f"{_describe(last)} was of commit {last.commit[:12]}"
    if ours is None:
        return f"{before}, and this blueprint is not in a git repository: this may undo later changes"
    if descends is None:
        return f"{before}, which this git repository does not have: fetch it, or this may undo its changes"
    return f"{before}, which this blueprint's commit {ours.id[:12]} does not contain: this may undo its changes"


def _describe(run: LastRun) -> str:
    return f"the last apply (run {run.number} by {run.who})"


def _version(text: str) -> Version:
    """Parse a version. An invalid one counts as older than all others, so it never refuses a run."""
    try:
        return Version(text[:64])
    except InvalidVersion:
        return Version("0.dev0")
