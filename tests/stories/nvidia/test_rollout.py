"""Another driver for workers in service: each is drained once and restarted once, and no job is disturbed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.nvidia_fleet import Fleet, fleet
from tests.support.nvidia_repository import NEW_570, NEW_KERNEL

pytestmark = [pytest.mark.lab, pytest.mark.nvidia]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three containers, which keep this machine's kernel."""
    with fleet(tmp_path_factory.mktemp("fleet"), "nspawn", workers=3) as here:
        yield here


def test_three_workers_have_a_driver_that_is_loaded(up: Fleet) -> None:
    up.with_driver()


def test_a_kernel_without_a_matching_driver_is_refused_and_no_node_is_touched(up: Fleet) -> None:
    up.refuses_a_kernel()


def test_a_driver_for_three_workers_is_three_drains_and_three_restarts(up: Fleet) -> None:
    up.gets_another_driver()


def test_a_kernel_that_came_behind_our_back_is_named_and_one_that_matches_is_put_there(up: Fleet) -> None:
    image = f"sudo DEBIAN_FRONTEND=noninteractive apt-get install -y -q linux-image-{NEW_KERNEL}"
    up.site.ssh("w01", image)
    said = up.run("plan", code=2)
    assert (
        f"{NEW_KERNEL} has no headers, so that DKMS left its modules out: apt-get install linux-headers-{NEW_KERNEL}"
        in said
    )
    assert "1 node to change: w01; unchanged: head,w[02-03]" in said

    boots, told = up.boots(), up.told()
    up.write(NEW_570, NEW_KERNEL)
    up.run("apply", "--yes")
    assert up.each_once(up.told()[len(told) :])
    assert up.begun_since(boots) == {"head": 0, **dict.fromkeys(up.workers, 1)}
    assert up.modules(NEW_KERNEL) == {NEW_570}
    up.in_service()
