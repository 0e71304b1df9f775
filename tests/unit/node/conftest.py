"""What the node program is asked for, and a place to hear its answers."""

from typing import Any

import pytest

from hpcforge.node.events import EventReporter
from tests.support.resources import Resources


@pytest.fixture
def wanted() -> type[Resources]:
    return Resources


@pytest.fixture
def heard() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def report(heard: list[dict[str, Any]]) -> EventReporter:
    return EventReporter(heard.append)
