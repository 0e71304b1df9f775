"""The reference of roles is what the schema and the cluster's types say."""

from pathlib import Path

from hpcforge import bundled
from hpcforge.cluster.load import load
from hpcforge.plan.role import load_roles
from hpcforge.plan.role_spec import json_schema
from hpcforge.report.role_reference import role_reference


def test_every_field_of_role_yaml_says_what_it_means() -> None:
    schema = json_schema()
    silent = [
        f"{name}.{key}"
        for name, part in {"role.yaml": schema, **schema["$defs"]}.items()
        for key, field in part.get("properties", {}).items()
        if not field.get("description")
    ]
    assert silent == []


def test_the_reference_is_current() -> None:
    rehearsal = load(bundled.root() / "blueprints" / "rehearsal.yaml").cluster
    path = Path(__file__).parents[3] / "docs" / "roles.md"
    found = role_reference(rehearsal, rehearsal.workers[0], load_roles(bundled.roles()))
    assert path.read_text("utf-8") == found, "hpcforge schema role --markdown"


def test_what_it_links_to_is_there() -> None:
    docs = Path(__file__).parents[3] / "docs"
    links = [part.partition(")")[0] for part in (docs / "roles.md").read_text("utf-8").split("](")[1:]]
    assert len(links) == 5
    assert all((docs / link).is_file() for link in links)
