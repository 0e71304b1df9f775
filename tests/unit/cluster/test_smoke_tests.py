"""A site's own smoke test: asked for by name, brought to the workers, told its options, judged as shipped ones are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.cluster import load
from hpcforge.cluster.launches import ProgramLaunch
from hpcforge.cluster.model import SmokeTest
from hpcforge.kinds.files import File
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.roles.role import load_roles
from hpcforge.verify.head import Completed
from hpcforge.verify.step_verdict import judge
from hpcforge.verify.submit import launch, srun
from tests.support.shipped import ROOT

CASES = ROOT / "tests" / "unit" / "blueprint" / "cases"
PROGRAM = (CASES / "test_folders" / "site" / "disk_write" / "disk_write.py").read_text()


def asked(name: str, blueprint: Path) -> SmokeTest:
    acceptance = load(blueprint).cluster.acceptance
    assert acceptance is not None
    return next(one for one in acceptance.tests if one.name == name)


def test_its_program_is_brought_to_the_workers_and_follows_the_folder() -> None:
    loaded = load(CASES / "test_folders.yaml")
    made = compile_desired(loaded.cluster, load_roles(*loaded.role_folders), {})
    path = "/opt/hpcforge/smoke_tests/disk_write.py"
    files = {
        node: [file for one in made.nodes[node] for file in one.of(File) if file.path == path] for node in made.nodes
    }
    assert {node: len(found) for node, found in files.items()} == {"head": 0, "w01": 1, "w02": 1, "w03": 1, "w04": 1}
    assert made.texts[str(files["w01"][0].digest)] == PROGRAM


def test_it_is_launched_and_judged_as_shipped_ones_are() -> None:
    path = CASES / "test_folders.yaml"
    cluster, test = load(path).cluster, asked("disk_write", path)
    job = launch(cluster, [test], test.nodes)
    words = srun(job, "7")
    program = words.index("/opt/hpcforge/smoke_tests/disk_write.py")
    assert words[program - 1 : program + 2] == ["/usr/bin/python3", words[program], "--json"]
    lines = [
        f"{number}: {json.dumps(event)}"
        for number, node in enumerate(("w01", "w02"))
        for event in (
            {"event": "node", "host": node},
            {"event": "measurement", "sync_ms": 2.5 + number},
            {"event": "result"},
        )
    ]
    (verdict,) = judge(job, Completed(0, "".join(f"{line}\n" for line in lines), ""))
    assert (verdict.test, verdict.status, verdict.headline) == ("disk_write", "passed", "3 ms")


def test_a_program_is_told_every_option_as_one_word() -> None:
    cluster, test = load(CASES / "test_options.yaml").cluster, asked("disk_write", CASES / "test_options.yaml")
    words = srun(launch(cluster, [test], test.nodes, {"disk_write": ["--more"]}), "7")
    told = "--size-mib=64 --order=in_order --under=/scratch/a --direct=true --blocks-kib= --rest=120 --more"
    assert words[words.index("--json") + 1 :] == told.split()
    silent = asked("disk_write", CASES / "test_folders.yaml")
    words = srun(launch(cluster, [silent], silent.nodes), "7")
    told = "--size-mib=16 --order=in_order --under=/tmp --direct=false --blocks-kib=4,1024 --rest=1"
    assert words[words.index("--json") + 1 :] == told.split()


@pytest.mark.parametrize("text", ["$(touch x) `id` ${HOME}", "--next train_ddp", "a' b\" ; rm -rf /", "{{ 1+1 }}"])
def test_an_option_is_data(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "ours" / "say"
    folder.mkdir(parents=True)
    (folder / "say.py").touch()
    (folder / "test.yaml").write_text(
        "description: Says.\nlauncher: srun\nmeasures: {words: {unit: 1}}\nheadline: done\n"
        "options: {what: {type: text, default: hello, description: What.}}\n"
    )
    path = tmp_path / "a.yaml"
    said = text.replace("'", "''")
    asks = f"acceptance: {{run_as: ada, folders: [ours], tests: {{say: {{nodes: all, options: {{what: '{said}'}}}}}}}}"
    path.write_text((CASES / "valid.yaml").read_text().partition("acceptance:")[0] + asks + "\n")
    test = asked("say", path)
    assert test.options == (("what", text),)
    assert srun(launch(load(path).cluster, [test], test.nodes), "7")[-1] == f"--what={text}"


def test_only_what_is_chosen_otherwise_is_told_with_the_verdict() -> None:
    path = CASES / "test_options.yaml"
    assert asked("allreduce", path).options == (("sizes_kib", "1024,65536"),)
    chosen = (("size_mib", "64"), ("under", "/scratch/a"), ("direct", "true"), ("blocks_kib", ""), ("rest", "120"))
    assert asked("disk_write", path).options == chosen
    assert asked("disk_write", CASES / "test_folders.yaml").options == ()


@pytest.mark.parametrize("elsewhere", ["../theirs", "{tmp_path}/theirs"])
def test_the_folder_is_relative_to_the_blueprint_or_anywhere(tmp_path: Path, elsewhere: str) -> None:
    (tmp_path / "sites").mkdir()
    (tmp_path / "theirs").symlink_to(CASES / "test_folders" / "site")
    text = (CASES / "test_folders.yaml").read_text()
    path = tmp_path / "sites" / "a.yaml"
    path.write_text(text.replace("test_folders/site", elsewhere.format(tmp_path=tmp_path)))
    acceptance = load(path).cluster.acceptance
    assert acceptance is not None
    assert {one.name for one in acceptance.tests} == {"allreduce", "disk_write"}


TWO = """\
description: Two launches.
launcher: torchrun
needs: {modules: [numpy], ranks: {multiple_of: 2}}
launches: {save: {ends: killed, environment: {A: b}}, load: {launcher: srun, ranks_divided_by: 2}}
measures: {words: {unit: 1}}
headline: done
"""


def site(folder: Path, test: str, more: str = "") -> Path:
    """A blueprint that asks for one test of its own on all nodes."""
    (folder / "ours" / "two").mkdir(parents=True)
    (folder / "ours" / "two" / "two.py").touch()
    (folder / "ours" / "two" / "test.yaml").write_text(test)
    path = folder / "a.yaml"
    asks = "acceptance: {run_as: ada, folders: [ours], tests: {two: {nodes: all}}}\n"
    text = (CASES / "valid.yaml").read_text().partition("acceptance:")[0] + asks + more
    path.write_text(text.replace('release: "12"}', 'release: "12"}\n  frameworks: {pytorch: "2.13.0"}'))
    return path


def test_a_test_of_two_launches_is_one_folder(tmp_path: Path) -> None:
    program = asked("two", site(tmp_path, TWO)).program
    assert program.launches == (
        ProgramLaunch("save", "torchrun", "killed", environment=(("A", "b"),)),
        ProgramLaunch("load", "srun", ranks_divided_by=2),
    )
    assert (program.ranked, program.pytorch, program.modules) == (True, True, ("numpy",))


@pytest.mark.parametrize(
    ("old", "new", "said", "hint"),
    [
        ("[numpy]", "[numpy, scipy]", "no wheel of PyTorch's brings scipy", "the wheels bring filelock, "),
        (
            "multiple_of: 2",
            "multiple_of: 2, at_most: 2",
            "it needs a multiple of 2 and at most 2 ranks: ",
            "name another number of workers",
        ),
        ("needs: {", "needs: {scratch: shared, ", "it needs storage that all of ", "add it under `storage`"),
        ("needs: {", 'needs: {pytorch_at_least: "9.0", ', "it needs PyTorch 9.0, and the cluster has 2.13.0", "newer"),
        ("needs: {", "needs: {container: charliecloud, ", "its ranks run in charliecloud", "runtimes: [charliecloud]"),
        ("needs: {", "needs: {framework: jax, ", "it needs jax, and w[01-04] have none", "frameworks: {jax: VERSION}"),
    ],
)
def test_what_the_cluster_lacks_is_said_before_anything_runs(
    tmp_path: Path, old: str, new: str, said: str, hint: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        load(site(tmp_path, TWO.replace(old, new)))
    assert "`two` can never run: " in raised.value.shown()
    assert said in raised.value.shown()
    assert hint in raised.value.shown()


def test_shared_storage_is_enough_for_a_shared_folder(tmp_path: Path) -> None:
    storage = 'storage: {projects: {kind: nfs, external: "192.0.2.40:/export", mount: /projects}}\n'
    path = site(tmp_path, TWO.replace("needs: {", "needs: {scratch: shared, "), storage)
    cluster = load(path).cluster
    assert [system.mount for system in cluster.shared_by(asked("two", path).nodes)] == ["/projects"]


def test_a_module_of_a_test_without_wheels_is_a_package(tmp_path: Path) -> None:
    test = TWO.replace("torchrun", "srun").replace("[numpy]", "[numpy, ruamel_yaml, json]")
    assert load(site(tmp_path, test)).cluster.test_packages == ("python3-numpy", "python3-ruamel-yaml")
    (tmp_path / "wheels").mkdir()
    assert load(site(tmp_path / "wheels", TWO)).cluster.test_packages == ()


def test_modules_beside_the_folder_are_read_and_each_is_there_once(tmp_path: Path) -> None:
    path = site(tmp_path, TWO.replace("needs: {", "needs: {imports: [shared_model], "))
    with pytest.raises(InvalidInput) as raised:
        load(path)
    assert "`shared_model.py` is missing beside the folder two" in raised.value.shown()
    (folder,) = (each.parent for each in tmp_path.rglob("two") if each.is_dir())
    (folder / "shared_model.py").write_text("WIDTH = 64\n")
    (module,) = load(path).cluster.test_imports
    assert (module.name, module.text) == ("shared_model", "WIDTH = 64\n")


def test_a_program_of_another_test_can_be_imported_and_is_there_once(tmp_path: Path) -> None:
    path = site(tmp_path, TWO.replace("needs: {", "needs: {imports: [three], "))
    (folder,) = (each.parent for each in tmp_path.rglob("two") if each.is_dir())
    (folder / "three").mkdir()
    (folder / "three" / "three.py").write_text("WIDTH = 3\n")
    (folder / "three" / "test.yaml").write_text(
        "description: Three.\nlauncher: srun\nmeasures: {words: {unit: 1}}\nheadline: done\n"
    )
    (module,) = load(path).cluster.test_imports
    assert (module.name, module.text) == ("three", "WIDTH = 3\n")
    path.write_text(path.read_text().replace("two: {nodes: all}", "two: {nodes: all}, three: {nodes: all}"))
    cluster = load(path).cluster
    assert ({program.name for program in cluster.programs}, cluster.test_imports) == ({"two", "three"}, ())


@pytest.mark.parametrize("name", ["ranks", "json", "allreduce.py"])
def test_a_module_beside_the_folder_has_a_name_of_its_own(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        load(site(tmp_path, TWO.replace("needs: {", f"needs: {{imports: [{name}], ")))
