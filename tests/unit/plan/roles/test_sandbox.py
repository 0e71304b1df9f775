"""What a role of anybody's may do while it is looked at: nothing but fill text from plain data, within bounds.

Each field of role.yaml that holds an expression or a template is tried; which those are is read from its schema.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import yaml
from jinja2 import TemplateError
from pydantic import BaseModel

from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.role_check import judge, role_folders
from hpcforge.plan.roles import sandbox
from hpcforge.plan.roles.render import Expression, Template, evaluate, line_of, render, render_filled
from hpcforge.plan.roles.role import load_roles, site_role_code
from hpcforge.plan.roles.spec import ROLE_SPEC
from tests.support.machine import slowness

ROOT = Path(__file__).parents[4]
MOST_CPU_S = 6.0  # of one rendering, on the machine that limits are for
MOST_MIB = 300
Place = tuple[str, ...]


def _types(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and not get_args(hint):
        yield hint
    for one in get_args(hint):
        yield from _types(one)


def _depth(hint: Any) -> int:
    """How many lists a value of a field stands in."""
    inner = [_depth(one) for one in get_args(hint)]
    return max(inner, default=0) + (getattr(hint, "__origin__", None) is tuple)


def _places(model: type[BaseModel], at: Place = ()) -> Iterator[tuple[Place, type]]:
    for name, field in model.model_fields.items():
        for one in _types(field.annotation):
            if issubclass(one, Expression | Template):
                yield (*at, name), one
            elif issubclass(one, BaseModel):
                yield from _places(one, (*at, name))


PLACES = {**dict(_places(ROLE_SPEC)), ("contributes", "key"): Template}  # the latter: a field of a kind
# Where "x" would be refused before the place that is tried is rendered.
_USUAL: dict[Place, Any] = {
    ("artifacts", "name"): "x/y",
    ("artifacts", "source"): "https://example.org/x",
    ("artifacts", "sha256"): "0" * 64,
    ("artifacts", "path"): "/x",
    ("files", "content"): "x",
    ("files", "path"): "/x",
}


def _in_lists(value: Any, depth: int) -> Any:
    return _in_lists([value], depth - 1) if depth > 0 else value


def _role_with(place: Place, text: str) -> dict[str, Any]:
    """A role that has an expression at one place, and else what it must have."""
    spec: dict[str, Any] = {"description": "x", "on": "true"}
    value = text if PLACES[place] is Expression else f"{{{{ {text} }}}}"
    if place in (("inputs",), ("rerun_on",)):
        tried: dict[str, Any] = {"inputs": {"x": value}} if place == ("inputs",) else {"rerun_on": [value]}
        return {**spec, **tried, "keep_on_removal": [{"path": "/x", "why": "x"}]}
    if place[0] in ("accepts", "contributes"):
        kind = "_".join(place)
        accepted = {"description": "X.", "fields": {"key": {"type": "text", "description": "X."}}, "unique": ["key"]}
        contributed = {"key": "x"}
        (accepted if place[0] == "accepts" else contributed)[place[1]] = value
        return {**spec, "accepts": {kind: accepted}, "contributes": {kind: [contributed]}}
    if len(place) == 1:
        return {**spec, place[0]: value}
    section, *_, name = place
    model = next(one for one in _types(ROLE_SPEC.model_fields[section].annotation) if issubclass(one, BaseModel))
    usual = {at[1]: usual for at, usual in _USUAL.items() if at[0] == section}
    required = {
        key: _in_lists("x", _depth(one.annotation)) for key, one in model.model_fields.items() if one.is_required()
    }
    if place == ("files", "secret"):
        del usual["content"]
    nested = len(place) > 2
    depth = _depth(model.model_fields[place[1]].annotation)
    tried = {place[1]: _in_lists({name: value} if nested else value, depth)}
    return {**spec, section: [{**required, **usual, **tried}]}


def _judged(folder: Path, text: str) -> dict[str, str]:
    """What is said of a role for each place that has this text there; by name of the role."""
    for place in PLACES:
        role = folder / "_".join(place)
        role.mkdir(parents=True)
        (role / "role.yaml").write_text(yaml.safe_dump(_role_with(place, text)))
        if place in (("inputs",), ("rerun_on",), ("delete_on_removal", place[-1]), ("keep_on_removal", place[-1])):
            (role / "deploy.py").write_text("")
    loaded = load(ROOT / "blueprints" / "rehearsal.yaml")
    found = judge(role_folders(folder), load_roles(ROOT / "roles"), loaded.cluster)
    return {one.folder.name: " ".join(entry.message for entry in one.diagnostics) for one in found}


def test_every_place_that_is_evaluated_reaches_no_code(tmp_path: Path) -> None:
    """The first text shows that each place is evaluated; the second would run a program there."""
    assert len(PLACES) > 100
    probed = _judged(tmp_path / "probe", "cluster.no_such_thing")
    assert [name for name, said in probed.items() if "no_such_thing" not in said] == []
    attack = (
        f"cluster.__class__.__init__.__globals__['__builtins__']['__import__']('os').system('touch {tmp_path}/ran')"
    )
    attacked = _judged(tmp_path / "attack", attack)
    assert not (tmp_path / "ran").exists()
    assert [name for name, said in attacked.items() if "'__class__'" not in said or "unsafe" not in said] == []


@cache
def _two_nodes() -> Cluster:
    return load(ROOT / "blueprints" / "two-node-lab.yaml").cluster


@pytest.fixture
def context() -> Iterator[dict[str, Any]]:
    cluster = _two_nodes()
    with sandbox.counted(len(cluster.nodes)):
        yield {
            "cluster": cluster,
            "node": cluster.nodes[0],
            "vars": SimpleNamespace(word="x"),
            "path": Path("/etc/passwd"),
        }


@pytest.mark.parametrize(
    "text",
    [
        "cluster.__class__",
        "cluster['__class__']",
        "[cluster] | map(attribute='__class__') | map(attribute='mro') | list",
        "[cluster] | map('attr', '__class__') | list",
        "cluster | attr('__class__')",
        "cluster.job_cpus.__func__.__globals__",
        "node.gpus.__init__.__globals__",
        "vars.__dict__",
        "path.read_text()",
        "path.parent.iterdir()",
        "''.format.__self__",
        "'{0.__class__}'.format(cluster)",
        "'{0.__class__}' | format(cluster) | string ~ cluster",
        "''.format_map({})",
        "range.__globals__",
        "namespace.__init__.__globals__",
        "dict.mro()",
        "dict.fromkeys([1])",
        "self.__init__.__globals__",
        "self._TemplateReference__context",
        "lipsum.__globals__",
        "cycler.__init__.__globals__",
        "cluster.by_name.clear()",
        "cluster.by_name.update({})",
        "cluster.by_name.pop('head')",
        "cluster",
        "[cluster]",
    ],
)
def test_no_way_leads_out_of_plain_data(context: dict[str, Any], text: str) -> None:
    with pytest.raises(TemplateError):
        render(f"{{{{ {text} }}}}", context)
    if "cluster]" not in text and text != "cluster":
        with pytest.raises(TemplateError):
            str(evaluate(text, context))


_ALIASES = "{% set ns = namespace(x=('a',), y=('a',)) %}{% for i in range(60) %}{% set ns.x = (ns.x, ns.x) %}"


@pytest.mark.parametrize(
    "text",
    [
        "{{ 'a' * 10**10 }}",
        "{{ [1] * 10**10 }}",
        "{{ 3 ** 99999999 }}",
        "{% set ns = namespace(x=2) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
        "{% for i in range(10**9) %}x{% endfor %}",
        "{% for i in range(90000) %}{% for j in range(90000) %}x{% endfor %}{% endfor %}",
        "{% for i in range(90000) %}{% for j in range(90000) if j < 0 %}{% endfor %}{% endfor %}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ 'a' | center(10**9) }}",
        "{{ 'a' | indent(10**9) }}",
        "{{ 'a' | wordwrap(1, wrapstring='b' * 10**9) }}",
        "{{ 'a'.ljust(10**9) }}",
        "{{ [1] | batch(10**9, 1) | list }}",
        "{{ [1] | slice(10**9) | list }}",
        "{{ 5 | round(-(10**9)) }}",
        "{{ lipsum(10**9) }}",
        "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
        "{% for i in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
        "{% block a %}{{ self.a() }}{% endblock %}",
        "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] | join %}{% endfor %}",
        "{% set ns = namespace(x='aa') %}{% for i in range(60) %}{% set ns.x = ns.x.replace('a', ns.x) %}{% endfor %}",
        "{% set ns = namespace(x='aa') %}{% for i in range(60) %}{% set ns.x = ns.x|replace('a', ns.x) %}{% endfor %}",
        "{% set ns = namespace(x='aa') %}{% for i in range(60) %}{% set ns.x = '%s%s' % (ns.x, ns.x) %}{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set b %}{{ ns.x }}{{ ns.x }}{% endset %}"
        "{% set ns.x = b %}{% endfor %}",
        "{% set b = 'a' * 1000000 %}{% for i in range(100000) %}{{ b }}{% endfor %}",
        "{% set b = 'a' * 1000000 %}{% for i in range(100000) %}{% if 'b' in b %}{% endif %}{% endfor %}",
        "{% set b = 'a' * 1000000 %}{% for i in range(100000) %}{% if b[1:] == b[:-1] %}{% endif %}{% endfor %}",
        "{% set b = 'a' * 1000000 %}{% for i in range(100000) %}{{ b.count('b') }}{% endfor %}",
        "{% set b = 'a' * 1000000 %}{{ ([b] * 1000000) | join }}",
        "{{ ([[1] * 100000] * 100000) | sum(start=[]) }}",
        _ALIASES + "{% endfor %}{{ ns.x }}",
        _ALIASES + "{% endfor %}{{ {}[ns.x] }}",
        _ALIASES + "{% endfor %}{{ {ns.x: 1} }}",
        _ALIASES + "{% endfor %}{{ [ns.x] | unique | list }}",
        _ALIASES + "{% endfor %}{{ ns.x | tojson }}",
        _ALIASES + "{% set ns.y = (ns.y, ns.y) %}{% endfor %}{{ ns.x == ns.y }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ " + "1+" * 20000 + "1 }}",
        "{{ " + "9" * 5000 + " }}",
        "{% for x in [1] %}" * 30 + "{% endfor %}" * 30,
        "{{ " + "-" * 50000 + "1 }}",
        "x{{ 1 }}" * 100_000,
        "{{ 1 / 0 }}",
        "{{ (1e308 * 10) | int }}",
        "{% include '/etc/passwd' %}",
        "{% extends '/etc/passwd' %}",
        "{% import '/etc/passwd' as x %}",
        "{% from '/etc/passwd' import x %}",
    ],
    ids=lambda text: text[:60],
)
def test_what_would_take_time_or_memory_ends_in_an_error(context: dict[str, Any], text: str) -> None:
    began_s, before_mib = time.process_time(), _peak_mib()
    with pytest.raises(TemplateError):
        render(text, context)
    assert time.process_time() - began_s < MOST_CPU_S * slowness()
    assert _peak_mib() - before_mib < MOST_MIB
    with pytest.raises(TemplateError):
        render_filled(f"{text}{{{{ secret('x') }}}}", context, lambda name: None)


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def test_many_renderings_together_have_a_bound_too(tmp_path: Path) -> None:
    """Each of 100,000 entries is within bounds, and is rendered by itself."""
    role = tmp_path / "many"
    role.mkdir()
    item = {"for_each": "range(100000)", "name": "{% for i in range(1000) %}x{% endfor %}{{ item }}"}
    role.joinpath("role.yaml").write_text(yaml.safe_dump({"description": "x", "on": "true", "packages": [item]}))
    loaded = load(ROOT / "blueprints" / "two-node-lab.yaml")
    began_s = time.process_time()
    (found,) = judge([role], [], loaded.cluster)
    assert time.process_time() - began_s < 10 * MOST_CPU_S * slowness()
    assert [entry.mark.line for entry in found.diagnostics if "all roles together" in entry.message if entry.mark] == [
        4
    ]


def test_the_line_is_said(context: dict[str, Any]) -> None:
    with pytest.raises(TemplateError) as caught:
        render("one\ntwo\n{{ 'a' * 10**10 }}\n", context)
    assert line_of(caught.value) == 3


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("{{ 'a-b'.split('-') | join(', ') }}", "a, b"),
        ("{{ 'a-b'.replace('-', '+') }}", "a+b"),
        ("{{ 'x%02d' % 3 }} {{ '%-4s|' | format('a') }} {{ '100%' }}", "x03 a   | 100%"),
        ("{{ 'a\nb' | indent(2) }}", "a\n  b"),
        ("{% set d = {} %}{% set _ = d.setdefault('a', []).append(1) %}{{ d }}", "{'a': [1]}"),
        ("{% for k, v in {'a': 1}.items() %}{{ loop.index }}{{ k }}{{ v }}{% endfor %}", "1a1"),
        ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(1) ~ m('b') }}", "<1><b>"),
        ("{{ [3, 1, 2] | sort | map('string') | join }}{{ [(1,), (2,)] | sum(start=()) }}", "123(1, 2)"),
        ("{{ [{'a': {'b': 2}}] | map(attribute='a.b') | list }}{{ [{'a': 5}] | sum(attribute='a') }}", "[2]5"),
        (
            "{{ 2 ** 10 }} {{ 7 // 2 }} {{ 7 % 4 }} {{ 1.5 * 2 }} {{ 'ab' * 2 }} {{ [1] + [2] }}",
            "1024 3 3 3.0 abab [1, 2]",
        ),
        ("{{ none }} {{ true }} {{ 1.0 | round(1) }} {{ 'b' in 'abc' }} {{ 'abc'[1:] }}", "None True 1.0 True bc"),
        ("{{ cluster.by_name[node.name].name }} {{ cluster.os.unit('cron') }}", "n1 cron"),
    ],
)
def test_what_templates_need_goes_on(context: dict[str, Any], text: str, rendered: str) -> None:
    assert render(text, context) == rendered


@pytest.mark.parametrize("path", sorted((ROOT / "blueprints").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_shipped_roles_take_a_quarter_of_the_bounds(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(path)
    meters: list[sandbox.Meter] = []

    @contextmanager
    def counted(nodes: int) -> Iterator[sandbox.Meter]:
        with real(nodes) as meter:
            if nodes:
                meters.append(meter)
            yield meter

    real = sandbox.counted
    monkeypatch.setattr(sandbox, "counted", counted)
    compile_desired(loaded.cluster, load_roles(ROOT / "roles"), {}, _no_code(loaded.cluster.site_roles))
    whole = sandbox.Meter(len(loaded.cluster.nodes)).of_all
    (meter,) = meters
    assert whole - meter.of_all < whole / 4


@pytest.mark.parametrize("text", ["cluster.file_systems(node)", "cluster.interfaces(node)"])
def test_a_question_about_one_node_is_no_walk_through_all(context: dict[str, Any], text: str) -> None:
    node, *_ = context["cluster"].nodes
    many = tuple(replace(node, name=f"n{number}") for number in range(5_000))
    cluster = replace(context["cluster"], nodes=many)
    with sandbox.counted(len(many)) as meter:
        left = meter.of_all
        evaluate(text, {**context, "cluster": cluster, "node": many[0]})
    assert left - meter.of_all < 500


def test_what_is_counted_together_has_a_meter_of_its_own(context: dict[str, Any]) -> None:
    with sandbox.counted(1) as first:
        render("{{ node.name }}", context)
        with sandbox.counted(1) as second:
            render("{{ node.name }}", context)
        spent = sandbox.Meter(1).of_all - second.of_all
        assert spent == sandbox.Meter(1).of_all - first.of_all > 0
        render("{{ node.name }}", context)
    render("{{ node.name }}", context)
    assert sandbox.Meter(1).of_all - first.of_all == 2 * spent


def _no_code(roles: Any) -> Any:
    return {role.name: site_role_code(role.path) for role in roles}
