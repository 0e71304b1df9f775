"""What a text of a role asks of a node, from its syntax tree, and what is made once for all with the same answers."""

from dataclasses import replace

import pytest

from hpcforge.cluster.model import Cluster, Node
from hpcforge.plan.alike import MadeOnce, asked_of, speaks_of_node
from hpcforge.plan.roles.render import Expression, Template

NOTHING: tuple[str, ...] = ()
ALL = None


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        ("node.name, without braces", NOTHING),
        ("{# node.name #}{{ 'node.name' }}{% raw %}{{ node.name }}{% endraw %}", NOTHING),
        ("{% for node in cluster.nodes %}{{ node.name }}{% endfor %}", NOTHING),
        ("{% for node in cluster.nodes %}{{ node.name }}{% endfor %}{{ node.rack }}", ALL),
        ("{% set node = 1 %}{{ node }}", NOTHING),
        ("{% if cluster.name %}{% set node = 1 %}{% endif %}{{ node.rack }}", ("rack",)),
        ("{{ node['cpus'] }}{% if node.gpus %}{{ node.gpus.count }}{% endif %}", ("cpus", "gpus")),
        ("{{ node.name }}", ALL),
        ("{{ node.rack_u }}", ALL),
        ("{{ node[cluster.name] }}", ALL),
        ("{{ node | attr('rack') }}", ALL),
        ("{{ cluster.job_cpus(node, 1) }}", ALL),
        ("{% set cluster = node %}{{ cluster.job_cpus(node) }}", ALL),
        ("{{ item.job_cpus(node) }}", ALL),
        ("{{ node.name == item }}", ALL),
        ("{{ node.name < cluster.slurm.controller }}", ALL),
        ("{{ node.name in [node.address] }}", ALL),
        ("{% set it = node %}{{ it.name }}", ALL),
        ("{% with it = node %}{{ it.name }}{% endwith %}", ALL),
        ("{% macro of(it) %}{{ it.name }}{% endmacro %}{{ of(node) }}", ALL),
        ("{% macro it() %}{{ node.name }}{% endmacro %}{{ it() }}", ALL),
        ("{% macro it() %}{{ node.rack }}{% endmacro %}{{ it() }}", ("rack",)),
        ("{% macro it(node) %}{{ node.name }}{% endmacro %}{{ it(cluster.nodes[0]) }}", NOTHING),
        ("{% macro node() %}x{% endmacro %}{{ node() }}", NOTHING),
        ("{% for one in cluster.nodes if one.rack == node.rack %}{{ one.name }}{% endfor %}", ("rack",)),
        ("{% filter replace(node.rack, 'x') %}{{ cluster.name }}{% endfilter %}", ("rack",)),
        ("{% set text %}{{ node.name }}{% endset %}{{ text }}", ALL),
        ("{{ [node] | map(attribute='name') | list }}", ALL),
    ],
)  # fmt: skip
def test_a_template_speaks_of(text: str, attributes: tuple[str, ...] | None) -> None:
    assert asked_of([Template(text)]) == attributes
    assert speaks_of_node(Template(text)) is (attributes != NOTHING)


def test_an_expression_is_not_taken_for_a_template() -> None:
    text = "node.gpus is not none and 'worker' in node.functions"
    assert asked_of([Expression(text), Template(text), text]) == ("functions", "gpus")
    assert (asked_of([Template(text)]), asked_of([text])) == ((), ())


def test_one_that_is_each_nodes_own_is_enough() -> None:
    assert asked_of([Expression("node.rack"), Template("{{ node.address }}")]) is None


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("node.name in cluster.services.time.on", 2),
        ("node.name not in cluster.services.time.on", 2),
        ("node.name == cluster.slurm.controller", 2),
        ("cluster.slurm.controller != node.name", 2),
        ("cluster.nothing and node.name in cluster.nothing.on", 1),  # there is nothing: no node is asked
        ("'worker' in node.functions or node.name in cluster.services.time.on", 2),
        ("cluster.job_cpus(node)", 1),
        ("cluster.file_systems(node)", 1),
        ("cluster.job_memory_mib(cluster)", 1),
        ("node.name in 'head'", 2),
        ("node.certified", 1),
    ],
)
def test_nodes_with_the_same_answers_share_what_is_made(cluster: Cluster, text: str, classes: int) -> None:
    made: list[Node] = []
    once: MadeOnce[int] = MadeOnce(asked_of([Expression(text)]), {"cluster": cluster, "vars": {}})
    first = [once.get(node, lambda n: made.append(n) or len(made)) for node in cluster.nodes]  # type: ignore[func-returns-value]
    assert [once.get(node, lambda _: -1) for node in cluster.nodes] == first
    assert once.each(cluster.nodes, lambda _: -1) == first
    assert len(made) == len(set(first)) == classes


def test_what_differs_by_node_is_made_for_each(cluster: Cluster) -> None:
    once: MadeOnce[str] = MadeOnce(asked_of([Template("{{ node.name }}")]))
    assert [once.get(node, lambda n: n.name) for node in cluster.nodes] == [node.name for node in cluster.nodes]
    assert once.each(cluster.nodes, lambda n: n.name) == [node.name for node in cluster.nodes]


def test_an_attribute_of_the_node_decides(cluster: Cluster) -> None:
    once: MadeOnce[str] = MadeOnce(asked_of([Expression("node.rack")]))
    first, second = cluster.nodes[1], replace(cluster.nodes[1], name="x", rack="r2")
    assert [once.get(node, lambda n: n.name) for node in (first, second)] == [first.name, "x"]
