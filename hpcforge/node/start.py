"""The first code on a node: makes the received modules importable, then answers the request.

Compiling takes a third of the program's time for an answer. So compiled modules are kept in memory (/run), which only
root can write; each is used only for the source that it was made from. Without them a request takes longer.

Every Python 3 must be able to read this file, at least to report that it is too old.
"""

import contextlib
import importlib.machinery
import importlib.util
import json
import marshal
import os
import stat
import sys
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType
    from typing import Any

    Compiled = dict[str, tuple[str, bytes]]  # digest of the source, and code, by module

OLDEST = (3, 9)
FOLDER = "/run/hpcforge"
_RECEIPT = "/var/lib/hpcforge/receipt.json"  # of nodes that an apply has changed; a plan leaves nothing on others
# Bytecode is of one version of Python. Another form of the file needs another name.
_NAME = "program-{}".format(importlib.util.MAGIC_NUMBER.hex())
_CHECKSUM = 4  # bytes, at the start of the file
_MOST_BYTES = 16 * 2**20  # a larger file, of many releases, is not used, and replaced


class BundleFinder:
    """Finds modules among the received sources, and compiles each at its first import.

    `digests` identifies the sources; `compiled` are modules that were compiled before.
    """

    def __init__(self, sources: "dict[str, str]", digests: "dict[str, str]", compiled: "Compiled") -> None:
        self.sources = sources
        self.packages = {name[:at] for name in sources for at, letter in enumerate(name) if letter == "."}
        self.digests, self.compiled = digests, dict(compiled)
        self.complete = True  # `compiled` has all modules that were imported

    def find_spec(
        self, name: str, _path: object = None, _target: object = None
    ) -> "importlib.machinery.ModuleSpec | None":
        """Return a spec for a received module, or for a package around one, which may have no source."""
        if name not in self.sources and name not in self.packages:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=name in self.packages)  # type: ignore[arg-type]

    def create_module(self, _spec: object) -> None:
        """Use Python's default kind of module."""

    def exec_module(self, module: "Any") -> None:
        """Run a module in it."""
        exec(self._code(module.__name__), module.__dict__)  # noqa: S102

    def _code(self, name: str) -> "CodeType":
        digest, code = self.compiled.get(name, ("", b""))
        if digest and digest == self.digests.get(name):
            return marshal.loads(code)  # type: ignore[no-any-return] # noqa: S302 - root's own, see `kept`
        compiled = compile(self.sources.get(name, ""), name, "exec")
        if name in self.digests:
            self.compiled[name] = (self.digests[name], marshal.dumps(compiled))
            self.complete = False
        return compiled

    def keep(self) -> None:
        """Keep the compiled modules for the next request."""
        if self.complete or os.geteuid() != 0 or not os.path.isfile(_RECEIPT):  # noqa: PTH113 - pathlib imports much
            return
        try:
            _write(self.compiled)
        except OSError:  # memory is full: the next request compiles again
            return
        self.complete = True


def kept() -> "Compiled":
    """Return the modules that were compiled on this node before."""
    try:
        with _folder() as folder:
            file = os.open(_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
            with os.fdopen(file, "rb") as stream:
                _check(file)
                checksum, content = stream.read(_CHECKSUM), stream.read(_MOST_BYTES)
    except OSError:
        return {}
    # Damage must not keep the node from answering.
    return marshal.loads(content) if checksum == _checksum(content) else {}  # noqa: S302


@contextlib.contextmanager
def _folder() -> "Iterator[int]":
    """Open root's folder. Raise OSError if another user can change it."""
    folder = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _check(folder)
        yield folder
    finally:
        os.close(folder)


def _check(descriptor: int) -> None:
    info = os.fstat(descriptor)
    if info.st_uid != 0 or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OSError("not only root can change it")


def _checksum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(_CHECKSUM, "big")


def _write(compiled: "Compiled") -> None:
    """Replace the file at once: another request may read it meanwhile."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(FOLDER, 0o700)  # noqa: PTH102
    temporary = ".{}-{}".format(os.getpid(), _NAME)
    with _folder() as folder:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        try:
            with os.fdopen(file, "wb") as stream:
                content = marshal.dumps(compiled)
                stream.write(_checksum(content) + content)
            os.rename(temporary, _NAME, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(temporary, dir_fd=folder)
            raise


def start(document: "Any") -> None:
    """Answer the request of a document, see `hpcforge.node`."""
    if sys.version_info[:2] < OLDEST:
        too_old = "python3 on this node is {}.{}, and {}.{} is needed".format(*(tuple(sys.version_info[:2]) + OLDEST))
        failed = {"event": "failed", "role": None, "kind": "node", "name": "python", "error": too_old}
        end = {"event": "done", "changed": 0, "failed": [], "skipped": [], "facts": {}}
        sys.stdout.write(json.dumps(failed) + "\n" + json.dumps(end) + "\n")
        return
    finder = BundleFinder(document["modules"], document.get("digests", {}), kept())
    sys.meta_path.insert(0, finder)
    from hpcforge.node.main import main  # noqa: PLC0415 - a received module, not importable before

    main(document["request"], finder.keep)
