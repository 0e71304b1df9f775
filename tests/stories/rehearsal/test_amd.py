"""Nodes whose stand-ins are asked to be AMD's get Debian's ROCm; Slurm sets AMD's variable alone. No GPU is there."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.site import Site

pytestmark = pytest.mark.lab

BLUEPRINT = """\
schema: 1
name: red
domain: red.example.org
access: {user: ops, become: sudo}
nodes: {n01: {functions: [head, worker], hardware: small, addresses: 10.84.0.10}}
hardware: {small: {like: rehearsal-node, gpus: {model: mi210, count: 2}, gpus_max: 2}}
networks: {cluster: {cidr: 10.84.0.0/24}}
services: {dns: {on: n01}, time: {on: n01}}
software:
  os: {name: debian, release: "RELEASE"}
  amd: {rocm: "ROCM"}
slurm:
  controller: n01
  reserve: {cores: 0, memory_gib: 1}
  enforce: []                         # containers cannot hold jobs to their share
  partitions: {main: {nodes: n01, default: true}}
users: {ada: {uid: 2001}}
"""


@pytest.fixture(scope="module", params=[("12", "5.2.3"), ("13", "5.7.1")], ids=["debian-12", "debian-13"])
def red(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, str]]:
    release, rocm = request.param
    site = Site(tmp_path_factory.mktemp("red"), f"test-amd-{release}-{os.getpid()}")
    site.blueprint.parent.mkdir(exist_ok=True)
    site.blueprint.write_text(BLUEPRINT.replace("RELEASE", release).replace("ROCM", rocm))
    try:
        assert site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        done = site.cli("apply", "BLUEPRINT", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        yield site, rocm
    finally:
        site.cli("rehearse", "down")


def test_rocm_is_there_at_its_version_held_and_can_be_loaded(red: tuple[Site, str]) -> None:
    site, rocm = red
    fields = "'${db:Status-Abbrev}${Package} ${source:Upstream-Version}\\n'"
    said = site.ssh("n01", f"dpkg-query -W -f {fields} libamdhip64-5 rocm-smi rocminfo").splitlines()
    assert f"hi libamdhip64-5 {rocm}" in said
    assert [line.split()[:2] for line in said[1:]] == [["ii", "rocm-smi"], ["ii", "rocminfo"]]
    assert "rocm-hipamd" in site.ssh("n01", "cat /etc/apt/preferences.d/*")
    site.ssh("n01", "python3 -c \"import ctypes; ctypes.CDLL('libamdhip64.so.5')\"")


def test_slurm_hands_out_amds_by_their_own_variable(red: tuple[Site, str]) -> None:
    site, _ = red
    site.becomes("n01", "sinfo -h -o '%D %T %G'", "1 idle gpu:mi210:2\n")
    said = site.ssh("n01", "sudo -iu ada srun --gres=gpu:2 env").splitlines()
    assert "ROCR_VISIBLE_DEVICES=0,1" in said
    assert not [line for line in said if line.startswith("CUDA_VISIBLE_DEVICES")]


def test_a_second_plan_has_nothing_to_do(red: tuple[Site, str]) -> None:
    site, _ = red
    done = site.cli("plan", "BLUEPRINT")
    assert done.returncode == 0, done.stdout
