"""Package sources that do not answer or are not believed, where the packages of the plan come from them.

apt itself is asked. Where its lists have all packages, it fetches the smallest archive of each source that it would
take one from; where it would have to read its lists, it reads what is signed into a folder of its own.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hpcforge.node import apt_simulation, checks, commands
from hpcforge.node.obstacles import Conflict, Inspection
from hpcforge.node.package_source_files import FOLDER, SourceEntry, entries, plain

_LIMIT_S = 20
_HELPER = "/usr/lib/apt/apt-helper"
_IMPATIENT = ("-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10")
_NO_HOOKS = "".join(f"#clear APT::Update::{hook};\n" for hook in ("Pre-Invoke", "Post-Invoke", "Post-Invoke-Success"))
_FAILED = re.compile(r"^Err:\d+ ([^\n]*)\n  ([^\n]*)$", re.MULTILINE)
_UNSIGNED = re.compile(r"^E: The repository '([^'\n]*)' ([^\n]*)$", re.MULTILINE)
_TARGET = re.compile(r"^Acquire::IndexTargets::(deb(?:-src)?::[^:\s]+) ", re.MULTILINE)
_STATUS = re.compile(r"\d{3} ")
_CONFIGURATION = Path("/etc/apt/apt.conf"), Path("/etc/apt/apt.conf.d")
_PROXY = re.compile(r"(?:https?://)?(?:[^\s/@]*@)?([^\s/:]+)(?::(\d+))?")  # the whole value of a setting


class SourceFailure(NamedTuple):
    """What apt reported of a source."""

    entry: SourceEntry
    error: str


def search(host: Inspection) -> Iterator[Conflict | str]:
    """Yield the sources without which the packages of the plan cannot be installed."""
    names = host.packages()
    simulation = apt_simulation.last(names)
    if not names or (simulation.result.rc and simulation.available):
        return  # what apt refuses without a source being asked, another subject names
    lacking = set(names) - set(simulation.available)
    to_come = {source["name"] for difference in host.differences.values() for source in difference.get("sources", ())}
    here = [entry for entry in entries() if entry.path.parent != FOLDER or entry.path.stem not in to_come]
    role = next(iter(names.values()))
    with tempfile.TemporaryDirectory(prefix="hpcforge-", dir="/run") as folder:
        failures = _unfetched(here, simulation.result.stdout, Path(folder))
        yield from _conflicts(role, failures, "the plan's packages are there")
        if lacking and not to_come and not failures:
            yield from _unread(host, here, lacking, Path(folder))


def _unfetched(here: Sequence[SourceEntry], text: str, folder: Path) -> list[SourceFailure]:
    """Return the sources from which apt cannot fetch the archives that it would install."""
    smallest: dict[SourceEntry, tuple[int, str]] = {}
    for size, uri in apt_simulation.archives(text):
        entry = next((entry for entry in here if entry.has(uri)), None)
        if entry and uri.startswith("http"):
            smallest[entry] = min(smallest.get(entry, (size, uri)), (size, uri))
    fetches = [
        partial(_apt, [_HELPER, *_IMPATIENT, "download-file", uri, str(folder / str(number))])
        for number, (_, uri) in enumerate(smallest.values())
    ]
    errors = checks.side_by_side(fetches)
    return [
        SourceFailure(entry, error[0][1])
        for entry, error in zip(smallest, errors)
        if error and not isinstance(error, str)
    ]


def _unread(host: Inspection, here: Sequence[SourceEntry], lacking: set[str], folder: Path) -> Iterator[Conflict | str]:
    """Yield the sources whose lists cannot be read, where a package is in no list that can."""
    settings = folder / "apt.conf"
    settings.write_text(_NO_HOOKS)
    (folder / "lists/partial").mkdir(parents=True)
    private = (
        "-o",
        f"Dir::State::lists={folder}/lists",
        "-o",
        "Dir::Cache::pkgcache=",
        "-o",
        "Dir::Cache::srcpkgcache=",
    )
    update = ["apt-get", "-q", "-c", str(settings), *private, *_IMPATIENT]
    targets = set(_TARGET.findall(commands.run(["apt-config", "dump"], _LIMIT_S).stdout))
    failures = _failures(here, _apt([*update, *_without(targets), "update"]))
    if not failures:
        return
    _apt([*update, *_without(targets - {"deb::Packages"}), "update"])
    unknown = lacking - set(apt_simulation.simulate(lacking, private).available)
    missing = sorted(unknown)
    if missing:
        role, why = host.packages()[missing[0]], f"no other source has {' '.join(missing)}"
        yield from _conflicts(role, failures, why)
    else:
        for entry, error in failures:
            yield f"package source {entry}: {error}; all packages of the plan are in other sources"


def _without(targets: Collection[str]) -> list[str]:
    return [word for name in sorted(targets) for word in ("-o", f"Acquire::IndexTargets::{name}::DefaultEnabled=false")]


def _failures(here: Sequence[SourceEntry], errors: Sequence[tuple[str, str]]) -> list[SourceFailure]:
    failures: dict[SourceEntry, str] = {}
    for place, error in errors:
        for entry in here:
            if not place or entry.named_in(place):
                failures.setdefault(entry, error)
    return [SourceFailure(entry, error) for entry, error in failures.items()]


def _apt(argv: Sequence[str]) -> list[tuple[str, str]]:
    """Run a program of apt's, again if it fails: a network may lose a packet. Return what it did not fetch, and why."""
    return _attempt(argv) and _attempt(argv)


def _attempt(argv: Sequence[str]) -> list[tuple[str, str]]:
    """Run a program of apt's once; where there is no answer in time, nothing was fetched."""
    outcome = commands.run(argv, _LIMIT_S, merge=True)
    pairs = [*_FAILED.findall(outcome.stdout), *_UNSIGNED.findall(outcome.stdout)]
    errors = [(plain(place), plain(error)) for place, error in pairs]
    return errors or ([("", f"no answer within {_LIMIT_S} s")] if outcome.timed_out else [])


def _conflicts(role: str, failures: Sequence[SourceFailure], why: str) -> Collection[Conflict]:
    return {conflict.name: conflict for conflict in (_conflict(role, failure, why) for failure in failures)}.values()


def _conflict(role: str, failure: SourceFailure, why: str) -> Conflict:
    """Return the conflict of a source, or of the proxy that does not let apt reach it."""
    for path, number, place in proxies(*_CONFIGURATION):
        # A status of HTTP is the answer of a proxy that works.
        if place.partition(":")[0] in failure.error and not _STATUS.match(failure.error):
            text = f"line {number} sends apt to the proxy {place}: {failure.error}"
            return Conflict(role, "file", str(path), text, (f"sed -i '{number}s,^,// ,' {shlex.quote(str(path))}",))
    entry = failure.entry
    return Conflict(
        role, "package source", str(entry), f"{plain(' '.join(entry.uris))}: {failure.error}; {why}", (entry.disable,)
    )


def proxies(file: Path, folder: Path) -> Iterator[tuple[Path, int, str]]:
    """Return file, line and `host:port` of each proxy in apt's configuration."""
    for path in (file, *sorted(folder.glob("*"))):
        if path.is_file():
            for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), start=1):
                name, _, value = line.partition('"')
                is_proxy = "proxy" in name.lower() and not name.lstrip().startswith(("//", "#"))
                match = _PROXY.match(value.partition('"')[0]) if is_proxy else None
                if match:
                    yield path, number, ":".join(filter(None, match.groups()))
