"""What the parts of a `site` section say about each other: racks, feeds, rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.sections.site import SiteSection
from hpcforge.blueprint.validate import Draft, Finding

Findings = Iterator[Finding]


def site_findings(draft: Draft) -> Findings:
    """Yield what a site says wrongly of its own parts."""
    site: SiteSection | None = draft.sections["site"]
    if site is None:
        return
    feeds = draft.keys("site", "feeds")
    yield from _twice(site)
    if draft.keys_intact("site", "racks") and draft.intact("site", "row"):
        yield from _row(site, {name for key in draft.keys("site", "racks") for name in hostlist.expand(key)})
    for name, feed in site.feeds.items():
        if feed.limit_w is not None and feed.amps is not None:
            where = ("site", "feeds", name, "amps")
            yield Finding(where, "`limit_w` and `amps` set the same thing", "give one of them", key=True)
    for key, racks in site.racks.items():
        loc = ("site", "racks", key)
        if racks.pdu and not racks.feeds and draft.intact(*loc, "feeds"):
            yield Finding(loc, "`pdu` without `feeds`", "feeds: [A, B] is one PDU on each of them", key=True)
        if racks.feeds and not racks.pdu and draft.intact(*loc, "pdu"):
            yield Finding((*loc, "feeds"), "`feeds` without `pdu`", "name a PDU model of the catalog", key=True)
        for index, name in enumerate(racks.feeds):
            if name not in feeds and draft.keys_intact("site", "feeds"):
                hint = did_you_mean(name, feeds) or "name it under site.feeds"
                yield Finding((*loc, "feeds", index), f"{quote(name)} is not a feed of this site", hint)


def _twice(site: SiteSection) -> Findings:
    owner: dict[str, str] = {}
    for key in site.racks:
        twice = [name for name in hostlist.expand(key) if owner.setdefault(name, key) != key]
        if twice:
            message = f"rack {hostlist.fold(twice)} is named twice"
            yield Finding(("site", "racks", key), message, f"also under `{owner[twice[0]]}`", key=True)


def _row(site: SiteSection, racks: Set[str]) -> Findings:
    seen: set[str] = set()
    for index, text in enumerate(site.row):
        loc = ("site", "row", index)
        names = hostlist.expand(text)
        unknown = [name for name in names if name not in racks]
        if unknown:
            yield unknown_racks(loc, unknown, racks)
        twice = [name for name in names if name in seen]
        if twice:
            yield Finding(loc, f"rack {hostlist.fold(twice)} is in the row twice")
        seen.update(names)


def unknown_racks(loc: Loc, unknown: list[str], racks: Iterable[str]) -> Finding:
    """Say that names are no racks of the site."""
    known = sorted(racks)
    close = did_you_mean(unknown[0], known) if len(unknown) == 1 else None
    hint = close or (f"its racks: {hostlist.fold(known)}" if known else "name racks under site.racks")
    verb = "is not a rack" if len(unknown) == 1 else "are not racks"
    return Finding(loc, f"{quote(hostlist.fold(unknown))} {verb} of this site", hint)
