"""`hpcforge image`: one image for all nodes of a blueprint."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpcforge.cli import completion
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import AsJson, Blueprint
from hpcforge.cli.verb import VerbGroup
from hpcforge.command_hint import command_line, from_here
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.text import moment, table

if TYPE_CHECKING:
    from hpcforge.cluster import Loaded
    from hpcforge.image.build import Built
    from hpcforge.image.manifest import Lock, Manifest
    from hpcforge.image.request import ImageRequest
    from hpcforge.image.store import Unreadable
    from hpcforge.report.event_stream import Stream

_MIB = 1 << 20

image = VerbGroup("An image is a root archive with the packages of all roles. Needs root.")


@dataclass(frozen=True, kw_only=True)
class ImageBuildOptions:
    """Options of `hpcforge image build`."""

    blueprint: Blueprint
    locked: Annotated[
        Path | None,
        typer.Option(
            "--locked",
            help="Use exactly the package versions of this manifest.json; the archive is then identical.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None
    disk: Annotated[
        bool,
        typer.Option("--disk", help="Add a kernel and build a disk for virtual machines (rehearse up --on vm)."),
    ] = False
    metal: Annotated[
        bool,
        typer.Option("--metal", help="The same with a kernel that has the drivers of real machines (apply --install)."),
    ] = False
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class ImageListOptions:
    """Options of `hpcforge image list`."""

    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class ImageRemoveOptions:
    """Options of `hpcforge image remove`."""

    name: Annotated[
        str, typer.Argument(help="Its name in `image list`.", show_default=False, autocompletion=completion.images)
    ]


@image.verb(epilog="Example: hpcforge image build blueprints/rehearsal.yaml")
def build(options: ImageBuildOptions) -> int:
    """Build one image with the packages of all roles and nodes of the blueprint. It contains no secrets.

    Builds nothing if an image with the same packages and versions exists.
    """
    from hpcforge.cluster import load
    from hpcforge.report.event_stream import beside_document
    from hpcforge.report.text import phases_line

    loaded = load(options.blueprint, None)
    if loaded.cluster.os.name != "debian":
        name, hint = loaded.cluster.os.name, "set `software.os: {name: debian, ...}`"
        raise UsageError(f"images of {name} are not supported", hint)
    request, lock = _request(options, loaded), None if options.locked is None else _lock(options.locked)
    _require(disk=options.disk or options.metal)
    with beside_document(as_json=options.as_json) as progress, progress.phase("image"):
        built = _built(options, loaded, request, lock, progress)
    progress.ended(Exit.DONE)
    printing.note(phases_line(progress.human.phases, progress.human.elapsed_s))
    _print(options, loaded, built)
    return Exit.DONE


def _request(options: ImageBuildOptions, loaded: Loaded) -> ImageRequest:
    from hpcforge.blueprint.diagnostics import render_all
    from hpcforge.run.site import bootable, for_machines, image_request

    request = image_request(loaded)
    if options.metal:
        request = for_machines(loaded, request)
        printing.note(render_all(loaded.without_driver(loaded.cluster.nodes)))
    elif options.disk:
        request = bootable(loaded, request)
    return request


def _require(*, disk: bool) -> None:
    from hpcforge.host.commands import require_root
    from hpcforge.image.build import require_programs

    require_root()
    require_programs(disk=disk)


def _built(
    options: ImageBuildOptions, loaded: Loaded, request: ImageRequest, lock: Lock | None, progress: Stream
) -> Built:
    from hpcforge.image import store
    from hpcforge.image.build import Tell
    from hpcforge.image.build import build as build_image
    from hpcforge.image.disk import disk_of
    from hpcforge.image.manifest import MadeFor
    from hpcforge.lab import state

    path = options.blueprint
    made_for = MadeFor(str(path.resolve()), hashlib.sha256(path.read_bytes()).hexdigest())
    tell = Tell(progress.say, progress.tally)
    built = build_image(request, loaded.cluster.name, made_for, state.lying_on, tell, lock)
    if options.disk or options.metal:
        with disk_of(built.manifest, progress.say):
            built = replace(built, manifest=store.read(built.manifest.name))
    return built


def _print(options: ImageBuildOptions, loaded: Loaded, built: Built) -> None:
    from hpcforge.cli.site import lab_kind
    from hpcforge.lab.kinds import KINDS

    if options.as_json:
        document = {"schema_version": 1, "built": not built.was_there, "image": _entry(built.manifest)}
        printing.result(json.dumps(document, indent=2) + "\n")
        return
    existed = "it already existed\n" if built.was_there else ""
    printing.result(f"{existed}{_table([built.manifest])}")
    on = "vm" if (options.disk or options.metal) and not KINDS[lab_kind(loaded)].BOOTS else None
    up = command_line("rehearse", "up", options.blueprint, on=on)
    printing.note(f"Next: {command_line('plan', options.blueprint, install='all') if options.metal else up}\n")


@image.verb(epilog="Example: hpcforge image list")
def list_(options: ImageListOptions) -> int:
    """List the images of this machine: distribution, packages, size, build time and blueprints."""
    from hpcforge.image import store

    images = store.all_images()
    if options.as_json:
        printing.result(json.dumps({"schema_version": 1, "images": list(map(_entry, images))}, indent=2) + "\n")
    elif images:
        printing.result(_table(images))
    else:
        printing.note(f"This machine has none. Next: {command_line('image', 'build', 'BLUEPRINT')}\n")
    return Exit.DONE


@image.verb(epilog="Example: hpcforge image remove rehearsal-3f2a9c1b")
def remove(options: ImageRemoveOptions) -> int:
    """Remove an image that no rehearsal uses, and the rest of an interrupted build."""
    from hpcforge.host.commands import require_root
    from hpcforge.image import store
    from hpcforge.lab import state
    from hpcforge.report.progress import Progress

    require_root()
    with Progress() as progress, store.lock(progress.say):
        store.remove(options.name, state.lying_on, progress.say)
        progress.say(f"removed image {options.name}")
    return Exit.DONE


def _lock(path: Path) -> Lock:
    from hpcforge.blueprint.untrusted_files import read_named
    from hpcforge.image.manifest import from_text

    try:
        return from_text(read_named(path).decode(errors="replace"), str(path)).lock
    except FileNotFoundError:
        raise UsageError(
            f"manifest {path} does not exist", "the folder of an image has it: `image list --json`"
        ) from None


def _entry(made: Manifest | Unreadable) -> dict[str, Any]:
    from hpcforge.image import store
    from hpcforge.image.disk import disk_path

    if isinstance(made, store.Unreadable):
        return dataclasses.asdict(made)
    lock, request = made.lock, made.lock.request
    return {
        "name": made.name,
        "distribution": request.distribution,
        "release": request.release,
        "packages": len(lock.packages),
        "left": [dataclasses.asdict(left_package) for left_package in lock.left],
        "size_bytes": made.archive_bytes,
        "sha256": made.archive_sha256,
        "built_s": made.built_s,
        "hpcforge": made.hpcforge,
        "blueprints": [dataclasses.asdict(blueprint) for blueprint in made.blueprints],
        "archive": str(store.directory(made.name) / store.ARCHIVE),
        "disk": None if made.disk is None else {"path": str(disk_path(made)), **dataclasses.asdict(made.disk)},
        "manifest": str(store.directory(made.name) / store.MANIFEST),
    }


def _table(images: Sequence[Manifest | Unreadable]) -> str:
    return table(("image", "distribution", "packages", "size", "disk", "built", "blueprints"), list(map(_row, images)))


def _row(made: Manifest | Unreadable) -> list[str]:
    from hpcforge.image import store

    if isinstance(made, store.Unreadable):
        return [made.name, "unknown", "-", "-", "-", "-", made.problem]
    request = made.lock.request
    return [
        made.name,
        f"{request.distribution} {request.release}",
        str(len(made.lock.packages)),
        f"{made.archive_bytes // _MIB} MiB",
        "-" if made.disk is None else f"{made.disk.bytes // _MIB} MiB",
        moment(made.built_s),
        ", ".join(str(from_here(Path(made_for.path))) for made_for in made.blueprints),
    ]
