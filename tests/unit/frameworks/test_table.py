"""Frameworks beside PyTorch: a file in the folder is one, and what a blueprint says of them is checked."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.catalog import load_catalog
from hpcforge.cluster import load
from hpcforge.frameworks import FRAMEWORKS, PinnedFramework
from hpcforge.kinds.files import File
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.roles.role import load_roles
from hpcforge.software.rule_checks import declared
from hpcforge.yaml_folder import Folder, FolderError
from tests.support.shipped import ROOT

CASES = ROOT / "tests" / "unit" / "blueprint" / "cases"
FILE = """\
title: Flax
use: import flax
builds:
  - version: "1.0"
    python: "3.11"
    arch: x86_64
    libc: "2.28"
    source: pypi.org
    wheels: [{file: flax-1.0-py3-none-any.whl, sha256: SHA}]
"""


def blueprint(folder: Path, frameworks: str, release: str = "12") -> Path:
    path = folder / "a.yaml"
    text = (
        (CASES / "valid.yaml")
        .read_text()
        .replace('release: "12"}', f'release: "{release}"}}\n  frameworks: {frameworks}')
    )
    path.write_text(text)
    return path


def test_a_file_is_a_framework(tmp_path: Path) -> None:
    (tmp_path / "flax.yaml").write_text(FILE.replace("SHA", "f" * 64))
    (tmp_path / "broken.yaml").write_text(FILE.replace("SHA", "none"))
    found = Folder(tmp_path, PinnedFramework)
    assert tuple(found) == ("broken", "flax")
    flax = found["flax"]
    assert (flax.versions, flax.build("1.0", "3.13", "2.36"), flax.build("1.0", "3.11", "2.27")) == (
        ("1.0",),
        None,
        None,
    )
    assert flax.build("1.0", "3.11", "2.36") == flax.builds[0]
    with pytest.raises(FolderError, match=r"broken\.yaml: .*sha256"):
        found["broken"]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_builds_are_those_of_their_version_and_python(name: str) -> None:
    for build in FRAMEWORKS[name].builds:
        first = build.wheels[0].file.split("-")
        assert (first[0].startswith(name), first[1]) == (True, build.version)
        tag = f"cp{build.python.replace('.', '')}"
        foreign = [wheel.file for wheel in build.wheels if "-cp3" in wheel.file and tag not in wheel.file]
        assert all("-abi3-" in file for file in foreign)


def test_nodes_with_gpus_get_the_build_for_cuda(tmp_path: Path) -> None:
    for build in FRAMEWORKS["jax"].builds:
        plugin = [wheel.file for wheel in build.wheels if wheel.file.startswith("jax_cuda12_plugin")]
        assert (build.device, bool(build.cuda)) == (("cuda", True) if plugin else ("cpu", False))
        assert FRAMEWORKS["jax"].build(build.version, build.python, "2.36", build.device) == build
    text = (ROOT / "blueprints" / "dgx-h100-site.yaml").read_text().replace("../", f"{ROOT}/")
    (tmp_path / "b.yaml").write_text(text.replace('pytorch: "2.10.0"', 'pytorch: "2.10.0", jax: "0.10.2"'))
    loaded = load(tmp_path / "b.yaml")
    jax = loaded.cluster.framework("jax")
    assert jax and "jax_cuda12_plugin-0.10.2" in " ".join(wheel.file for wheel in jax.wheels)
    catalog = load_catalog().extended(loaded.blueprint.hardware, loaded.blueprint.parts)
    said = declared(loaded.blueprint, catalog, catalog.distributions["debian", "12"], nvidias=False)
    assert [each.shown for each in said if each.component == "pytorch_cuda"] == [
        "PyTorch 2.10.0 for CUDA 12.8",
        "JAX 0.10.2 for CUDA 12.9",
    ]


def test_a_framework_without_a_build_for_gpus_is_for_cpus() -> None:
    tensorflow = FRAMEWORKS["tensorflow"]
    on_gpus = tensorflow.build(tensorflow.versions[0], "3.11", "2.36", "cuda")
    assert on_gpus and on_gpus == tensorflow.build(tensorflow.versions[0], "3.11", "2.36")
    jax = FRAMEWORKS["jax"]
    assert jax.build("0.10.2", "3.11", "2.36", "rocm") == jax.build("0.10.2", "3.11", "2.36")


@pytest.mark.parametrize(
    ("frameworks", "release", "said"),
    [
        ('{jax: "0.1"}', "12", ("unknown JAX version `0.1`", "known: 0.10.2, 0.9.2")),
        ('{jax: ["0.10.2", "0.9.2", "0.10.2"]}', "12", ("a.yaml:12:41", "`0.10.2` is named twice")),
        ('{jax: ["0.10.2", "0.1"]}', "12", ("a.yaml:12:32", "unknown JAX version `0.1`")),
        ("{jax: [new]}", "12", ("a.yaml:12:22", "`new` is not a version")),
        ("{jax: new}", "12", ("a.yaml:12:21", "`new` is not a version")),
        ('{jax: "0.10.2"}', "14", ("no pinned wheels of JAX 0.10.2 for Python 3.14 of debian 14", "Python 3.11, 3.13")),
        ('{theano: "1.0"}', "12", ("theano",)),
        ('{pytorch: ["2.13.0", "2.10.0"]}', "12", ("no pinned build of PyTorch 2.10.0 for Python 3.11 and cpu",)),
        ('{pytorch: ["2.13.0", "2.13.0"]}', "12", ("`2.13.0` is named twice",)),
    ],
)
def test_what_is_not_pinned_is_refused(tmp_path: Path, frameworks: str, release: str, said: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput) as raised:
        load(blueprint(tmp_path, frameworks, release))
    assert all(text in raised.value.shown() for text in said)


def test_wheels_are_served_once_and_listed_for_each_framework(tmp_path: Path) -> None:
    loaded = load(blueprint(tmp_path, '{jax: "0.10.2", tensorflow: "2.21.0"}'))
    made = compile_desired(loaded.cluster, load_roles(*loaded.role_folders), {})
    files = {file.path: file for one in made.nodes["w01"] for file in one.of(File)}
    text = made.texts[str(files["/opt/hpcforge/jax.requirements"].digest)]
    numpy = next(wheel for wheel in FRAMEWORKS["jax"].builds[0].wheels if wheel.file.startswith("numpy"))
    assert f"/wheels/{numpy.file} --hash=sha256:{numpy.sha256}\n" in text
    assert sum(artifact.name == f"wheels/{numpy.file}" for artifact in made.artifacts) == 1


def test_versions_are_side_by_side_and_the_first_is_the_default(tmp_path: Path) -> None:
    loaded = load(blueprint(tmp_path, '{jax: ["0.9.2", "0.10.2"]}\nroles: {lmod: {enabled: true}}'))
    framework = loaded.cluster.framework("jax")
    assert framework is not None
    assert (framework.version, framework.python) == ("0.9.2", "/opt/hpcforge/jax/bin/python")
    made = compile_desired(loaded.cluster, load_roles(*loaded.role_folders), {})
    files = {file.path: str(file.digest) for one in made.nodes["w01"] for file in one.of(File)}
    modules = {
        path.removeprefix("/etc/lmod/modules/jax/"): made.texts[files[path]] for path in files if "/jax/" in path
    }
    assert modules.pop(".modulerc.lua") == 'module_version("jax/0.9.2", "default")\n'
    assert {name: text.splitlines()[-1] for name, text in modules.items()} == {
        "0.9.2.lua": 'prepend_path("PATH", "/opt/hpcforge/jax/bin")',
        "0.10.2.lua": 'prepend_path("PATH", "/opt/hpcforge/jax-0.10.2/bin")',
    }
    assert {"/opt/hpcforge/jax.requirements", "/opt/hpcforge/jax-0.10.2.requirements"} <= set(files)


def test_the_site_chooses_another_default(tmp_path: Path) -> None:
    roles = "roles: {lmod: {enabled: true, defaults: [jax/0.10.2]}}"
    loaded = load(blueprint(tmp_path, f'{{jax: ["0.9.2", "0.10.2"]}}\n{roles}'))
    made = compile_desired(loaded.cluster, load_roles(*loaded.role_folders), {})
    (chosen,) = (file for one in made.nodes["w01"] for file in one.of(File) if file.path.endswith("/jax/.modulerc.lua"))
    assert made.texts[str(chosen.digest)] == 'module_version("jax/0.10.2", "default")\n'


def test_a_second_pytorch_is_beside_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog pins one for each device: here it has one more for CPUs."""
    catalog = load_catalog()
    older = catalog.pytorch[0].model_copy(update={"version": "2.12.1"})
    monkeypatch.setattr(
        sys.modules["hpcforge.cluster.load.loaded"],
        "load_catalog",
        lambda: replace(catalog, pytorch=(*catalog.pytorch, older)),
    )
    roles = "roles: {lmod: {enabled: true}}"
    loaded = load(blueprint(tmp_path, f'{{pytorch: ["2.13.0", "2.12.1"]}}\n{roles}'))
    assert loaded.cluster.pytorch is not None
    assert loaded.cluster.pytorch.version == "2.13.0"
    made = compile_desired(loaded.cluster, load_roles(*loaded.role_folders), {})
    files = {file.path: str(file.digest) for one in made.nodes["w01"] for file in one.of(File)}
    assert {"/opt/hpcforge/pytorch.requirements", "/opt/hpcforge/pytorch-2.12.1.requirements"} <= set(files)
    modules = "/etc/lmod/modules/pytorch"
    assert made.texts[files[f"{modules}/.modulerc.lua"]] == 'module_version("pytorch/2.13.0", "default")\n'
    assert "/opt/hpcforge/pytorch-2.12.1/bin" in made.texts[files[f"{modules}/2.12.1.lua"]]
