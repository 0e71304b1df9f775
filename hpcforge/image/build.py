"""The build of an image: choose and lock its packages, fetch and install them, check the archive, and keep it."""

from __future__ import annotations

import os
import re
import shlex
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hpcforge import __version__
from hpcforge.atomic import write_atomically
from hpcforge.host import package_sources
from hpcforge.host.commands import run
from hpcforge.host.package_sources import codename
from hpcforge.host.paths import Progress, remove_tree
from hpcforge.image import long_commands, recipe, store
from hpcforge.image.apt import Apt, preferences
from hpcforge.image.errors import ImageError
from hpcforge.image.long_commands import watched
from hpcforge.image.manifest import Lock, MadeFor, Manifest, Package, name_of, to_text
from hpcforge.image.request import KERNELS, ImageRequest, LeftPackage
from hpcforge.tally import Tallies, silent

# The check of a root archive for forbidden content: identities, secrets, traces of the build.
_NEVER = re.compile(
    r"etc/ssh/ssh_host_.*|etc/hostname|etc/munge/munge\.key|etc/(?:passwd|shadow|group|gshadow)-|var/lib/dbus/machine-id"
    r"|var/lib/systemd/(?:random-seed|credential\.secret)|etc/ssl/private/.+|(?:root|home/[^/]+)/\.ssh/.+"
    r"|var/(?:tmp|backups)/.+|tmp/.+|var/lib/apt/lists/.+|var/cache/apt/archives/.+|var/lib/mysql/.+"
)
_EMPTY = re.compile(r"etc/machine-id|etc/resolv\.conf|var/log/.*")
# At the beginning of a line and followed by a key: programs that read keys contain only the words.
_PRIVATE_KEY = re.compile(rb"^-----BEGIN [A-Z ]*PRIVATE KEY-----\r?\n[A-Za-z0-9+/=:, \r\n-]{64}", re.MULTILINE)
_EXAMPLES = re.compile(r"usr/share/doc/.*")
_PASSWORD = re.compile(rb"^([^:\n]+):(\$[^:\n]+):", re.MULTILINE)


def faults(archive: Path, epoch_s: int) -> tuple[str, ...]:
    """Return the faults of an archive, a line each; none: it may be an image.

    Raise OSError or tarfile.TarError if it cannot be read to its end.
    """
    problems: list[str] = []
    names: list[str] = []
    with tarfile.open(archive, "r:") as tar:
        for member in tar:
            name = member.name.removeprefix("./").removeprefix("/")
            names.append(name)
            problems += _of_member(tar, member, name, epoch_s)
    if "etc/machine-id" not in names:
        problems.append("etc/machine-id is missing: systemd would make no new one in a read-only root")
    return tuple(problems)


def _of_member(tar: tarfile.TarFile, member: tarfile.TarInfo, name: str, epoch_s: int) -> Iterator[str]:
    if member.mtime > epoch_s:
        yield f"{name} is younger than the lock"
    if member.uname or member.gname:
        yield f"{name} has the name of its owner"
    if not member.isdir() and _NEVER.fullmatch(name):
        yield f"{name} must not be there"
    file = tar.extractfile(member) if member.isreg() and member.size else None
    if file is None:
        return
    content = file.read()
    if _EMPTY.fullmatch(name):
        yield f"{name} is not empty"
    if _PRIVATE_KEY.search(content) and not _EXAMPLES.fullmatch(name):
        yield f"{name} holds a private key"
    if name == "etc/shadow":
        for account in _PASSWORD.findall(content):
            yield f"{name}: {account[0].decode(errors='replace')} has a password"


# Debian package -> a file that it installs.
_PROGRAMS = {
    "mmdebstrap": "/usr/bin/mmdebstrap",
    "debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
}
_FOR_DISKS = {"e2fsprogs": "/usr/sbin/debugfs"}
_MIB = 1 << 20
_SPARE_MIB = 256  # room for files outside of packages: compiled Python modules, lists, logs
_SHOWN = 5  # faults in a message


@dataclass(frozen=True)
class Built:
    """An image, and whether it existed already."""

    manifest: Manifest
    was_there: bool


@dataclass(frozen=True)
class Tell:
    """Listeners: `say` gets the actions, `tally` the counts of the present step."""

    say: Progress
    tally: Tallies = silent


def require_programs(*, disk: bool = False) -> None:
    """Raise ImageError naming the packages that this host lacks."""
    programs = {**_PROGRAMS, **(_FOR_DISKS if disk else {})}
    if missing := [package for package, brings in programs.items() if not Path(brings).exists()]:
        raise ImageError(
            f"this host lacks packages for images: {', '.join(missing)}",
            f"apt-get install --no-install-recommends {' '.join(missing)}",
        )


def build(
    request: ImageRequest, cluster: str, made_for: MadeFor, users: store.Users, tell: Tell, locked: Lock | None = None
) -> Built:
    """Return an image of these packages, built if missing; `locked`: with the exact versions of this lock.

    Raises ImageError: versions are no longer available, there is no room, or the result has faults.
    """
    with store.lock(tell.say) as handle:
        store.sweep(tell.say)
        apt = Apt(store.folder() / f".apt-{request.distribution}-{request.release}", package_sources.options())
        lock = _locked(request, apt, tell, locked)
        for left_package in lock.left:
            tell.say(f"left to the first apply: {left_package.package} ({left_package.why})")
        if existing := _existing_image(lock, made_for, users, tell.say):
            return Built(existing, was_there=True)
        ensure_room(store.folder(), lock)
        return Built(_build(name_of(cluster, lock), lock, apt, made_for, tell, handle), was_there=False)


def found_for(request: ImageRequest) -> Manifest | None:
    """Return the newest image of this request with this hpcforge's recipe and this host's sources."""
    sources, how = _made(request)
    return store.matching(request, how, sources)


def ensure_room(place: Path, lock: Lock) -> None:
    """Raise ImageError unless the tree, its archive and the fetched packages have room there."""
    fetched_mib = sum(package.size_bytes for package in lock.packages) // _MIB
    long_commands.ensure_room(place, 2 * lock.installed_kib // 1024 + fetched_mib + _SPARE_MIB, "an image needs")


def pack(tree: Path, archive: Path, epoch_s: int) -> None:
    """Write a tree as an archive that depends only on the tree and `epoch_s`. Raises ImageError."""
    argv: list[str | Path] = [*recipe.TAR, f"--mtime=@{epoch_s}", "--directory", tree, "--file", archive, "."]
    watched(argv, archive.parent, lambda: None)


def _locked(request: ImageRequest, apt: Apt, tell: Tell, locked: Lock | None) -> Lock:
    """Return the exact packages. Those of a lock are chosen again, to report at once any that the archive lacks."""
    sources, how = _made(request)
    if locked is not None and (locked.request, locked.recipe, locked.sources) != (request, how, sources):
        raise ImageError(
            "the lock file does not match this image",
            "build without --locked: blueprint, recipe or package sources have changed",
        )
    tell.say(f"reading the package lists of {request.distribution} {request.release}")
    apt.update(sources)
    return _chosen(request, how, sources, apt) if locked is None else _resolve_again(locked, apt)


def _made(request: ImageRequest) -> tuple[tuple[str, ...], str]:
    """Return package sources and recipe of an image of this request."""
    return tuple(package_sources.sources(request.release).splitlines()), recipe.digest(package_sources.options())


def _chosen(request: ImageRequest, how: str, sources: tuple[str, ...], apt: Apt) -> Lock:
    available = {name for name, _ in apt.offered(request.packages)}
    absent = [name for name in request.packages if name not in available]
    if kernel := next((name for name in absent if name.startswith(KERNELS)), None):
        raise ImageError(
            f"no package source has the kernel {kernel}",
            f"name another under `software.preinstalled.kernel`: apt-cache search '^{KERNELS}[0-9]'",
        )
    omitted = (*request.left, *(LeftPackage(name, "no source has it") for name in absent))
    lock = Lock(request, how, sources, apt.epoch_s, (), omitted)
    return replace(lock, packages=apt.choose(_named_packages(lock)))


def _resolve_again(locked: Lock, apt: Apt) -> Lock:
    """Resolve the lock again. Raise ImageError if the result differs."""
    offered = apt.offered([package.name for package in locked.packages])
    if missing := [
        f"{package.name} {package.version}"
        for package in locked.packages
        if (package.name, package.version) not in offered
    ]:
        raise ImageError(f"no longer available: {_first(missing)}", "build without --locked")
    apt.pin(preferences(locked.packages))
    try:
        chosen = apt.choose(_named_packages(locked))
    finally:
        apt.unpin()
    if chosen != locked.packages:
        differing = _differing(locked.packages, chosen) or "files of the same versions have other checksums"
        raise ImageError(f"the new lock differs: {differing}", "build without --locked")
    return locked


def _named_packages(lock: Lock) -> list[str]:
    """Return the packages that apt installs by name; the others are their dependencies."""
    return [*recipe.ALWAYS, *recipe.BASE, *lock.to_install]


def _existing_image(lock: Lock, made_for: MadeFor, users: store.Users, say: Progress) -> Manifest | None:
    """Return the image of these packages if its archive is intact, and record this blueprint as its user."""
    image = store.of_lock(lock)
    if image is None:
        return None
    try:
        store.checked(image)
    except ImageError as error:
        if labs := users(store.directory(image.name)):
            raise ImageError(f"{error}; {', '.join(labs)} uses it", "remove that rehearsal, then build again") from None
        say(f"built again: {error}")
        return None
    others = tuple(blueprint for blueprint in image.blueprints if blueprint.path != made_for.path)
    manifest = replace(image, blueprints=(*others, made_for))
    write_atomically(store.directory(image.name) / store.MANIFEST, to_text(manifest), mode=0o644)
    return manifest


def _build(name: str, lock: Lock, apt: Apt, made_for: MadeFor, tell: Tell, handle: int) -> Manifest:
    with store.unused(name):  # fails before minutes of work: the image of this name will be replaced
        pass
    building = store.building(name)
    try:
        total = len(lock.packages)
        with tell.tally("fetching packages", total) as tally:
            apt.fetch(lock.packages, tally.reach)
            tally.reach(total)
        with tell.tally("installing packages", total) as tally:
            _install(building, lock, apt, tally.reach, handle)
            tally.reach(total)
        if differing := _differing(lock.packages, installed(building / "tree")):
            raise ImageError(f"installed packages differ from the lock: {differing}")
        archive = building / store.ARCHIVE
        with tell.tally("packing", [archive.name]) as tally, tally.part(archive.name):
            pack(building / "tree", archive, lock.epoch_s)
        if wrong := faults(archive, lock.epoch_s):
            raise ImageError("the built tree cannot be an image: " + _first(wrong, "; "))
        manifest = Manifest(
            name, lock, (made_for,), store.sha256_of(archive), archive.stat().st_size, time.time(), __version__
        )
        write_atomically(building / store.MANIFEST, to_text(manifest), mode=0o644)
        for path in building.iterdir():
            if path.name not in (store.ARCHIVE, store.MANIFEST):
                remove_tree(path) if path.is_dir() else path.unlink()
        _sync(archive)
        store.keep(building, name)
    except BaseException as error:
        with suppress(OSError):  # the next run removes leftovers
            remove_tree(building)
        if isinstance(error, tarfile.TarError):
            raise ImageError(f"the archive of image {name} cannot be read: {error}") from None
        raise
    return manifest


def _install(building: Path, lock: Lock, apt: Apt, tick: Callable[[int], None], handle: int) -> None:
    files = {
        "preferences": preferences(lock.packages),
        "packages": _lines(lock.to_install),
        "units": _lines(lock.request.units),
        "sources.list": _lines(lock.sources),
        "setup": recipe.SETUP,
        "add": recipe.PACKAGES,
        "finish": recipe.FINISH,
    }
    for name, text in files.items():
        (building / name).write_text(text)

    def hook(script: str) -> str:
        folder, packages = shlex.quote(str(building)), shlex.quote(str(apt.archives))
        return f'sh {folder}/{script} "$1" {folder} {packages}'

    tree = building / "tree"
    argv: list[str | Path] = [
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        f"--include={','.join(recipe.BASE)}",
        "--skip=download/empty,essential/unlink",  # the fetched packages are there already
        "--dpkgopt=force-unsafe-io",
        *(f"--aptopt={option.removeprefix('-o').replace('=', ' ', 1)}" for option in apt.options),
        f"--setup-hook={hook('setup')}",
        f"--customize-hook={hook('add')}",
        f"--customize-hook={hook('finish')}",
        codename(lock.request.release),
        tree,
        building / "sources.list",
    ]
    more = {**recipe.ENVIRONMENT, "SOURCE_DATE_EPOCH": str(lock.epoch_s), "TMPDIR": str(building)}
    watched(argv, building, lambda: tick(_count(tree)), more, (handle,), with_us=True)


def installed(tree: Path) -> tuple[Package, ...]:
    """Return the installed packages of a tree, with name, version and architecture only."""
    query = ("dpkg-query", f"--admindir={tree}/var/lib/dpkg", "-W")
    output = run(*query, "-f=${db:Status-Abbrev}|${Package}|${Version}|${Architecture}\n")
    rows = [line.split("|") for line in output.splitlines()]
    return tuple(Package(row[1], row[2], row[3], "", 0, 0) for row in rows if row[0].strip() == "ii")


def _count(tree: Path) -> int:
    """Return the number of packages that are configured in a tree."""
    try:
        return (tree / "var/lib/dpkg/status").read_text(errors="replace").count("Status: install ok installed\n")
    except FileNotFoundError:
        return 0


def _differing(locked: Sequence[Package], have: Sequence[Package]) -> str:
    """Describe the packages that are in only one of both; "" without any."""
    locked_names, installed_names = (
        {f"{package.name} {package.version} {package.architecture}" for package in packages}
        for packages in (locked, have)
    )
    return _first(
        [
            *(f"{package} is missing" for package in sorted(locked_names - installed_names)),
            *(f"{package} instead" for package in sorted(installed_names - locked_names)),
        ]
    )


def _first(words: Sequence[str], between: str = ", ") -> str:
    """Join the first few faults."""
    more = [f"{len(words) - _SHOWN} more"] if len(words) > _SHOWN else []
    return between.join([*words[:_SHOWN], *more])


def _lines(words: Sequence[str]) -> str:
    return "".join(f"{word}\n" for word in words)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
