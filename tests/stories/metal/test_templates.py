"""Templates of `init` with GPUs whose driver hpcforge installs: from the image to a machine that has booted it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hpcforge.cli.exit_codes import Exit
from tests.support.in_process import hpcforge
from tests.support.metal_machines import Machine, Metal, built, metal

pytestmark = [pytest.mark.lab, pytest.mark.metal]

ADDRESS = "10.99.78.201"


def of_template(folder: Path, name: str) -> tuple[str, dict[str, dict[str, str]]]:
    """A blueprint, and the machines of its inventory, of which one has the address of the test's machine."""
    site = folder / "template" / "metal.yaml"
    site.parent.mkdir()
    assert hpcforge("init", str(site), "--template", name, "--network", "10.99.78.0/24").returncode == 0
    inventory = site.with_name("metal.inventory.yaml")
    machines = yaml.safe_load(inventory.read_text())["nodes"]
    machines["g01"]["address"] = ADDRESS
    return site.read_text().replace(inventory.name, "machines.yaml"), machines


def with_machines(there: Metal, machines: dict[str, dict[str, str]]) -> None:
    known = yaml.safe_load(there.site.inventory.read_text())
    there.site.inventory.write_text(yaml.safe_dump({**known, "nodes": machines}, sort_keys=False))


@pytest.mark.parametrize(("name", "packages"), [("mixed", "munge slurmd"), ("roce", "rdma-core ibverbs-providers")])
def test_a_gpu_worker_of_a_template_boots_its_image_with_the_headers_that_its_driver_takes(
    tmp_path: Path, name: str, packages: str
) -> None:
    blueprint, machines = of_template(tmp_path, name)
    with metal(tmp_path, [Machine(tmp_path)], blueprint) as there:
        with_machines(there, machines)
        # It has less than the template's server, which is printed; its record is written all the same.
        there.hpcforge("discover", "SITE", *there.controllers, "--trust-new", "--assign", "g01", code=Exit.BELOW)
        image = built(there, "--metal")
        assert "g01   installed" in there.by_hand(image, "g01", ADDRESS)
        assert there.ssh("hostname; uname -r | grep -c cloud || true", "g01") == "g01\n0\n"
        assert there.ssh("test -d /lib/modules/$(uname -r)/build/include && echo headers", "g01") == "headers\n"
        assert there.ssh(f"dpkg-query -W -f '${{db:Status-Status}} ' {packages}", "g01") == "installed installed "
        assert there.ssh("systemctl --failed --no-legend --plain", "g01") == ""
        there.hpcforge("image", "remove", image)  # 2 GiB, of which no other test has a use
