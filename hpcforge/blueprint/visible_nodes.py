"""Which nodes a blueprint names, as far as that can be seen past its mistakes. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from hpcforge.blueprint import hostlist, node_sets
from hpcforge.blueprint.node_words import known, racks_of
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.sections.nodes import Function, NodeGroup
from hpcforge.blueprint.sections.site import SiteSection
from hpcforge.blueprint.validate import Draft, Finding


class NamedNodes:
    """The nodes that a blueprint names, seen past what is wrong with them."""

    def __init__(self, draft: Draft) -> None:
        self.group_of: dict[str, str] = {}  # node to its key under `nodes:`; the first one wins
        self.twice: dict[str, list[str]] = {}  # key to names that an earlier key has
        self.names_known = True
        self.too_many = False
        self._known: node_sets.KnownNames | None = None
        self._workers_known: node_sets.KnownNames | None = None
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
        """Names of the nodes that are known to have a function."""
        return tuple(name for name in self.group_of if function in (self.functions(name) or ()))

    def known(self, draft: Draft) -> node_sets.KnownNames:
        """What node sets may name."""
        if self._known is None:
            site: SiteSection | None = draft.sections["site"]
            self._known = known(self.groups, self.group_of, racks_of(site))
        return self._known

    def named(
        self, draft: Draft, loc: Loc, text: str, *, workers: bool = False
    ) -> tuple[tuple[str, ...] | None, list[Finding]]:
        """The nodes of a set, None where they are not known, and what is wrong with it."""
        words = self.workers_known(draft) if workers else self.known(draft)
        try:
            names = node_sets.expand(text, words)
        except node_sets.NodeSetError as error:
            sure = self.names_known and draft.intact("site")
            return None, [Finding(loc, str(error), error.hint)] if sure else []
        return names if self.names_known else None, []

    def workers_known(self, draft: Draft) -> node_sets.KnownNames:
        """What node sets may name where only workers can be meant."""
        if self._workers_known is None:
            self._workers_known = self.known(draft).within(self.with_function("worker"))
        return self._workers_known

    def unknown(self, names: Iterable[str]) -> list[str]:
        """The names that no node has; none as long as not all names are known."""
        return [name for name in names if name not in self.group_of] if self.names_known else []

    def without_function(self, names: Iterable[str], function: str) -> list[str]:
        """The known nodes among names that are known to lack a function."""
        known = [name for name in names if name in self.group_of]
        return [name for name in known if function not in (self.functions(name) or (function,))]
