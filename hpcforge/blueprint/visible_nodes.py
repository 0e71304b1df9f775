"""The nodes that a blueprint names, as far as its errors allow. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import get_args

from hpcforge.blueprint import hostlist, node_sets
from hpcforge.blueprint.positions import Place, given_places
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.sections.nodes import Function, NodeGroup
from hpcforge.blueprint.sections.site import SiteSection
from hpcforge.blueprint.validate import Draft, Finding

# Names for nodes in a blueprint: hostlists, and words for functions, groups and racks. Pure.


_NO_PINS: Mapping[str, Place] = MappingProxyType({})
FUNCTIONS: tuple[Function, ...] = get_args(Function)


def set_names(
    groups: Mapping[str, NodeGroup],
    group_of: Mapping[str, str],
    racks: Iterable[str],
    pinned: Mapping[str, Place] = _NO_PINS,
) -> node_sets.KnownNames:
    """Return the names for nodes, by their group's key. The nodes of racks are known if all have a place."""
    members: dict[str, list[str]] = {}
    for name, key in group_of.items():
        members.setdefault(key, []).append(name)
    return node_sets.named(
        group_of,
        group_of,
        rack=_racks(groups, members, racks, pinned),
        function={
            function: tuple(
                name for key, group in groups.items() if function in group.functions for name in members.get(key, ())
            )
            for function in FUNCTIONS
        },
        group=node_sets.groups(members),
    )


def racks_of(site: SiteSection | None) -> tuple[str, ...]:
    return tuple(name for key in (site.racks if site else ()) for name in hostlist.expand(key))


def _racks(
    groups: Mapping[str, NodeGroup], members: Mapping[str, list[str]], racks: Iterable[str], pinned: Mapping[str, Place]
) -> Mapping[str, tuple[str, ...] | None]:
    """Return nodes by rack; None where a position is proposed, since it follows from all others."""
    by_rack: dict[str, list[str]] = {rack: [] for rack in racks}
    for key, group in groups.items():
        if group.rack is None or group.u is None:
            return dict.fromkeys(by_rack)
        for name, (rack, _) in given_places(members.get(key, ()), group.rack, group.u, pinned).items():
            by_rack.setdefault(rack, []).append(name)
    return {rack: tuple(names) for rack, names in by_rack.items()}


class NamedNodes:
    """The nodes that a blueprint names, even if parts of them are wrong."""

    def __init__(self, draft: Draft) -> None:
        self.group_of: dict[str, str] = {}  # node to its key under `nodes:`; the first key wins
        self.twice: dict[str, list[str]] = {}  # key to names that an earlier key has, too
        self.names_known = True
        self.too_many = False
        self._names: node_sets.KnownNames | None = None
        self._worker_names: node_sets.KnownNames | None = None
        self.groups: dict[str, NodeGroup] = draft.sections["nodes"] or {}
        for key in draft.keys("nodes"):
            self._add(key)
        self.names_known &= bool(self.group_of) and draft.keys_intact("nodes")

    def _add(self, key: str) -> None:
        self.too_many |= len(self.group_of) > hostlist.MAX_NAMES
        try:
            names = () if self.too_many else hostlist.expand(key)
        except hostlist.HostlistError:
            names = ()
        self.names_known &= bool(names)
        for name in names:
            if name in self.group_of:
                self.twice.setdefault(key, []).append(name)
            else:
                self.group_of[name] = key

    def functions(self, name: str) -> tuple[Function, ...] | None:
        """Functions of a node; None where they are not known."""
        group = self.groups.get(self.group_of[name])
        return group.functions if group else None

    def with_function(self, function: str) -> tuple[str, ...]:
        """Return the nodes that are known to have a function."""
        return tuple(name for name in self.group_of if function in (self.functions(name) or ()))

    def known(self, draft: Draft) -> node_sets.KnownNames:
        """Return the names that node sets may use."""
        if self._names is None:
            site: SiteSection | None = draft.sections["site"]
            self._names = set_names(self.groups, self.group_of, racks_of(site))
        return self._names

    def named(
        self, draft: Draft, loc: Loc, text: str, *, workers: bool = False
    ) -> tuple[tuple[str, ...] | None, list[Finding]]:
        """Return the nodes of a set, None where they are not known, and the errors of the set."""
        words = self.workers_known(draft) if workers else self.known(draft)
        try:
            names = node_sets.expand(text, words)
        except node_sets.NodeSetError as error:
            sure = self.names_known and draft.intact("site")
            return None, [Finding(loc, str(error), error.hint)] if sure else []
        return names if self.names_known else None, []

    def workers_known(self, draft: Draft) -> node_sets.KnownNames:
        """Return the names that node sets of workers may use."""
        if self._worker_names is None:
            self._worker_names = self.known(draft).within(self.with_function("worker"))
        return self._worker_names

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Return the names that no node has; none as long as not all names are known."""
        return [name for name in names if name not in self.group_of] if self.names_known else []

    def without_function(self, names: Iterable[str], function: str) -> list[str]:
        """Return the known nodes among names that are known to lack a function."""
        declared = [name for name in names if name in self.group_of]
        return [name for name in declared if function not in (self.functions(name) or (function,))]
