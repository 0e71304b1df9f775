"""Rendering: what becomes an error of the role, and parts of a text."""

import pytest
from jinja2 import TemplateError, TemplateRuntimeError, Undefined, nodes

from hpcforge.cluster.model import Cluster
from hpcforge.plan.roles.render import Expression, attribute, evaluate, evaluate_tree, render


@pytest.mark.parametrize("text", ["1 // 0", "[][1]", "'x'.index('y')"])
def test_what_ends_a_rendering_is_an_error_of_the_role(text: str) -> None:
    with pytest.raises((TemplateError, ValueError)):
        evaluate(text, {})
    with pytest.raises((TemplateError, ValueError)):
        render(f"{{{{ {text} }}}}", {})


def test_the_kind_of_error_is_named() -> None:
    with pytest.raises(TemplateRuntimeError, match=r"^ZeroDivisionError: "):
        evaluate("1 // 0", {})


def test_a_part_of_a_text_has_its_own_value(cluster: Cluster) -> None:
    tree = Expression("node.name == cluster.slurm.controller").tree()
    [compared] = tree.find_all(nodes.Compare)
    assert evaluate_tree(compared.ops[0].expr, {"cluster": cluster}) == cluster.slurm.controller


def test_an_attribute_as_a_template_gets_it(cluster: Cluster) -> None:
    assert attribute(cluster, "name") == cluster.name
    assert isinstance(attribute(cluster, "__class__"), Undefined)
