"""The package sources of trees made on this machine: its own where they serve the release, else Debian's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.host.commands import HostError, run

if TYPE_CHECKING:
    from hpcforge.catalog.distribution import Distribution

_DISTRIBUTION = "debian"
_KEYRING = "debian-archive"
_KEYS = ("Acquire::Check-Valid-Until", "Acquire::Check-Date")  # settings of apt that nodes need, too


@dataclass(frozen=True)
class SourceLine:
    """One line of sources.list."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str = ""

    @property
    def line(self) -> str:
        """The line in apt's form. Over http: signatures protect packages, and the lab's cache cannot read TLS."""
        uri = re.sub(r"^https:", "http:", self.uri).rstrip("/")
        return f"deb {uri} {self.suite} {' '.join(self.components)}"


def check_distribution(name: str) -> None:
    """Raise `HostError` for a distribution that labs do not support."""
    if name != _DISTRIBUTION:
        raise HostError(
            f"no lab can be built of {name}: rehearsals are Debian's", "set `software.os: {name: debian, ...}`"
        )


def codename(release: str) -> str:
    """Return Debian's code name of a release; `HostError` for one that labs do not support."""
    return str(_release(release).suite)


def is_testing(release: str) -> bool:
    """Return whether Debian has not released it yet; `HostError` for a release that labs do not support."""
    return _release(release).testing


def takes_cgroup_v2_alone(release: str) -> bool:
    """Return whether its slurmd starts on a node with cgroup v2 only, while this host also has v1.

    Slurm before 23.11 has no `CgroupPlugin=disabled`: it reads the host's hierarchies in /proc, and ends. `HostError`
    for a release that labs do not support.
    """
    slurm = _release(release).slurm
    return tuple(map(int, slurm.split(".")[:2])) >= (23, 11)


def _release(release: str) -> Distribution:
    from hpcforge.catalog import load_catalog  # noqa: PLC0415 - entering a lab does not need it

    distributions = load_catalog().distributions
    distribution = distributions.get((_DISTRIBUTION, release))
    if distribution is None or distribution.suite is None:
        releases = ", ".join(version for name, version in distributions if name == _DISTRIBUTION)
        raise HostError(f"no lab can be built of Debian {release!r}", f"use one of {releases} in `software.os.release`")
    return distribution


def sources_for(name: str, files: Mapping[str, str]) -> str:
    """Return sources.list for code name `name`; `files` are the host's source files by path."""
    served = [source for path, text in files.items() for source in _parse(path, text) if _serves(source, name)]
    if not any(source.suite == name for source in served):
        served = _debian(name)
    return "".join(f"{line}\n" for line in dict.fromkeys(source.line for source in served))


def _parse(path: str, text: str) -> Iterable[SourceLine]:
    return _stanzas(text) if path.endswith(".sources") else _lines(text)


def _stanzas(text: str) -> Iterable[SourceLine]:
    without_comments = re.sub(r"^#.*\n", "", text + "\n", flags=re.MULTILINE)
    for stanza in re.split(r"\n\s*\n", re.sub(r"\n[ \t]+", " ", without_comments)):
        fields = dict(re.findall(r"^([\w-]+):[ \t]*(.*?)[ \t]*$", stanza, flags=re.MULTILINE))
        fields = {key.lower(): value for key, value in fields.items()}
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in ("no", "false"):
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield SourceLine(uri, suite, tuple(fields.get("components", "").split()), fields.get("signed-by", ""))


def _lines(text: str) -> Iterable[SourceLine]:
    for line in text.splitlines():
        if match := re.match(r"\s*deb\s+(?:\[([^]]*)\]\s*)?(\S+)\s+(\S+)\s*([^#]*)", line):
            options, uri, suite, components = match.groups()
            signed_by = re.search(r"signed-by=(\S+)", options or "")
            yield SourceLine(uri, suite, tuple(components.split()), signed_by[1] if signed_by else "")


def _serves(source: SourceLine, name: str) -> bool:
    """Return whether a source is Debian's own for this release, and usable on a node behind an HTTP proxy.

    A source with a password in its address is not: all users of a node can read sources.list.
    """
    return bool(
        source.suite in (name, f"{name}-updates", f"{name}-security")
        and "main" in source.components
        and re.match(r"https?://[^/@]+(/|$)", source.uri)
        and (not source.signed_by or _KEYRING in source.signed_by)
    )


def _debian(name: str) -> list[SourceLine]:
    archive, security = "http://deb.debian.org/debian", "http://deb.debian.org/debian-security"
    return [
        SourceLine(archive, name, ("main",)),
        SourceLine(archive, f"{name}-updates", ("main",)),
        SourceLine(security, f"{name}-security", ("main",)),
    ]


def sources(release: str) -> str:
    """Return sources.list for a release."""
    directory = Path("/etc/apt/sources.list.d")
    paths = [Path("/etc/apt/sources.list"), *sorted(directory.glob("*.sources")), *sorted(directory.glob("*.list"))]
    return sources_for(codename(release), {str(path): path.read_text() for path in paths if path.is_file()})


def options() -> tuple[str, ...]:
    """Return options that give apt the host's own settings."""
    settings = dict(re.findall(r'^(\S+) "(.*)";$', run("apt-config", "dump", *_KEYS), flags=re.MULTILINE))
    return tuple(f"-o{key}={settings[key]}" for key in _KEYS if settings.get(key))
