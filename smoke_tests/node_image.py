"""Make an image of this node's own packages, in TMPDIR, and run a command in it: no registry is asked.

    node_image.py PACKAGE ... -- ch-run @image@ -- COMMAND ...

@image@ in a word stands for the image's folder, @tmp@ for TMPDIR, which a runtime may unset. The image has the files of
these packages and of all that they depend on, as dpkg lists them, without documentation; the libraries of a GPU driver,
where the node has one; and /etc/hpcforge-image, which lists the packages. Standard library, Python 3.9.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

MARK = "etc/hpcforge-image"
# /usr is whole on each release that there is: these are links into it, whatever dpkg lists.
LINKS = ("bin", "sbin", "lib", "lib64")
FOLDERS = ("dev", "proc", "sys", "tmp", "home", "root", "run", "var/tmp", "opt/hpcforge", "srv", "mnt", "usr", "etc")
FILES = ("etc/passwd", "etc/group", "etc/hosts", "etc/resolv.conf")  # a runtime puts the node's there
LEFT_OUT = re.compile(r"/usr/share/(?:doc|doc-base|info|lintian|locale|man|bug)/")
LIBRARY = re.compile(r" => (/\S+)")
DRIVER = re.compile(r"\s(?:libcuda|libnvidia-[a-z0-9-]+)\.so\S* .* => (/\S+)")


class NoImageError(Exception):
    """The image cannot be made; says why."""


def installed() -> tuple[dict[str, list[list[str]]], dict[str, str]]:
    """Of each package of the node what it needs, as lists of alternatives; and which package provides a name."""
    shown = "${db:Status-Abbrev}\t${Package}\t${Pre-Depends}, ${Depends}\t${Provides}\n"
    said = subprocess.run(
        ["dpkg-query", "-W", "-f", shown], stdout=subprocess.PIPE, text=True, check=True, stdin=subprocess.DEVNULL
    )
    needs: dict[str, list[list[str]]] = {}
    provides: dict[str, str] = {}
    for line in said.stdout.splitlines():
        status, name, depends, provided = line.split("\t")
        if status.startswith("ii"):
            needs[name] = [names(any_of, "|") for any_of in depends.split(",") if any_of.strip()]
            provides.update((each, name) for each in names(provided, ","))
    return needs, provides


def names(text: str, between: str) -> list[str]:
    """The names of packages, without versions and architectures."""
    words = (each.split() for each in text.split(between))
    return [found[0].partition(":")[0] for found in words if found]


def with_needs(wanted: Iterable[str], needs: Mapping[str, list[list[str]]], provides: Mapping[str, str]) -> set[str]:
    """The packages with all that they depend on. Raises NoImageError."""
    found: set[str] = set()
    left = [[name] for name in wanted]
    while left:
        any_of = left.pop()
        name = next((each for each in (*any_of, *map(provides.get, any_of)) if each in needs), None)
        if name is None:
            raise NoImageError(f"package {' or '.join(any_of)} is not installed on this node")
        if name not in found:
            found.add(name)
            left += needs[name]
    return found


def files_of(packages: Iterable[str]) -> list[str]:
    """The paths of packages, and the driver's libraries, as the loader finds them."""
    listed = subprocess.run(["dpkg-query", "-L", *sorted(packages)], stdout=subprocess.PIPE, text=True, check=True)
    loader = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=False)
    paths = {line for line in listed.stdout.splitlines() if line.startswith("/") and not LEFT_OUT.match(line)}
    real = {os.path.realpath(path) for path in paths}
    chosen = {path for path in LIBRARY.findall(loader.stdout) if os.path.realpath(path) in real}  # by alternatives
    return sorted(paths | chosen | set(DRIVER.findall(loader.stdout)))


def copy(path: str, image: Path) -> None:
    """One file, link or folder of the node into the image."""
    source = Path(path)
    target = image / path.lstrip("/")
    if os.path.lexists(target) or not os.path.lexists(source):
        return
    if source.is_dir() and not source.is_symlink():
        target.mkdir(parents=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink():
        target.symlink_to(source.readlink())
        copy(os.path.normpath(source.parent / source.readlink()), image)  # what postinst made is in no list of dpkg's
    elif source.is_file() and os.access(source, os.R_OK):
        shutil.copy2(source, target)


def make(image: Path, packages: Iterable[str]) -> None:
    """Write the image. Raises NoImageError and OSError."""
    chosen = with_needs(packages, *installed())
    for name in FOLDERS:
        (image / name).mkdir(parents=True, exist_ok=True)
    for name in LINKS:
        (image / "usr" / name).mkdir(parents=True, exist_ok=True)
        (image / name).symlink_to(f"usr/{name}")
    for path in files_of(chosen):
        copy(path, image)
    for name in FILES:
        (image / name).touch()
    (image / MARK).write_text("".join(f"{name}\n" for name in sorted(chosen)))


def main(words: list[str]) -> int:
    """Make the image, and become the command; its own exit status is 69 if there is none."""
    at = words.index("--")
    image = Path(os.environ["TMPDIR"]) / "image"
    command = [word.replace("@image@", str(image)).replace("@tmp@", str(image.parent)) for word in words[at + 1 :]]
    try:
        make(image, words[:at])
        os.environ.setdefault("USER", pwd.getpwuid(os.getuid()).pw_name)  # ch-run asks for it
        os.execvp(command[0], command)  # noqa: S606  the words are hpcforge's
    except (NoImageError, OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"the image of this node's packages: {error}\n")
    return 69


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
