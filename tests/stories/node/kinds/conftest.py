"""A real node for the tests of kinds, and the whole life of a resource on it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from hpcforge.lab import lab as labs
from tests.support import node_program as nodes

Json = dict[str, Any]


@dataclass(frozen=True)
class Life:
    """A role with one kind of resource on a node: seen to differ, put, as wanted, and taken away."""

    node: nodes.Node
    kind: str

    def found(self, *items: Json) -> list[Json]:
        """What is told of those that are not as wanted."""
        events = self.node.send({"verb": "observe", "wanted": [self._role(*items)]})
        assert nodes.of(events, "failed") == []
        [seen] = nodes.of(events, "observed")
        return [one for difference in seen["differs"] for one in difference[self.kind]]

    def put(self, *items: Json, **more: Any) -> dict[str, str]:
        """What was changed to have them; nothing is left to do, and doing it again does nothing."""
        request = nodes.converge("prepare", [{**self._role(*items), **more}])
        events = self.node.send(request)
        assert nodes.of(events, "failed") == []
        assert self.found(*items) == []
        again = self.node.send(nodes.converge("prepare", [{**self._role(*items), **more}]))
        assert nodes.details(again) == {}
        return nodes.details(events)

    def refused(self, *items: Json, **more: Any) -> str:
        """Why they cannot be put."""
        events = self.node.send(nodes.converge("prepare", [{**self._role(*items), **more}]))
        return str(nodes.of(events, "failed")[0]["error"])

    def surplus(self, *items: Json) -> Json:
        """What is left of the role where these are wanted."""
        [seen] = nodes.of(self.node.send({"verb": "observe", "wanted": [self._role(*items)]}), "observed")
        return dict(seen["receipt"]["surplus"])

    def remove(self, *items: Json) -> nodes.Events:
        """All but these are taken away, as the node says what is left over; nothing is left of them."""
        work = [{"role": role, **left, "wanted": bool(items)} for role, left in self.surplus(*items).items()]
        assert work
        events = self.node.send(nodes.converge("remove", work))
        assert nodes.of(events, "failed") == []
        assert self.surplus(*items) == {}
        return events

    def _role(self, *items: Json) -> Json:
        return {"role": f"with_{self.kind}", self.kind: list(items)}


@pytest.fixture(scope="session")
def kinds_node() -> Iterator[nodes.Node]:
    name = f"test-kinds-{os.getpid()}"
    try:
        yield nodes.Node(nodes.up(name, [labs.LabNode("one")]), "one")
    finally:
        labs.down(name, None, nodes.quiet)


@pytest.fixture
def life(kinds_node: nodes.Node, request: pytest.FixtureRequest) -> Life:
    """Of the kind that the test module is named after."""
    return Life(kinds_node, request.path.stem.removeprefix("test_"))
