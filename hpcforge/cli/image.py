"""`hpcforge image`: one image for all nodes of a blueprint."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpcforge.blueprint.diagnostics import render_all
from hpcforge.blueprint.untrusted_files import read_named
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.site import lab_kind
from hpcforge.cluster import Loaded, load
from hpcforge.command_hint import command_line, from_here
from hpcforge.errors import UsageError
from hpcforge.host.commands import require_root
from hpcforge.image import recipe, store
from hpcforge.image.build import Tell, require_programs
from hpcforge.image.build import build as build_image
from hpcforge.image.disk import disk_of, disk_path
from hpcforge.image.manifest import Lock, MadeFor, Manifest, from_text
from hpcforge.image.request import KERNELS, ImageRequest, request_of, with_kernel, with_packages
from hpcforge.lab import state
from hpcforge.lab.kinds import KINDS
from hpcforge.report import printing
from hpcforge.report.event_stream import beside_document
from hpcforge.report.progress import Progress
from hpcforge.report.text import moment, phases_line, table
from hpcforge.run.site import compile_site, load_site_roles

_MIB = 1 << 20


def build(blueprint: Path, locked: Path | None, as_json: bool, *, disk: bool, metal: bool = False) -> int:
    """Run `hpcforge image build`. Returns the exit status."""
    loaded = load(blueprint, None)
    if loaded.cluster.os.name != "debian":
        raise UsageError(
            f"images of {loaded.cluster.os.name} are not supported", "set `software.os: {name: debian, ...}`"
        )
    request, lock = image_request(loaded), None if locked is None else _lock(locked)
    disk = disk or metal
    if metal:
        request = for_machines(loaded, request)
        printing.note(render_all(loaded.without_driver(loaded.cluster.nodes)), "diagnostics")
    elif disk:
        request = bootable(loaded, request)
    require_root()
    require_programs(disk=disk)
    made_for = MadeFor(str(blueprint.resolve()), hashlib.sha256(blueprint.read_bytes()).hexdigest())
    with beside_document(as_json=as_json) as progress, progress.phase("image"):
        built = build_image(
            request, loaded.cluster.name, made_for, state.lying_on, Tell(progress.say, progress.tally), lock
        )
        if disk:
            with disk_of(built.manifest, progress.say):
                built = replace(built, manifest=store.read(built.manifest.name))
    progress.ended(Exit.DONE)
    printing.note(phases_line(progress.human.phases, progress.human.elapsed_s))
    if as_json:
        document = {"schema_version": 1, "built": not built.was_there, "image": _entry(built.manifest)}
        printing.result(json.dumps(document, indent=2) + "\n")
    else:
        was_there = "it already existed\n" if built.was_there else ""
        printing.result(f"{was_there}{_table([built.manifest])}")
        on = "vm" if disk and not KINDS[lab_kind(loaded)].BOOTS else None
        up = command_line("rehearse", "up", blueprint, on=on)
        printing.note(f"Next: {command_line('plan', blueprint, install='all') if metal else up}\n")
    return Exit.DONE


def list_(as_json: bool) -> int:
    """Run `hpcforge image list`. Returns the exit status."""
    found = store.all_images()
    if as_json:
        printing.result(json.dumps({"schema_version": 1, "images": list(map(_entry, found))}, indent=2) + "\n")
    elif found:
        printing.result(_table(found))
    else:
        printing.note(f"There is none on this machine. Next: {command_line('image', 'build', 'BLUEPRINT')}\n")
    return Exit.DONE


def remove(name: str) -> int:
    """Run `hpcforge image remove`. Returns the exit status."""
    require_root()
    with Progress() as progress, store.lock(progress.say):
        store.remove(name, state.lying_on, progress.say)
        progress.say(f"removed image {name}")
    return Exit.DONE


def bootable(loaded: Loaded, request: ImageRequest, kernel: str = recipe.KERNEL) -> ImageRequest:
    """Return the request with what it takes to boot: a kernel, and mdadm where systems are on mirrors."""
    mirrored = any(node.system_disk.drives > 1 for node in loaded.cluster.nodes)
    return with_packages(with_kernel(request, kernel), [recipe.MIRRORS] if mirrored else [])


def for_machines(loaded: Loaded, request: ImageRequest) -> ImageRequest:
    """Return the request with the kernel of real machines: the release that the blueprint names, else the newest."""
    kernel = loaded.blueprint.software.preinstalled.kernel
    return bootable(loaded, request, f"{KERNELS}{kernel}" if kernel else recipe.METAL_KERNEL)


def image_request(loaded: Loaded) -> ImageRequest:
    """What an image of this blueprint is asked to be. Secrets are not read."""
    desired = compile_site(load_site_roles(loaded), {}, loaded.cluster)
    os = loaded.cluster.os
    return request_of(os.name, os.release, desired.nodes)


def _lock(path: Path) -> Lock:
    try:
        return from_text(read_named(path).decode(errors="replace"), str(path)).lock
    except FileNotFoundError:
        raise UsageError(
            f"manifest {path} does not exist", "the folder of an image has it: `image list --json`"
        ) from None


def _entry(found: Manifest | store.Unreadable) -> dict[str, Any]:
    if isinstance(found, store.Unreadable):
        return dataclasses.asdict(found)
    lock, request = found.lock, found.lock.request
    return {
        "name": found.name,
        "distribution": request.distribution,
        "release": request.release,
        "packages": len(lock.packages),
        "left": [dataclasses.asdict(left_package) for left_package in lock.left],
        "size_bytes": found.archive_bytes,
        "sha256": found.archive_sha256,
        "built_s": found.built_s,
        "hpcforge": found.hpcforge,
        "blueprints": [dataclasses.asdict(blueprint) for blueprint in found.blueprints],
        "archive": str(store.directory(found.name) / store.ARCHIVE),
        "disk": None if found.disk is None else {"path": str(disk_path(found)), **dataclasses.asdict(found.disk)},
        "manifest": str(store.directory(found.name) / store.MANIFEST),
    }


def _table(found: Any) -> str:
    return table(("image", "distribution", "packages", "size", "disk", "built", "blueprints"), list(map(_row, found)))


def _row(image: Manifest | store.Unreadable) -> list[str]:
    if isinstance(image, store.Unreadable):
        return [image.name, "unknown", "-", "-", "-", "-", image.problem]
    request = image.lock.request
    return [
        image.name,
        f"{request.distribution} {request.release}",
        str(len(image.lock.packages)),
        f"{image.archive_bytes // _MIB} MiB",
        "-" if image.disk is None else f"{image.disk.bytes // _MIB} MiB",
        moment(image.built_s),
        ", ".join(str(from_here(Path(made_for.path))) for made_for in image.blueprints),
    ]
