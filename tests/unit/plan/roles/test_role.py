"""Collections of a role, from role.yaml to an archive."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from hpcforge import bundled
from hpcforge.blueprint.untrusted_files import having
from hpcforge.catalog import ansible_wheel
from hpcforge.plan.roles.role import Code, collection, load_role, site_role_code
from hpcforge.plan.roles.spec import CollectionSpec


def test_by_default_it_is_in_the_pinned_wheel() -> None:
    found = collection(CollectionSpec(name="community.mysql", version="3.16.1"))
    assert (found.archive.source, found.archive.sha256) == ("pip", ansible_wheel().sha256)
    assert found.folder == f"{ansible_wheel().sha256}.unpacked/community.mysql"


def test_an_archive_of_its_own() -> None:
    source = "https://galaxy.example.org/site-tools-1.2.3.tar.gz"
    found = collection(CollectionSpec(name="site.tools", version="1.2.3", source=source, sha256="a" * 64))
    assert (found.archive.name, found.archive.source) == ("collections/site-tools-1.2.3.tar.gz", source)
    assert found.folder == f"{'a' * 64}.unpacked/site.tools"


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "mysql"},
        {"name": "../up.x"},
        {"version": "latest"},
        {"version": ">=3"},
        {"source": "https://example.org/x.tar.gz"},
        {"sha256": "a" * 64},
        {"source": "ftp://example.org/x.tar.gz", "sha256": "a" * 64},
        {"source": "https://example.org/x.tar.gz", "sha256": "A" * 64},
    ],
)
def test_what_is_not_pinned_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        CollectionSpec.model_validate({"name": "community.mysql", "version": "3.16.1", **wrong})


@pytest.mark.parametrize("read", [lambda folder: load_role(folder).code, site_role_code])
def test_a_role_and_a_site_role_have_collections(tmp_path: Path, read: Callable[[Path], Code | None]) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks/main.yml").write_text("[]\n")
    spec = "collections: [{name: community.mysql, version: 3.16.1}]\n"
    own = "" if read is site_role_code else 'on: "true"\n'
    (tmp_path / "role.yaml").write_text(f"description: Mine.\n{own}{spec}")
    code = read(tmp_path)
    assert code is not None
    assert [(entry.name, entry.version) for entry in code.collections] == [("community.mysql", "3.16.1")]


@pytest.mark.parametrize("folder", having(bundled.roles(), "role.yaml"), ids=lambda folder: folder.name)
def test_what_a_plan_takes_as_tested_is_tested(folder: Path) -> None:
    """A plan parses texts of shipped roles when they are used. Here all are parsed."""
    whole, quick = load_role(folder), load_role(folder, tested=True)
    assert (whole.spec, whole.texts, whole.code) == (quick.spec, quick.texts, quick.code)
