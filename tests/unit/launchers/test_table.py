"""Launchers: a file in the folder is one."""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path

import pytest

from hpcforge.launchers import CONTAINERS, LAUNCHERS, Container, Launcher
from hpcforge.yaml_folder import Folder, FolderError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in LAUNCHERS:
        shutil.copy(str(resources.files("hpcforge.launchers").joinpath(f"{name}.yaml")), tmp_path)
    return tmp_path


def test_a_file_is_a_launcher(folder: Path) -> None:
    (folder / "mpirun.yaml").write_text(
        'description: of MPI\nprocess: process\nper_node: gpus\ncommand: [mpirun, -n, "{per_node}", "{more}"]\n'
    )
    found = Folder(folder, Launcher)
    assert sorted(found) == sorted(["mpirun", *LAUNCHERS])
    assert found["mpirun"].words({"per_node": "2", "more": ("a", "b c")}) == ["mpirun", "-n", "2", "a", "b c"]


def test_a_wrong_file_is_refused(folder: Path) -> None:
    (folder / "mpirun.yaml").write_text("description: processes of MPI\nper_node: cores\n")
    with pytest.raises(FolderError, match=r"mpirun\.yaml: per_node"):
        Folder(folder, Launcher)["mpirun"]


def test_those_there_are() -> None:
    assert LAUNCHERS["mpi"].srun[0] == "--mpi=pmix"
    assert {name: (each.ranked, each.pytorch, each.per_node) for name, each in LAUNCHERS.items()} == {
        "meeting": (False, False, "gpus"),
        "mpi": (False, False, "gpus"),
        "plain": (False, False, "one"),
        "srun": (False, False, "gpus"),
        "torchrun": (True, True, "gpus"),
        "torchrun_restarts": (True, True, "gpus"),
    }


def test_a_file_is_a_container_runtime(tmp_path: Path) -> None:
    (tmp_path / "podman.yaml").write_text('description: Podman\nenter: [podman, run, --rootfs, "{image}"]\n')
    assert Folder(tmp_path, Container)["podman"].enter[-1] == "{image}"
    assert all(any("{image}" in word for word in each.enter) for each in CONTAINERS.values())


def test_restarts_meet_at_the_first_node_by_its_address() -> None:
    values = {"python": "python3", "nodes": "2", "per_node": "4", "job": "7", "address": "10.0.0.1", "port": "29500"}
    words = LAUNCHERS["torchrun_restarts"].words({**values, "torchrun_options": ()})
    assert words[:2] == ["python3", "-c"]
    compile(words[2], "launcher", "exec")
    assert words[3] == "10.0.0.1"
    assert {"--rdzv_backend=c10d", "--rdzv_endpoint=10.0.0.1:29500", "--max_restarts=2", "--nnodes=2"} <= {*words}
