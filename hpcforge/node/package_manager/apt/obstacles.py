"""Causes of a failing installation of a plan's packages by apt or dpkg.

Packages are on hold, pinned away or half-configured, settings are not readable, or sources do not answer or have no
valid signature. apt itself checks them. If its lists have all packages, it fetches the smallest archive from each
source that it would use. If it would have to read its lists first, it reads the signed ones into a temporary folder.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hpcforge.node import checks, commands
from hpcforge.node.events import readable
from hpcforge.node.inspection import Conflict, Inspection
from hpcforge.node.package_manager.apt import dpkg
from hpcforge.node.package_manager.apt import files as apt_files
from hpcforge.node.package_manager.apt import simulation as apt_simulation
from hpcforge.node.package_manager.apt.files import SOURCES_FOLDER, SourceEntry, plain

_QUERY_S = 60
_NO_PINS = ("-o", "Dir::Etc::preferences=/dev/null", "-o", "Dir::Etc::preferencesparts=/dev/null")
_NO_HOLDS = ("-o", "APT::Ignore-Hold=1")
_NEITHER = (*_NO_HOLDS, *_NO_PINS)
_DEPENDS = ("--recurse", "--installed", *(f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks")))
_SETTINGS = re.compile(r"^E: [^\n/]*(/etc/apt/[^\s:,]+)[^\n]*$", re.MULTILINE)
_NO_ARCHIVE = re.compile(r"^E: The package (\S+) needs to be reinstalled, but I can't find an archive", re.MULTILINE)
_UNMET = re.compile(r"^ (\S+) : ((?:Pre)?Depends: [^\n]+)$", re.MULTILINE)
_HOOKS = (  # of apt.conf(5): lists of commands
    "dpkg::pre-invoke", "dpkg::post-invoke", "dpkg::pre-install-pkgs",
    "apt::update::pre-invoke", "apt::update::post-invoke", "apt::update::post-invoke-success",
)  # fmt: skip
_CONFIGURATION = Path("/etc/apt/apt.conf"), Path("/etc/apt/apt.conf.d")
_TERMINAL = Path("/var/log/apt/term.log")
_LIMIT_S = 20
_HELPER = "/usr/lib/apt/apt-helper"
_IMPATIENT = ("-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10")
_NO_HOOKS = "".join(f"#clear APT::Update::{hook};\n" for hook in ("Pre-Invoke", "Post-Invoke", "Post-Invoke-Success"))
_FAILED = re.compile(r"^Err:\d+ ([^\n]*)\n  ([^\n]*)$", re.MULTILINE)
_UNSIGNED = re.compile(r"^E: The repository '([^'\n]*)' ([^\n]*)$", re.MULTILINE)
_TARGET = re.compile(r"^Acquire::IndexTargets::(deb(?:-src)?::[^:\s]+) ", re.MULTILINE)
_STATUS = re.compile(r"\d{3} ")


def search_packages(host: Inspection) -> Iterator[Conflict | str]:
    """Yield the obstacles for apt or dpkg to installing the plan's packages."""
    names = host.packages()
    if not names:
        return
    simulation = apt_simulation.last(names)
    text = simulation.result.stdout
    role = next(iter(names.values()))
    unreadable = list(_settings(role, text))
    yield from unreadable
    yield from _hooks(role)
    if not unreadable:
        yield from _broken(names, text)
        yield from _half_configured(host, apt_simulation.installed(text))
        yield from _holds(host, simulation)
        if simulation.result.rc or set(names) - set(simulation.available):
            yield from _pins(host, simulation)


def _settings(role: str, text: str) -> Iterator[Conflict]:
    """Yield the files of /etc/apt that apt cannot read: then it does nothing."""
    for match in _SETTINGS.finditer(text):
        path = match.group(1)
        reason = f"apt cannot read it, and installs nothing: {match.group()[3:]}"
        yield Conflict(role, "file", path, reason, (_aside(path),))


def _aside(path: str) -> str:
    return f"mv {shlex.quote(path)} {shlex.quote(path)}.disabled"


def _hooks(role: str) -> Iterator[Conflict]:
    """Yield the files with hooks of apt that cannot be run: then apt fails."""
    for name, command in hooks(commands.run(["apt-config", "dump"], _QUERY_S).stdout):
        program = dead_program(command)
        file, folder = _CONFIGURATION
        parts = (path for path in sorted(folder.glob("*")) if path.suffix in ("", ".conf"))
        for path in (file, *parts) if program else ():
            if path.is_file() and any(
                program in line and not line.lstrip().startswith(("//", "#"))
                for line in path.read_text("utf-8", "replace").splitlines()
            ):
                reason = f"{name} has apt run {program}, which is not there or not executable, so apt fails"
                yield Conflict(role, "file", str(path), reason, (_aside(str(path)),))


def hooks(dump: str) -> Iterator[tuple[str, str]]:
    """Yield the hooks in the output of `apt-config dump`, with a command each: `DPkg::Pre-Invoke:: "/bin/a";`."""
    for line in dump.splitlines():
        key, _, value = line.partition(' "')
        name = key.rpartition("::")[0]
        if name.lower() in _HOOKS and value.endswith('";'):
            yield name, value.removesuffix('";')


def dead_program(command: str) -> str:
    """Return the program that makes a hook fail since it cannot be run; "" for a working hook.

    A shell's `||`, `;`, `|` or `&` may hide the failure.
    """
    program = command.split(maxsplit=1)[0] if command.strip() else ""
    tolerant = set("|;\n") & set(command) or command.rstrip().endswith("&")
    plain = program.startswith("/") and not set("$`'\"*?()<>&\\") & set(program)
    path = Path(program)
    return program if plain and not tolerant and not (path.is_file() and os.access(path, os.X_OK)) else ""


def _broken(names: Mapping[str, str], text: str) -> Iterator[Conflict]:
    """Yield the packages that make apt refuse every transaction, and are not hpcforge's."""
    role = next(iter(names.values()))
    for package in _NO_ARCHIVE.findall(text):
        reason = "it is half-installed, and no package source has it to unpack it again"
        yield Conflict(role, "package", package, reason, (f"dpkg --remove --force-remove-reinstreq {package}",))
    if "--fix-broken" in text:
        for package, needs in _UNMET.findall(text):
            if package in names:
                continue
            reason = (
                f"it is unpacked without its dependencies, and apt installs nothing before that is resolved: {needs}"
            )
            yield Conflict(role, "package", package, reason, ("apt-get -y --fix-broken install",))


def _half_configured(host: Inspection, installed: Collection[str]) -> Iterator[Conflict | str]:
    """Yield half-configured packages, not hpcforge's, that the plan depends on; a warning for others.

    hpcforge configures interrupted packages (by dpkg's journal), its own ones, and those that the plan upgrades.
    """
    names = host.packages()
    if dpkg.was_interrupted():
        return
    own = {name for entry in host.receipt.roles.values() for name in entry.get("packages", ())}
    lines = dpkg.query("${db:Status-Status}\\t${Package}\\n")
    failed = sorted({line[1] for line in lines if line[0] == "half-configured"} - own - set(installed))
    needed = _dependencies(names) if failed else set()
    for package in failed:
        error = last_error(package, _terminal())
        reason = f"it is half-configured: {error or 'its postinst script failed'}"
        if "by signal" in error:
            continue
        if package in needed:
            cause = package if package in names else next(iter(names))
            reason = f"{reason}; correct the cause, then configure it"
            yield Conflict(names[cause], "package", package, reason, (f"dpkg --configure {package}",))
        else:
            yield f"package {package}: {reason}; no role needs it, so that this stops nothing but is reported by apt"


def last_error(package: str, text: str) -> str:
    """Return dpkg's report about its last try to configure a package: the script's last line, and the error."""
    lines = [line.strip() for line in text.splitlines()]
    places = [at for at, line in enumerate(lines) if line.startswith(f"dpkg: error processing package {package} (")]
    return (
        readable("; ".join(filter(None, (lines[at] for at in (places[-1] - 1, places[-1] + 1)))), 500) if places else ""
    )


def _terminal() -> str:
    return _TERMINAL.read_text("utf-8", "replace") if _TERMINAL.is_file() else ""


def _dependencies(names: Collection[str]) -> set[str]:
    words = ["apt-cache", "depends", *_DEPENDS, "--no-replaces", "--no-enhances", "--", *sorted(names)]
    return {line.rpartition(" ")[2].partition(":")[0] for line in commands.run(words, _QUERY_S).stdout.splitlines()}


def _holds(host: Inspection, simulation: apt_simulation.Simulation) -> Iterator[Conflict]:
    """Yield the packages on hold that the plan installs or upgrades, except hpcforge's own holds."""
    names, text = host.packages(), simulation.result.stdout
    options: Sequence[str] = _NO_HOLDS
    if simulation.result.rc:  # apt reports a hold on an installed package as an unmet dependency
        options, without = _without(names, _NO_HOLDS)
        text = without.result.stdout
    own = {name for entry in host.receipt.roles.values() for name in entry.get("holds", ())}
    for package in sorted(_on_hold(apt_simulation.installed(text)) - own):
        needed = _needed_by(names, package, options)
        reason = "it is on hold, and the plan installs it" + (f" for {needed}" if needed != package else "")
        yield Conflict(names[needed], "package", package, reason, (f"apt-mark unhold {package}",))


def _on_hold(names: Collection[str]) -> set[str]:
    if not names:
        return set()
    lines = dpkg.query("${db:Status-Want}\\t${Package}\\n", *sorted(names))
    return {line[1] for line in lines if line[0] == "hold"}


def _pins(host: Inspection, simulation: apt_simulation.Simulation) -> Iterator[Conflict]:
    """Yield the pins of negative priority that prevent apt from installing a package of the plan."""
    names = host.packages()
    own = {name for entry in host.receipt.roles.values() for name in entry.get("pins", ())}
    pins = [
        pin for pin in apt_files.negative_pins() if pin.path.parent != apt_files.PINS_FOLDER or pin.path.name not in own
    ]
    if not pins:
        return
    options, without = _without(names, _NO_PINS)
    gained = set(without.available) - set(simulation.available)
    if without.result.rc or not (gained or simulation.result.rc):
        return
    brought = apt_simulation.installed(without.result.stdout) - apt_simulation.installed(simulation.result.stdout)
    for pin in pins:
        package = next((name for name in sorted(brought) if pin.matches(name)), None)
        if package:
            needed = _needed_by(names, package, options)
            reason = f"{pin.path}:{pin.line} keeps it from being installed: Pin-Priority: {pin.priority}"
            reason += f"; {needed} needs it" if needed != package else ""
            yield Conflict(names[needed], "package", package, reason, (pin.comment_out(),))


def _without(names: Collection[str], options: Sequence[str]) -> tuple[Sequence[str], apt_simulation.Simulation]:
    """Simulate without holds or without pins; without both if either of them would stop apt."""
    simulation = apt_simulation.simulate(names, options)
    if not simulation.result.rc and len(simulation.available) == len(names):
        return options, simulation
    return _NEITHER, apt_simulation.simulate(names, _NEITHER)


def _needed_by(names: Mapping[str, str], package: str, options: Sequence[str]) -> str:
    """Return the package of the plan that needs this one."""
    if package in names:
        return package
    for name in names:
        if package in apt_simulation.installed(apt_simulation.simulate([name], options).result.stdout):
            return name
    return next(iter(names))


class SourceFailure(NamedTuple):
    """apt's error for a source."""

    entry: SourceEntry
    error: str


def search_sources(host: Inspection) -> Iterator[Conflict | str]:
    """Yield the failing sources that the plan's packages need."""
    names = host.packages()
    simulation = apt_simulation.last(names)
    if not names or (simulation.result.rc and simulation.available):
        return  # apt refuses before it contacts a source: another subject reports that
    lacking = set(names) - set(simulation.available)
    to_come = {source["name"] for difference in host.differences.values() for source in difference.get("sources", ())}
    entries = [
        entry for entry in apt_files.sources() if entry.path.parent != SOURCES_FOLDER or entry.path.stem not in to_come
    ]
    role = next(iter(names.values()))
    with tempfile.TemporaryDirectory(prefix="hpcforge-", dir="/run") as folder:
        failures = _unfetched(entries, simulation.result.stdout, Path(folder))
        yield from _conflicts(role, failures, "the plan's packages are there")
        if lacking and not to_come and not failures:
            yield from _unread(host, entries, lacking, Path(folder))


def _unfetched(entries: Sequence[SourceEntry], text: str, folder: Path) -> list[SourceFailure]:
    """Return the sources from which apt cannot fetch archives of the installation."""
    smallest: dict[SourceEntry, tuple[int, str]] = {}
    for size, uri in apt_simulation.archives(text):
        entry = next((entry for entry in entries if entry.has(uri)), None)
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


def _unread(
    host: Inspection, entries: Sequence[SourceEntry], lacking: set[str], folder: Path
) -> Iterator[Conflict | str]:
    """Yield the sources with unreadable lists, if a package is in no readable list."""
    settings = folder / "apt.conf"
    settings.write_text(_NO_HOOKS)
    (folder / "lists/partial").mkdir(parents=True)
    places = (f"Dir::State::lists={folder}/lists", "Dir::Cache::pkgcache=", "Dir::Cache::srcpkgcache=")
    private = [word for place in places for word in ("-o", place)]
    update = ["apt-get", "-q", "-c", str(settings), *private, *_IMPATIENT]
    targets = set(_TARGET.findall(commands.run(["apt-config", "dump"], _LIMIT_S).stdout))
    failures = _failures(entries, _apt([*update, *_targets_off(targets), "update"]))
    if not failures:
        return
    _apt([*update, *_targets_off(targets - {"deb::Packages"}), "update"])
    unknown = lacking - set(apt_simulation.simulate(lacking, private).available)
    missing = sorted(unknown)
    if missing:
        role, reason = host.packages()[missing[0]], f"no other source has {' '.join(missing)}"
        yield from _conflicts(role, failures, reason)
    else:
        for entry, error in failures:
            yield f"package source {entry}: {error}; all packages of the plan are in other sources"


def _targets_off(targets: Collection[str]) -> list[str]:
    return [word for name in sorted(targets) for word in ("-o", f"Acquire::IndexTargets::{name}::DefaultEnabled=false")]


def _failures(entries: Sequence[SourceEntry], errors: Sequence[tuple[str, str]]) -> list[SourceFailure]:
    failures: dict[SourceEntry, str] = {}
    for place, error in errors:
        for entry in entries:
            if not place or entry.named_in(place):
                failures.setdefault(entry, error)
    return [SourceFailure(entry, error) for entry, error in failures.items()]


def _apt(argv: Sequence[str]) -> list[tuple[str, str]]:
    """Run a program of apt's, again if it fails: a network may lose a packet. Return failed downloads with errors."""
    return _attempt(argv) and _attempt(argv)


def _attempt(argv: Sequence[str]) -> list[tuple[str, str]]:
    """Run a program of apt's once; without an answer in time all downloads count as failed."""
    outcome = commands.run(argv, _LIMIT_S, merge=True)
    pairs = [*_FAILED.findall(outcome.stdout), *_UNSIGNED.findall(outcome.stdout)]
    errors = [(plain(place), plain(error)) for place, error in pairs]
    return errors or ([("", f"no answer within {_LIMIT_S} s")] if outcome.timed_out else [])


def _conflicts(role: str, failures: Sequence[SourceFailure], reason: str) -> Collection[Conflict]:
    return {conflict.name: conflict for conflict in (_conflict(role, failure, reason) for failure in failures)}.values()


def _conflict(role: str, failure: SourceFailure, reason: str) -> Conflict:
    """Return the conflict of a source, or of the proxy that prevents the download."""
    for path, number, place in apt_files.proxies(*_CONFIGURATION):
        # A status of HTTP is the answer of a proxy that works.
        if place.partition(":")[0] in failure.error and not _STATUS.match(failure.error):
            text = f"line {number} sends apt to the proxy {place}: {failure.error}"
            return Conflict(role, "file", str(path), text, (f"sed -i '{number}s,^,// ,' {shlex.quote(str(path))}",))
    entry = failure.entry
    return Conflict(
        role,
        "package source",
        str(entry),
        f"{plain(' '.join(entry.uris))}: {failure.error}; {reason}",
        (entry.disable,),
    )


SUBJECTS = {"packages": search_packages, "package_sources": search_sources}
