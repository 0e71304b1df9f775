"""The reference of roles is what the schema and the cluster's types say."""

from collections.abc import Callable
from pathlib import Path

from hpcforge.plan.roles.spec import json_schema
from tools.role_reference import page


def test_every_field_of_role_yaml_says_what_it_means() -> None:
    schema = json_schema()
    silent = [
        f"{name}.{key}"
        for name, part in {"role.yaml": schema, **schema["$defs"]}.items()
        for key, field in part.get("properties", {}).items()
        if not field.get("description")
    ]
    assert silent == []


def test_the_reference_is_current(golden: Callable[[Path, str], None]) -> None:
    golden(Path(__file__).parents[3] / "docs" / "roles.md", page())


def test_what_it_links_to_is_there() -> None:
    docs = Path(__file__).parents[3] / "docs"
    links = [part.partition(")")[0] for part in (docs / "roles.md").read_text("utf-8").split("](")[1:]]
    assert len(links) == 5
    assert all((docs / link).is_file() for link in links)
