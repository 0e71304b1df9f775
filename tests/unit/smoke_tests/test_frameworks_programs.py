"""What tests of frameworks and of containers share: meeting, the reference, and the image of a node's packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.smoke_tests.test_jobs_programs import PROGRAMS

sys.path.insert(0, str(PROGRAMS))
import least_squares
import node_image

# numpy in place of a framework: ranks average their gradients through files.
TRAIN = """
import json, os, pathlib, sys, time
import least_squares as shared, numpy as np
def train(place, steps):
    weights, folder = np.zeros(shared.COLUMNS), pathlib.Path(sys.argv.pop())
    for step in range(steps):
        mine = shared.gradient(weights, *shared.rows_of(place.rank))
        (folder / f"new-{place.rank}").write_text(json.dumps(list(mine)))
        (folder / f"new-{place.rank}").rename(folder / f"{step}-{place.rank}")
        every = [folder / f"{step}-{rank}" for rank in range(place.ranks)]
        while not all(path.exists() for path in every):
            time.sleep(0.001)
        weights = weights - shared.RATE * np.mean([json.loads(path.read_text()) for path in every], axis=0)
    return weights, "cpu"
folder = sys.argv.pop(1)
def with_folder(place, steps):
    sys.argv.append(folder)
    return train(place, steps)
sys.exit(shared.main("numpy", with_folder))
"""


@pytest.mark.parametrize("falsify", [False, True])
def test_ranks_meet_and_train_as_numpy_does(tmp_path: Path, falsify: bool) -> None:
    port = least_squares.own_port("127.0.0.1")
    environment = {**os.environ, "PYTHONPATH": str(PROGRAMS), "SLURM_NTASKS": "3", "HPCFORGE_MEETING": port}
    words = [sys.executable, "-c", TRAIN, str(tmp_path), "--json", "--steps=5", *(["--falsify"] if falsify else [])]
    tasks = [
        subprocess.Popen(
            words, env={**environment, "SLURM_PROCID": str(task), "SLURM_LOCALID": str(task)},
            stdout=subprocess.PIPE, text=True,
        )
        for task in (2, 1, 0)
    ]  # fmt: skip
    said = [[json.loads(line) for line in task.communicate(timeout=60)[0].splitlines()] for task in tasks]
    events = [[event["event"] for event in each] for each in said]
    assert sorted(task.returncode for task in tasks) == ([0, 0, 3] if falsify else [0, 0, 0])
    last = ["assertion", "wrong"] if falsify else ["assertion", "measurement", "result"]
    assert sorted(events) == sorted([["assertion"], ["assertion"], last])


@pytest.mark.parametrize(
    ("plugin", "driver", "platform"),
    [("xla_cuda12", True, "cuda"), ("xla_cuda12", False, "cpu"), ("xla_rocm7", True, "cpu"), (None, True, "cpu")],
)
def test_jax_trains_on_gpus_where_it_and_the_node_have_them(
    plugin: str | None, driver: bool, platform: str, tmp_path: Path
) -> None:
    """The plugin is an entry point of its wheel, as JAX finds it."""
    package = tmp_path / "plugin-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
    (package / "entry_points.txt").write_text(f"[jax_plugins]\n{plugin} = plugin\n" if plugin else "")
    (tmp_path / "version").write_text("NVRM version: 580.159.04\n") if driver else None
    code = "import sys, pathlib, jax_train; print(jax_train.platform(pathlib.Path(sys.argv[1])))"
    folders = (tmp_path, PROGRAMS, PROGRAMS / "jax_train")
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "version")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout == f"{platform}\n"


def test_training_lowers_the_loss_and_needs_every_rank() -> None:
    weights = least_squares.expected(2, 50)
    assert least_squares.loss(weights, 2) < least_squares.loss(weights * 0, 2) / 10
    alone = least_squares.expected(1, 50)
    assert abs(alone - weights).max() > 1e6 * least_squares.TOLERANCE


def test_packages_come_with_what_they_need() -> None:
    needs = {"python3": [["libc6"], ["mail-agent", "sendmail"]], "libc6": [], "postfix": [["libc6"]], "vim": []}
    assert node_image.with_needs(["python3"], needs, {"mail-agent": "postfix"}) == {"python3", "libc6", "postfix"}
    with pytest.raises(node_image.NoImageError, match="package torch is not installed on this node"):
        node_image.with_needs(["torch"], needs, {})


def test_names_have_no_versions() -> None:
    assert node_image.names("libc6 (>= 2.36), python3:any , ", ",") == ["libc6", "python3"]


def test_a_link_brings_what_it_points_to(tmp_path: Path) -> None:
    there, image = tmp_path / "there", tmp_path / "image"
    there.mkdir()
    (there / "library.so.1").write_text("x")
    (there / "library.so").symlink_to("alternative.so")
    (there / "alternative.so").symlink_to(there / "library.so.1")
    node_image.copy(str(there / "library.so"), image)
    inside = image / str(there).lstrip("/")
    assert sorted(path.name for path in inside.iterdir()) == ["alternative.so", "library.so", "library.so.1"]


def test_a_missing_package_ends_with_its_name(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(PROGRAMS / "node_image.py"), "no-such-package", "--", "true"],
        env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 69
    assert "package no-such-package is not installed on this node" in ran.stderr


def test_the_driver_s_libraries_are_found_by_their_names() -> None:
    said = "\tlibnvidia-ml.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1\n"
    said += "\tlibcuda.so.1 (libc6,x86-64) => /lib/libcuda.so.1\n\tlibcurl.so.4 (libc6) => /lib/libcurl.so.4\n"
    assert node_image.DRIVER.findall(said) == ["/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/lib/libcuda.so.1"]
