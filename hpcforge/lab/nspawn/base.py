"""The base trees of nodes: a minimal Debian without Python, and layers above it.

A node's file system is a stack, lowest first: *system* (mmdebstrap), *python* (not for a node without Python 3),
*lists* (apt's package lists, if those of the system are older than a day), the node's own disk. Trees are built under a
temporary name and renamed, once per release and content, and never changed afterwards: running nodes have them mounted.
They have no host keys, no machine id and no name.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from hpcforge.host import package_sources
from hpcforge.host.commands import HostError, run
from hpcforge.host.package_sources import codename, is_testing
from hpcforge.host.paths import Progress, cache, remove_tree
from hpcforge.image import node_system
from hpcforge.lab.target_state import Trees

_LISTS_MAX_AGE_S = 24 * 3600

# mmdebstrap runs it for the finished tree, $1.
_FINISH = rf"""
set -e
rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/hostname "$1"/etc/resolv.conf "$1"/var/lib/dbus/machine-id
: > "$1"/etc/machine-id
: > "$1"/etc/resolv.conf
for unit in {" ".join(node_system.MASKED_UNITS)}; do ln -sf /dev/null "$1"/etc/systemd/system/$unit; done
echo '{node_system.APT_CONF[1]}' > "$1"/{node_system.APT_CONF[0]}
"""

# apt's index of all packages goes into the layer: else every node would compute it.
_ADD_PYTHON = r"""
set -e
apt-get "$@" -qq install --yes --no-install-recommends python3
apt-get clean
apt-cache "$@" gencaches -qq
"""

# It runs in its own mount namespace: nothing stays mounted, however hpcforge ends.
_IN_LAYER = r"""
set -e
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/tree,workdir=$2/work" "$2/root"
mount --bind /etc/resolv.conf "$2/root/etc/resolv.conf"
shift
root=$1/root
shift
exec chroot "$root" "$@"
"""


def trees(release: str, in_use: Iterable[Path], progress: Progress) -> Trees:
    """Return the lower layers of new nodes of a release, made by `ensure`. Call under the host lock."""
    ensure(release, in_use, progress)
    return Trees(*(tuple(map(str, layers(release, python))) for python in (True, False)))


def layers(release: str, python: bool) -> tuple[Path, ...]:
    """Return the trees under a node's disk, highest first; `ensure` makes them."""
    home = _home(release)
    candidates = [*sorted(home.glob("lists-*"))[-1:], *([home / "python"] if python else []), home / "system"]
    return tuple(path for path in candidates if path.is_dir())


def ensure(release: str, in_use: Iterable[Path], progress: Progress) -> None:
    """Build missing trees of a release, refresh old package lists, and remove unused trees.

    Call under the host lock. `in_use` are the base trees of nodes of any lab.
    """
    home = _home(release)
    home.mkdir(parents=True, exist_ok=True)
    _sweep(home, set(in_use), progress)
    if not (home / "system").is_dir():
        _timed(f"building a Debian {release} base system", progress, lambda: _build_system(release, home))
    if not (home / "python").is_dir():
        add = ("sh", "-c", _ADD_PYTHON, "sh", *_apt_options(release))
        _timed("adding Python 3 as a layer", progress, lambda: _build_layer(home, "python", add))
    if _lists_age_s(home) > _LISTS_MAX_AGE_S:
        _refresh_lists(home, release, progress)


def _home(release: str) -> Path:
    """Return the directory of a release's trees; its name follows from their recipe."""
    recipe = "\n".join(
        [
            release,
            package_sources.sources(release),
            _FINISH,
            _ADD_PYTHON,
            _IN_LAYER,
            *node_system.PACKAGES,
            *_apt_options(release),
        ]
    )
    return cache() / "base" / f"debian-{release}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def _apt_options(release: str) -> tuple[str, ...]:
    """Return apt's options: this host's settings. Lists of testing are valid for a week, and mirrors may be older."""
    expired = ("-oAcquire::Check-Valid-Until=false",) if is_testing(release) else ()
    return (*package_sources.options(), *expired)


def _build_system(release: str, home: Path) -> None:
    building = _fresh(home / "building-system")
    sources, finish = building / "sources.list", building / "finish"
    sources.write_text(package_sources.sources(release))
    finish.write_text(_FINISH)
    run(
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        f"--include={','.join(node_system.PACKAGES)}",
        "--skip=cleanup/apt/lists",
        "--dpkgopt=force-unsafe-io",  # stays in the tree: a rehearsal's disk need not survive a power cut
        *(f"--aptopt={option.removeprefix('-o').replace('=', ' ', 1)}" for option in _apt_options(release)),
        f'--customize-hook=sh {finish} "$1"',
        codename(release),
        building / "tree",
        sources,
        cwd=Path("/"),
        with_us=True,
    )
    _finish(building, home / "system")


def _build_layer(home: Path, name: str, command: Iterable[str]) -> None:
    building = _fresh(home / "building-layer")
    for part in ("tree", "work", "root"):
        (building / part).mkdir(mode=0o755)
    below = ":".join(str(path) for path in (home / "python", home / "system") if path.is_dir())
    run("sh", "-c", _IN_LAYER, "sh", below, building, *command, cwd=Path("/"), with_us=True)
    _finish(building, home / name)


def _refresh_lists(home: Path, release: str, progress: Progress) -> None:
    name = f"lists-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    update = ("apt-get", *_apt_options(release), "-qq", "-oAPT::Update::Error-Mode=any", "update")
    try:
        _timed("refreshing package lists older than a day", progress, lambda: _build_layer(home, name, update))
    except HostError as error:  # old lists still work for cached packages
        progress(f"package lists stay {_lists_age_s(home) / 86400:.0f} days old: {str(error).splitlines()[-1]}")


def _lists_age_s(home: Path) -> float:
    newest = [*sorted(home.glob("lists-*"))[-1:], home / "system"][0]
    return time.time() - newest.stat().st_mtime


def _fresh(building: Path) -> Path:
    if building.exists():
        remove_tree(building)  # from an interrupted run; its mounts ended with it
    building.mkdir(mode=0o755)
    return building


def _finish(building: Path, tree: Path) -> None:
    os.utime(building / "tree")  # the age of its package lists
    (building / "tree").chmod(0o755)
    (building / "tree").rename(tree)
    remove_tree(building)


def _sweep(home: Path, in_use: set[Path], progress: Progress) -> None:
    """Remove trees of old recipes and old package lists, unless a node uses them."""
    mounted = Path("/proc/self/mounts").read_text()  # also by a lab whose record cannot be read
    for base in home.parent.iterdir():
        same_release = base.name.rpartition("-")[0] == home.name.rpartition("-")[0]
        used = str(base) in mounted or any(tree.is_relative_to(base) for tree in in_use)
        if base != home and same_release and not used:
            progress(f"removing {base}, of an older recipe")
            remove_tree(base)
    for lists in sorted(home.glob("lists-*"))[:-1]:
        if lists not in in_use and str(lists) not in mounted:
            remove_tree(lists)


def _timed(label: str, progress: Progress, work: Callable[[], None]) -> None:
    progress(f"{label} ...")
    started = time.monotonic()
    work()
    progress(f"{label}: {time.monotonic() - started:.0f} s")
