"""`blueprints/software-lab.yaml`: training and MPI in containers, TensorFlow and JAX on two nodes, modules."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest

from tests.stories.jobs.test_jobs import applied, job, tried
from tests.support.site import REPOSITORY, Site

pytestmark = [pytest.mark.lab, pytest.mark.training]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("software")
    (folder / "blueprints").mkdir()
    shipped = (REPOSITORY / "blueprints" / "software-lab.yaml").read_text()
    with applied(folder, "software", shipped) as here:
        yield here


def test_nothing_is_left_to_do(site: Site) -> None:
    assert "Nothing to do on 3 nodes" in site.cli("apply", "BLUEPRINT", "--yes").stderr


@pytest.mark.parametrize(("module", "imported"), [("pytorch", "torch"), ("tensorflow", "tensorflow"), ("jax", "jax")])
def test_a_module_has_the_framework_and_replaces_another(site: Site, module: str, imported: str) -> None:
    imports = f"import {imported} as m; print(m.__file__)"
    script = f"module load jax {module} 2>/dev/null; module -t list 2>&1; python -c '{imports}' 2>/dev/null"
    listed, file = job(site, script).splitlines()[-2:]
    assert listed.startswith(f"{module}/")
    assert file.startswith(f"/opt/hpcforge/{module}")


def test_versions_of_a_framework_are_side_by_side(site: Site) -> None:
    says = "python -c 'import jax; print(jax.__version__)'"
    script = f"module load jax; {says}; module load jax/0.9.2 2>/dev/null; {says}; module -t list 2>&1"
    assert job(site, script).splitlines() == ["0.10.2", "0.9.2", "jax/0.9.2"]


def test_another_version_trains_too(site: Site) -> None:
    program = "python /opt/hpcforge/smoke_tests/jax_train.py --steps=20"
    where = "export HPCFORGE_MEETING=10.79.0.21:29412 PYTHONPATH=/opt/hpcforge/smoke_tests"
    said = job(site, f"{where}; module load jax/0.9.2; {program}", "-N2", "-n2")
    assert "JAX over 2 ranks: loss" in said


@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
def test_wrong_weights_are_named(site: Site, framework: str) -> None:
    """As an ordinary user runs it: two tasks that meet on the first node."""
    program = f"/opt/hpcforge/{framework}/bin/python /opt/hpcforge/smoke_tests/{framework}_train.py --falsify"
    where = "HPCFORGE_MEETING=10.79.0.21:29411 PYTHONPATH=/opt/hpcforge/smoke_tests"
    code, said = tried(site, f"{where} {program}", "-N2", "-n2")
    assert (code, "wrong: weights after 50 steps on rank 0 of 2" in said) == (3, True), said


def test_training_outside_of_a_container_is_wrong(site: Site) -> None:
    program = "from pathlib import Path; import train_container; print(train_container.MARK.is_file())"
    script = f"PYTHONPATH=/opt/hpcforge/smoke_tests /opt/hpcforge/pytorch/bin/python -c '{program}'"
    assert job(site, script) == "False"


def test_mpi_in_a_container_is_one_program(site: Site) -> None:
    """Each node has an image of its own packages; srun starts a rank in each."""
    make = "rm -rf image && TMPDIR=$PWD python3 /opt/hpcforge/smoke_tests/node_image.py python3-mpi4py -- true"
    job(site, make, "-N2", "-n2")
    program = "from mpi4py import MPI; c = MPI.COMM_WORLD; print(c.allreduce(c.rank + 1), c.size, *open(MARK), end='')"
    program = program.replace("MARK", "'/etc/hpcforge-image'")
    starts = "export PMIX_MCA_gds=hash; exec ch-run image -- python3 -c"
    said = job(site, f"{starts} {shlex.quote(program)}", "-N2", "-n2").splitlines()
    assert [line.split()[:2] for line in said if line[:1].isdecimal()] == [["3", "2"], ["3", "2"]]
    assert said.count(" python3-mpi4py") == 2


def test_mpi_in_a_container_without_its_library_is_an_error(site: Site) -> None:
    job(site, "rm -rf image && TMPDIR=$PWD python3 /opt/hpcforge/smoke_tests/node_image.py python3 -- true")
    code, said = tried(site, "ch-run image -- python3 -c 'from mpi4py import MPI'")
    assert (code != 0, "No module named 'mpi4py'" in said) == (True, True), said
