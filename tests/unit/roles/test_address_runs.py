from __future__ import annotations

import dataclasses

from hpcforge.cluster.model import Cluster
from hpcforge.plan.roles.render import address_runs


def runs(rehearsal: Cluster, *pairs: tuple[str, str]) -> list[tuple[str, str]]:
    like = rehearsal.nodes[0]
    return address_runs(dataclasses.replace(like, name=name, address=address) for name, address in pairs)


def test_both_count_up(rehearsal: Cluster) -> None:
    assert runs(rehearsal, ("n9", "10.0.0.9"), ("n10", "10.0.0.10")) == [("n[9-10]", "10.0.0.[9-10]")]


def test_addresses_in_another_order_are_not_folded(rehearsal: Cluster) -> None:
    assert runs(rehearsal, ("w1", "10.0.0.3"), ("w2", "10.0.0.2")) == [("w1", "10.0.0.3"), ("w2", "10.0.0.2")]


def test_a_run_ends_where_the_next_octet_begins(rehearsal: Cluster) -> None:
    pairs = [("w1", "10.0.0.255"), ("w2", "10.0.1.0"), ("w3", "10.0.1.1")]
    assert runs(rehearsal, *pairs) == [("w1", "10.0.0.255"), ("w[2-3]", "10.0.1.[0-1]")]


def test_names_without_numbers_stand_alone(rehearsal: Cluster) -> None:
    assert runs(rehearsal, ("anna", "10.0.0.1"), ("otto", "10.0.0.2")) == [("anna", "10.0.0.1"), ("otto", "10.0.0.2")]


def test_padding_is_kept(rehearsal: Cluster) -> None:
    assert runs(rehearsal, ("w09", "10.0.0.9"), ("w10", "10.0.0.10")) == [("w[09-10]", "10.0.0.[9-10]")]
