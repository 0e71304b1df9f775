"""`image build --metal`: what the image has for a machine that has nothing, by the templates and by roles' packages."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from hpcforge.cluster import load
from hpcforge.image import recipe
from hpcforge.image.manifest import to_text
from hpcforge.image.request import ImageRequest
from hpcforge.run.site import bootable, for_machines, image_request
from hpcforge.starter.draft import OF_MACHINES, templates
from tests.support.images import MANIFEST
from tests.support.in_process import hpcforge

HEADERS = "linux-headers-amd64"


def of_template(folder: Path, name: str, old: str = "", new: str = "") -> Path:
    """A blueprint as `init` writes it, with one text replaced."""
    site = folder / "site.yaml"
    assert hpcforge("init", str(site), "--template", name).returncode == 0
    text = site.read_text()
    assert old in text
    site.write_text(text.replace(old, new))
    return site


def of_machines(site: Path) -> ImageRequest:
    loaded = load(site)
    return for_machines(loaded, image_request(loaded))


def assert_bootable(request: ImageRequest, *needed: str) -> None:
    assert set(needed) <= set(request.packages)
    assert not set(request.packages) & {left.package for left in request.left}  # else another set is locked


@pytest.mark.parametrize("name", sorted(templates().keys() - {OF_MACHINES}))
def test_an_image_of_each_template_has_a_kernel_that_no_role_keeps_back(tmp_path: Path, name: str) -> None:
    assert_bootable(of_machines(of_template(tmp_path, name)), recipe.METAL_KERNEL)


@pytest.mark.parametrize("name", ["mixed", "roce"])
def test_headers_come_with_the_kernel_and_the_driver_with_the_first_apply(tmp_path: Path, name: str) -> None:
    request = of_machines(of_template(tmp_path, name))
    assert_bootable(request, recipe.METAL_KERNEL, HEADERS)
    assert "nvidia-open-kernel-dkms" in {left.package for left in request.left}
    assert ("rdma-core" in request.packages) == (name == "roce")


def test_a_kernel_that_the_blueprint_names_is_the_one_of_the_image(tmp_path: Path) -> None:
    named = 'preinstalled: {kernel: 6.1.0-40-amd64}\n  os: {name: debian, release: "12"}'
    site = of_template(tmp_path, "mixed", 'os: {name: debian, release: "12"}', named)
    request = of_machines(site)
    assert_bootable(request, "linux-image-6.1.0-40-amd64", "linux-headers-6.1.0-40-amd64")
    assert recipe.METAL_KERNEL not in request.packages  # it would be started, and has no headers


def test_amds_kernel_is_in_the_image_and_its_firmware_comes_later(tmp_path: Path) -> None:
    site = of_template(tmp_path, "mixed", "model: l40s", "model: mi210")
    text = re.sub(r"nvidia: .*", 'amd: {rocm: "5.2.3"}', site.read_text())
    site.write_text(re.sub(r"(?m)^  frameworks: .*$", "", text))
    request = of_machines(site)
    assert_bootable(request, recipe.METAL_KERNEL)
    assert "firmware-amd-graphics" in {left.package for left in request.left}
    assert HEADERS not in request.packages


def test_mirrors_take_mdadm_in_every_image_that_boots(tmp_path: Path) -> None:
    site = of_template(tmp_path, "mixed", "hardware: cpu-2u}", "hardware: cpu-2u, system_disk: {drives: 2}}")
    loaded = load(site)
    request = image_request(loaded)
    assert recipe.MIRRORS in bootable(loaded, request).packages and recipe.MIRRORS in of_machines(site).packages
    assert recipe.MIRRORS not in request.packages


@pytest.mark.skipif(os.geteuid() != 0, reason="images are built by root")
def test_a_build_for_machines_names_gpus_without_a_driver_and_the_line_that_gives_them_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPCFORGE_CACHE_DIR", str(tmp_path))
    site = of_template(tmp_path, "mixed", "nvidia: {driver", "preinstalled: {driver")
    (tmp_path / "lock.json").write_text(to_text(MANIFEST))  # of another image, so that none is built
    build = ("image", "build", str(site), "--locked", str(tmp_path / "lock.json"))
    said = hpcforge(*build, "--metal").stderr
    assert "warning: g[01-02] get no NVIDIA driver by an image: `preinstalled` installs nothing" in said
    line = 'nvidia: {driver: "535.261.03", modules: open}'
    assert f"hint: instead of `driver` and `modules` here write `{line}` under `software`" in said
    assert "does not match this image" in said
    assert "no NVIDIA driver" not in hpcforge(*build, "--disk").stderr + hpcforge("validate", str(site)).stderr
    site.write_text(re.sub(r"preinstalled: {driver.*", line, site.read_text()))
    assert "no NVIDIA driver" not in hpcforge(*build, "--metal").stderr
