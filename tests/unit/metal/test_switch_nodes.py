"""A verb of `power` on many nodes: its groups, and nodes that are left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from hpcforge.cli.site import open_site
from hpcforge.errors import UsageError
from hpcforge.metal.bmc.verbs import Wish
from hpcforge.metal.power import in_order
from hpcforge.metal.switch_nodes import PowerSwitch, check_feeds, left_alone
from hpcforge.run.site import Site

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def site() -> Site:
    return open_site(ROOT / "blueprints" / "air-cooled-16.yaml", None, None, Path("/nowhere/age.key"))


@pytest.mark.parametrize(("verb", "disturbs"), [("on", False), ("off", True), ("cycle", True), ("status", False)])
def test_jobs_would_be_lost_where_power_is(verb: Literal["on", "off", "cycle", "status"], disturbs: bool) -> None:
    assert PowerSwitch(Wish(verb)).disturbs is disturbs


def test_some_nodes_are_one_group_and_all_go_in_order(site: Site) -> None:
    nodes = site.cluster.nodes
    assert PowerSwitch(Wish("off")).groups(nodes) == [tuple(node.name for node in nodes)]
    everything = PowerSwitch(Wish("off"), everything=True).groups(nodes)
    assert everything == in_order(nodes, "off")
    assert len(everything) > 1


@pytest.mark.parametrize(("lost", "right"), [((), True), (("A",), True), (("A", "Z"), False)])
def test_a_lost_feed_is_one_of_the_blueprint(site: Site, lost: tuple[str, ...], right: bool) -> None:
    if right:
        check_feeds(site, lost)
        return
    with pytest.raises(UsageError):
        check_feeds(site, lost)


@pytest.mark.parametrize("force", ["all", "w[", "nosuch", "worker"])
def test_what_is_forced_are_nodes_by_their_names(site: Site, force: str) -> None:
    with pytest.raises(UsageError):
        left_alone(site, site.cluster.nodes, force)
