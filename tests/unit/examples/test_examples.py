"""Each folder of examples/ is roles that hpcforge takes, and a blueprint that uses them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.in_process import hpcforge

EXAMPLES = Path(__file__).parents[3] / "examples"
NAMES = sorted(path.name for path in EXAMPLES.iterdir())


def test_there_are_examples() -> None:
    assert NAMES == ["glusterfs", "object_storage"]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_valid_and_its_roles_run(name: str, tmp_path: Path) -> None:
    """The folder is copied, as a user does."""
    copy = shutil.copytree(EXAMPLES / name, tmp_path / name)
    blueprint = str(copy / "blueprint.yaml")
    assert hpcforge("validate", blueprint).returncode == 0
    checked = hpcforge("role", "check", str(copy / "roles"), "--blueprint", blueprint, "--json")
    roles = {role["role"] for role in json.loads(checked.stdout)["roles"]}
    assert roles == {path.name for path in (copy / "roles").iterdir()}
    assert (checked.returncode, json.loads(checked.stdout)["diagnostics"]) == (0, [])
    planned = hpcforge("plan", "--offline", blueprint, "--json")
    assert planned.returncode == 2  # changes are pending
    assert roles <= {step["role"] for step in json.loads(planned.stdout)["steps"]}


@pytest.mark.parametrize("name", NAMES)
def test_its_page_is_short(name: str) -> None:
    assert len((EXAMPLES / name / "README.md").read_text("utf-8").splitlines()) <= 25


@pytest.mark.parametrize(("kind", "name"), [("glusterfs", "glusterfs"), ("s3", "object_storage")])
def test_a_kind_that_is_an_example_now_is_named(kind: str, name: str, tmp_path: Path) -> None:
    text = (EXAMPLES / name / "blueprint.yaml").read_text("utf-8").replace("[roles]", f"[{EXAMPLES / name / 'roles'}]")
    shared = f"storage: {{sets: {{kind: {kind}, external: 'https://objects.example.org/sets', mount: /sets}}}}\n"
    (tmp_path / "site.yaml").write_text(text + shared, encoding="utf-8")
    refused = hpcforge("validate", str(tmp_path / "site.yaml"))
    assert refused.returncode == 3
    assert f"unknown kind of file system `{kind}`" in refused.stderr
    assert f"hint: copy the roles of examples/{name}, and name them in `role_folders`" in refused.stderr
