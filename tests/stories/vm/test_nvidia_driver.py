"""Another driver for machines in service: their kernels load its module after one restart each. `make test-vm`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.nvidia_fleet import Fleet, fleet
from tests.support.nvidia_repository import NEW_570, OLD_570

pytestmark = pytest.mark.vm

LOADED = "cat /sys/module/nvidia/version"  # as the kernel itself says


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three machines, with kernels of their own."""
    with fleet(tmp_path_factory.mktemp("machines"), "vm", workers=2) as here:
        yield here


def test_two_workers_have_a_driver_that_their_kernels_have_loaded(up: Fleet) -> None:
    up.with_driver()
    for worker in up.workers:
        assert up.site.ssh(worker, "systemd-detect-virt").strip() in ("qemu", "kvm")
        assert up.site.ssh(worker, LOADED) == f"{OLD_570}\n"


def test_a_kernel_without_a_matching_driver_is_refused_and_no_machine_is_touched(up: Fleet) -> None:
    up.refuses_a_kernel()


def test_a_driver_for_two_machines_is_two_drains_and_two_restarts_of_kernels(up: Fleet) -> None:
    up.gets_another_driver()
    for worker in up.workers:
        assert up.site.ssh(worker, LOADED) == f"{NEW_570}\n"
