"""Distributions as data: a file each, read when it is looked for."""

from __future__ import annotations

import dataclasses
import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.catalog import load_catalog
from hpcforge.catalog.distribution import ELSEWHERE, DistributionError, Distributions
from hpcforge.cluster import Loaded, load
from hpcforge.kinds import PACKAGE_MANAGERS

SHIPPED = load_catalog().distributions
VERSIONS = 'python: "3.12"\nslurm: "23.11"\nlibc: "2.39"\nopenssh: "9.6"\npytorch: "2.1"\nsources: {"*": here}\n'
NAMES = "package_manager: apt\nunits: {ssh.service: sshd.service, a.service: b.service}\npackages: {a: [b, c]}\n"
REHEARSAL = bundled.root() / "blueprints" / "rehearsal.yaml"


def folder(tmp_path: Path, **files: str) -> Distributions:
    for name, text in files.items():
        (tmp_path / f"{name.replace('_', '-')}.yaml").write_text(text)
    return Distributions(tmp_path)


@pytest.mark.parametrize("key", SHIPPED, ids="-".join)
def test_every_known_fact_has_a_source(key: tuple[str, str]) -> None:
    one = SHIPPED[key]
    facts = one.model_dump(exclude={"name", "release", "sources"})
    known = {name for name, value in facts.items() if value not in (None, {})}
    assert "*" in one.sources or known <= set(one.sources)


def test_debian_12_has_no_names_of_its_own() -> None:
    one = SHIPPED["debian", "12"]
    assert not (one.packages or one.units or one.paths or one.accounts)


def test_a_file_is_read_when_it_is_looked_for(tmp_path: Path) -> None:
    found = folder(tmp_path, open_suse_15=NAMES + VERSIONS, broken_1="{")
    assert list(found) == [("broken", "1"), ("open-suse", "15")]
    assert found["open-suse", "15"].packages == {"a": ("b", "c")}
    with pytest.raises(DistributionError, match=r"broken-1\.yaml"):
        found["broken", "1"]
    assert found.get(("debian", "12")) is None


def test_names_are_inherited_and_versions_are_not(tmp_path: Path) -> None:
    found = folder(
        tmp_path, a_1=NAMES + VERSIONS, a_2=f"like: a-1\nunits: {{a.service: c.service}}\n{VERSIONS}", a_3="like: a-1\n"
    )
    one = found["a", "2"]
    assert (one.package_manager, one.packages) == ("apt", {"a": ("b", "c")})
    assert one.units == {"ssh.service": "sshd.service", "a.service": "c.service"}
    assert found["a", "1"].units["a.service"] == "b.service"
    with pytest.raises(DistributionError, match=r"a-3\.yaml: python: Field required"):
        found["a", "3"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "not a mapping"),
        ("like: b-2", "like: b-2 is not another file of this folder"),
        ("like: a-1", "like: a-1 is not another file of this folder"),
        (f"{NAMES}{VERSIONS}paths: {{etc: /etc}}", "paths.etc"),
        (f"{NAMES}{VERSIONS}codename: x", "codename: Extra inputs are not permitted"),
        (f"{NAMES}{VERSIONS.replace('3.12', 'three')}", "python: String should match"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DistributionError, match=r"a-1\.yaml") as caught:
        folder(tmp_path, a_1=text)["a", "1"]
    assert message in str(caught.value)


def chosen(monkeypatch: pytest.MonkeyPatch, distributions: Distributions, name: str) -> Loaded:
    """The rehearsal with a distribution of this folder."""
    catalog = dataclasses.replace(load_catalog(), distributions=distributions)
    monkeypatch.setattr(importlib.import_module("hpcforge.cluster.load.loaded"), "load_catalog", lambda: catalog)
    text = REHEARSAL.read_text().replace('{name: debian, release: "12"}', f'{{name: {name}, release: "1"}}')
    return load(REHEARSAL, instead={REHEARSAL: text})


def test_a_new_file_is_all_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os = chosen(monkeypatch, folder(tmp_path, new_1=NAMES + VERSIONS), "new").cluster.os
    assert (os.name, os.release, os.slurm, os.unit("ssh.service")) == ("new", "1", "23.11", "sshd.service")


def test_pytorch_that_it_is_not_known_to_have_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = folder(tmp_path, new_1=NAMES + VERSIONS.replace('pytorch: "2.1"\n', ""))
    with pytest.raises(InvalidInput, match="the catalog has no package of new 1"):
        chosen(monkeypatch, found, "new")


def test_without_a_package_manager_that_nodes_have_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = folder(tmp_path, red_1=NAMES.replace("apt", "dnf") + VERSIONS, new_1=NAMES + VERSIONS)
    with pytest.raises(InvalidInput) as caught:
        chosen(monkeypatch, found, "red")
    [one] = [diagnostic for diagnostic in caught.value.diagnostics if diagnostic.severity == "error"]
    assert one.message == "red 1 has dnf: hpcforge installs packages only with apt"
    assert one.hint == "use one of new 1"
    assert one.mark is not None


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_distribution_without_a_file_is_refused_for_its_package_manager(name: str) -> None:
    text = REHEARSAL.read_text().replace('{name: debian, release: "12"}', f'{{name: {name}, release: "9"}}')
    with pytest.raises(InvalidInput) as caught:
        load(REHEARSAL, instead={REHEARSAL: text})
    [one] = [diagnostic for diagnostic in caught.value.diagnostics if diagnostic.severity == "error"]
    assert one.message == f"`{name}` has {ELSEWHERE[name]}: hpcforge installs packages only with apt"
    assert one.hint is not None and one.hint.startswith("use one of debian 12, ")
    assert one.mark is not None


def test_what_has_a_file_is_not_said_to_have_none() -> None:
    assert not set(ELSEWHERE) & {name for name, _ in SHIPPED}
    assert not set(ELSEWHERE.values()) & set(PACKAGE_MANAGERS)


@pytest.mark.parametrize("name", PACKAGE_MANAGERS)
def test_the_node_program_has_what_is_said_to_be_there(name: str) -> None:
    assert find_spec(f"hpcforge.node.package_manager.{name}")
