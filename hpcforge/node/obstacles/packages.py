"""Packages that apt or dpkg would not install: on hold, pinned away, half-configured, or with settings not readable."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from hpcforge.node import apt_simulation, commands, package_pins
from hpcforge.node.events import readable
from hpcforge.node.obstacles import Conflict, Inspection

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
_JOURNAL, _TERMINAL = Path("/var/lib/dpkg/updates"), Path("/var/log/apt/term.log")


def search(host: Inspection) -> Iterator[Conflict | str]:
    """Yield what apt or dpkg would fail on while the packages of the plan are installed."""
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
    """Yield the files of /etc/apt that apt cannot read: then it does nothing at all."""
    for match in _SETTINGS.finditer(text):
        path = match.group(1)
        why = f"apt cannot read it, and installs nothing: {match.group()[3:]}"
        yield Conflict(role, "file", path, why, (_aside(path),))


def _aside(path: str) -> str:
    return f"mv {shlex.quote(path)} {shlex.quote(path)}.disabled"


def _hooks(role: str) -> Iterator[Conflict]:
    """Yield the files with a command that apt runs before or after its work and that cannot be run: then apt fails."""
    for name, command in hooks(commands.run(["apt-config", "dump"], _QUERY_S).stdout):
        program = dead_program(command)
        file, folder = _CONFIGURATION
        parts = (path for path in sorted(folder.glob("*")) if path.suffix in ("", ".conf"))
        for path in (file, *parts) if program else ():
            if path.is_file() and any(
                program in line and not line.lstrip().startswith(("//", "#"))
                for line in path.read_text("utf-8", "replace").splitlines()
            ):
                why = f"{name} has apt run {program}, which is not there or not executable, and apt fails with it"
                yield Conflict(role, "file", str(path), why, (_aside(str(path)),))


def hooks(dump: str) -> Iterator[tuple[str, str]]:
    """Yield the hooks in the output of `apt-config dump`, with a command each: `DPkg::Pre-Invoke:: "/bin/a";`."""
    for line in dump.splitlines():
        key, _, value = line.partition(' "')
        name = key.rpartition("::")[0]
        if name.lower() in _HOOKS and value.endswith('";'):
            yield name, value.removesuffix('";')


def dead_program(command: str) -> str:
    """Return the program of a hook that cannot be run and makes the hook fail; empty where there is none.

    A shell's `||`, `;`, `|` or `&` may make a success of the failure.
    """
    program = command.split(maxsplit=1)[0] if command.strip() else ""
    tolerant = set("|;\n") & set(command) or command.rstrip().endswith("&")
    plain = program.startswith("/") and not set("$`'\"*?()<>&\\") & set(program)
    path = Path(program)
    return program if plain and not tolerant and not (path.is_file() and os.access(path, os.X_OK)) else ""


def _broken(names: Mapping[str, str], text: str) -> Iterator[Conflict]:
    """Yield the packages of other origin for which apt refuses every transaction."""
    role = next(iter(names.values()))
    for package in _NO_ARCHIVE.findall(text):
        why = "it is half-installed, and no package source has it to unpack it again"
        yield Conflict(role, "package", package, why, (f"dpkg --remove --force-remove-reinstreq {package}",))
    if "--fix-broken" in text:
        for package, needs in _UNMET.findall(text):
            if package in names:
                continue
            why = f"it is unpacked without its dependencies, and apt installs nothing before that is resolved: {needs}"
            yield Conflict(role, "package", package, why, ("apt-get -y --fix-broken install",))


def _half_configured(host: Inspection, installed: Collection[str]) -> Iterator[Conflict | str]:
    """Yield packages of other origin whose configuration failed, where the plan depends on them; else a warning.

    hpcforge itself configures one that was interrupted, by dpkg's own record, its own, and one that the plan upgrades.
    """
    names = host.packages()
    if any(path.name.isdigit() for path in _JOURNAL.iterdir()):
        return
    own = {name for entry in host.receipt.roles.values() for name in entry.get("packages", ())}
    lines = _query("${db:Status-Status}\\t${Package}\\n")
    failed = sorted({line[1] for line in lines if line[0] == "half-configured"} - own - set(installed))
    needed = _dependencies(names) if failed else set()
    for package in failed:
        error = last_error(package, _terminal())
        why = f"it is half-configured: {error or 'its postinst script failed'}"
        if "by signal" in error:
            continue
        if package in needed:
            cause = package if package in names else next(iter(names))
            why = f"{why}; correct the cause, then configure it"
            yield Conflict(names[cause], "package", package, why, (f"dpkg --configure {package}",))
        else:
            yield f"package {package}: {why}; no role needs it, so that this stops nothing but is reported by apt"


def last_error(package: str, text: str) -> str:
    """Return what dpkg reported when it last configured a package: the script's last line, and the error."""
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


def _query(form: str, *names: str) -> list[list[str]]:
    outcome = commands.run(["dpkg-query", "-W", "-f", form, "--", *names], _QUERY_S)
    return [line.split("\t") for line in outcome.whole("dpkg-query").splitlines()]


def _holds(host: Inspection, simulation: apt_simulation.Simulation) -> Iterator[Conflict]:
    """Yield the packages on hold that the plan installs or upgrades, but for those that hpcforge holds itself."""
    names, text = host.packages(), simulation.result.stdout
    options: Sequence[str] = _NO_HOLDS
    if simulation.result.rc:  # a hold on an installed package is an unmet dependency to apt
        options, without = _without(names, _NO_HOLDS)
        text = without.result.stdout
    own = {name for entry in host.receipt.roles.values() for name in entry.get("holds", ())}
    for package in sorted(_on_hold(apt_simulation.installed(text)) - own):
        needed = _needed_by(names, package, options)
        why = "it is on hold, and the plan installs it" + (f" for {needed}" if needed != package else "")
        yield Conflict(names[needed], "package", package, why, (f"apt-mark unhold {package}",))


def _on_hold(names: Collection[str]) -> set[str]:
    if not names:
        return set()
    lines = _query("${db:Status-Want}\\t${Package}\\n", *sorted(names))
    return {line[1] for line in lines if line[0] == "hold"}


def _pins(host: Inspection, simulation: apt_simulation.Simulation) -> Iterator[Conflict]:
    """Yield the pins of negative priority without which apt would install what it cannot install now."""
    names = host.packages()
    own = {name for entry in host.receipt.roles.values() for name in entry.get("pins", ())}
    pins = [
        pin for pin in package_pins.negative() if pin.path.parent != package_pins.FOLDER or pin.path.name not in own
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
            why = f"{pin.path}:{pin.line} keeps it from being installed: Pin-Priority: {pin.priority}"
            why += f"; {needed} needs it" if needed != package else ""
            yield Conflict(names[needed], "package", package, why, (pin.comment_out(),))


def _without(names: Collection[str], options: Sequence[str]) -> tuple[Sequence[str], apt_simulation.Simulation]:
    """Simulate without holds or without pins; without both where each of them would be enough to stop apt."""
    simulation = apt_simulation.simulate(names, options)
    if not simulation.result.rc and len(simulation.available) == len(names):
        return options, simulation
    return _NEITHER, apt_simulation.simulate(names, _NEITHER)


def _needed_by(names: Mapping[str, str], package: str, options: Sequence[str]) -> str:
    """Return the package of the plan that brings this one."""
    if package in names:
        return package
    for name in names:
        if package in apt_simulation.installed(apt_simulation.simulate([name], options).result.stdout):
            return name
    return next(iter(names))
