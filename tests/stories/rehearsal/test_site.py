"""The blueprint of a real site, unchanged, on this machine; and what a mistake in it comes to there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from tests.support.real_site import Rehearsal
from tests.support.site import REPOSITORY

pytestmark = pytest.mark.lab

SHIPPED = REPOSITORY / "blueprints" / "dgx-h100-site.yaml"
NODES = "login01,gpu[001-002,031]"  # of each kind enough, and a node of both partitions: the rest would cost time alone


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    here = Rehearsal(tmp_path_factory.mktemp("site"), f"test-site-{os.getpid()}")
    try:
        yield here
    finally:
        here.cli("rehearse", "down")


def test_a_sites_blueprint_comes_up_as_it_is(site: Rehearsal) -> None:
    up = site.cli("rehearse", "up", str(SHIPPED), "--nodes", NODES)
    assert re.findall(r"^(\w+) +10\.77\.\d+\.\d+ +running$", up, flags=re.MULTILINE) == [
        "head01", "login01", "gpu001", "gpu002", "gpu031",
    ]  # fmt: skip
    assert f" apply {SHIPPED} --lab {site.lab}\n" in up
    said = site.cli("apply", str(SHIPPED), "--yes")
    assert re.findall(r"^(\w+) +passed  (\d+ ranks|\d+ processes)? ?", said, flags=re.MULTILINE)
    assert "FAILED" not in said
    assert "not rehearsed: 31 of 36 nodes; memory, cores; GPUs; " in said
    assert "10.20." not in said.partition("@@")[0]


def test_slurm_has_its_nodes_partitions_and_gpus(site: Rehearsal) -> None:
    nodes = "train* 2-00:00:00 idle gpu[001-002] gpu:h100-sxm:8\ndebug 1:00:00 idle gpu031 gpu:h100-sxm:8\n"
    site.becomes("login01", "sinfo -h -o '%P %l %T %N %G'", nodes)  # jobs of the smoke tests complete for a moment
    environment = site.inside("head01", "sudo -iu tests srun -N2 --gres=gpu:h100-sxm:8 env").splitlines()
    assert environment.count("CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7") == 2
    assert {"SLURMD_NODENAME=gpu001", "SLURMD_NODENAME=gpu002", "USER=tests"} <= {*environment}


def test_all_that_differs_from_the_site_has_its_stand_in(site: Rehearsal) -> None:
    said = site.cli("rehearse", "compare", "--full", str(SHIPPED))
    assert said.startswith("rehearsed on gpu[001-002,031],head01,login01\n")
    assert said.endswith("; not explained: 0\n")
    assert site.cli("plan", str(SHIPPED)).startswith("not rehearsed: ")


def test_nothing_of_it_is_kept_as_the_sites(site: Rehearsal) -> None:
    assert [path.name for path in (site.folder / "state" / "hpcforge").iterdir()] == [f"aurora@{site.lab}"]
    assert not SHIPPED.with_suffix(".age").exists()


def test_a_mistake_that_only_a_node_notices_fails_as_it_would_there(site: Rehearsal) -> None:
    wrong = site.folder / "wrong.yaml"
    text = SHIPPED.read_text().replace("inventory: ../inventory/", f"inventory: {REPOSITORY}/inventory/")
    text = text.replace("  controller: head01\n", "  controller: head01\n  settings: {MCSPlugin: mcs/absent}\n")
    wrong.write_text(text)
    said = site.cli("apply", str(wrong), "--yes", code=5)
    assert re.search(r"slurm_controller FAILED: .*fatal: failed to initialize mcs plugin", said)
    site.becomes("head01", "scontrol ping | grep -c 'is UP$' || :", "1\n")  # with the configuration from before
    assert "mcs/absent" not in site.inside("head01", "cat /etc/slurm/slurm.conf")
    site.cli("apply", str(SHIPPED), "--yes", "--verify", "none")
    site.becomes("head01", "scontrol ping | grep -c 'is UP$' || :", "1\n")
