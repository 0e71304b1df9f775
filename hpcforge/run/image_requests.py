"""The image request of a blueprint: the packages of its roles, and a kernel where it boots."""

from __future__ import annotations

from hpcforge.cluster import Loaded
from hpcforge.image import recipe
from hpcforge.image.request import KERNELS, ImageRequest, request_of, with_kernel, with_packages
from hpcforge.run.site import compile_site, load_site_roles


def bootable(loaded: Loaded, request: ImageRequest, kernel: str = recipe.KERNEL) -> ImageRequest:
    """Return the request with what it takes to boot: a kernel, and mdadm where systems are on mirrors."""
    mirrored = any(node.system_disk.drives > 1 for node in loaded.cluster.nodes)
    return with_packages(with_kernel(request, kernel), [recipe.MIRRORS] if mirrored else [])


def for_machines(loaded: Loaded, request: ImageRequest) -> ImageRequest:
    """Return the request with the kernel of real machines: the release that the blueprint names, else the newest."""
    kernel = loaded.blueprint.software.preinstalled.kernel
    return bootable(loaded, request, f"{KERNELS}{kernel}" if kernel else recipe.METAL_KERNEL)


def image_request(loaded: Loaded) -> ImageRequest:
    """Return what an image of this blueprint is to be. Secrets are not read."""
    desired = compile_site(load_site_roles(loaded), {}, loaded.cluster)
    os = loaded.cluster.os
    return request_of(os.name, os.release, desired.nodes)
