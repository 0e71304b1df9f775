"""Which attributes of `node` a text of a role speaks of, told from its syntax tree."""

import pytest

from hpcforge.plan.render import Expression, Template, speaks_of_node, spoken_of

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
        ("{{ cluster.job_cpus(node) }}", ALL),
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
    assert spoken_of([Template(text)]) == attributes
    assert speaks_of_node(Template(text)) is (attributes != NOTHING)


def test_an_expression_is_not_taken_for_a_template() -> None:
    text = "node.gpus is not none and 'worker' in node.functions"
    assert spoken_of([Expression(text), Template(text), text]) == ("functions", "gpus")
    assert (spoken_of([Template(text)]), spoken_of([text])) == ((), ())


def test_one_that_is_each_nodes_own_is_enough() -> None:
    assert spoken_of([Expression("node.rack"), Template("{{ node.address }}")]) is None
