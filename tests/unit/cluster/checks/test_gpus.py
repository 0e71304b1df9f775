"""Nodes that hpcforge installs, and whose GPUs get no driver: what `validate` says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.cluster import load

SITE = """
schema: 1
name: small
domain: small.example.org
access: {user: ops}
nodes:
  head: {functions: [head], hardware: plain, addresses: 10.1.0.1}
  g[1-2]: {functions: [worker], hardware: plain, gpus: GPUS, addresses: "10.1.0.[11-12]", system_disk: {drives: 2}}
  g3: {functions: [worker], hardware: plain, gpus: GPUS, addresses: 10.1.0.13}
hardware: {plain: {memory_gib: 64, sockets: 2, cores_per_socket: 16, threads_per_core: 2}}
networks: {mgmt: {cidr: 10.1.0.0/24}}
services: {dns: {on: head}, time: {on: head}}
software:
  os: {name: debian, release: "12"}
  DRIVER
slurm: {controller: head, partitions: {main: {nodes: all, default: true}}}
"""
NVIDIA, AMD, FAKE = "{model: l40s, count: 2}", "{model: mi210, count: 2}", "{model: fake, count: 2}"
NONE = "# none"


def warnings(folder: Path, gpus: str, driver: str) -> list[str]:
    site = folder / "site.yaml"
    site.write_text(SITE.replace("GPUS", gpus).replace("DRIVER", driver))
    found = [entry for entry in load(site).found if "by an image" in entry.message]
    return [f"{entry.line} {entry.severity} {entry.message} | {entry.hint}" for entry in found]


@pytest.mark.parametrize(
    ("gpus", "driver", "expected"),
    [
        (
            NVIDIA,
            'preinstalled: {driver: "535.261.03", modules: closed}',
            "15 warning g[1-2] get no NVIDIA driver by an image: `preinstalled` installs nothing | "
            "instead of `driver` and `modules` here write "
            '`nvidia: {driver: "535.261.03", modules: closed}` under `software`',
        ),
        (
            NVIDIA,
            NONE,
            "13 warning g[1-2] get no NVIDIA driver by an image | "
            'write `nvidia: {driver: "VERSION", modules: open}` here (docs/software.md)',
        ),
        (
            AMD,
            NONE,
            "13 warning g[1-2] get no firmware for AMD's driver by an image | "
            'write `amd: {rocm: "VERSION"}` here (docs/software.md)',
        ),
    ],
)
def test_installed_nodes_whose_gpus_get_no_driver_are_named(
    tmp_path: Path, gpus: str, driver: str, expected: str
) -> None:
    assert warnings(tmp_path, gpus, driver) == [expected]


@pytest.mark.parametrize(
    ("gpus", "driver"),
    [(NVIDIA, 'nvidia: {driver: "535.261.03", modules: open}'), (AMD, 'amd: {rocm: "5.2.3"}'), (FAKE, NONE)],
)
def test_a_driver_that_hpcforge_installs_is_no_warning(tmp_path: Path, gpus: str, driver: str) -> None:
    assert warnings(tmp_path, gpus, driver) == []
