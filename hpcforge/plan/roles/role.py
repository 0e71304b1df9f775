"""Read a role from its folder: `role.yaml`, the texts of its files, and the code of its opaque part."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

from jinja2 import TemplateSyntaxError

from hpcforge import bundled
from hpcforge.blueprint.diagnostics import Diagnostic, Mark, SourceFile, in_order, render_all
from hpcforge.blueprint.reader import Document, Loc, mark_of, read_inside_of
from hpcforge.blueprint.role_declarations import ROLES
from hpcforge.blueprint.untrusted_files import OutsideError, files_inside, having, is_inside, read_inside
from hpcforge.blueprint.validate import validate
from hpcforge.catalog import ansible_wheel
from hpcforge.errors import ExpectedError
from hpcforge.plan.alike import speaks_of_node
from hpcforge.plan.desired import Artifact, Collection
from hpcforge.plan.roles.render import TESTED, Template
from hpcforge.plan.roles.spec import ROLE_SPEC, CollectionSpec, FileSpec, GoingSpec, LeavesSpec, RoleSpec, TreeSpec
from hpcforge.plan.secrets import OURS, Secret

G = TypeVar("G", bound=GoingSpec)
_MAX_FOLDER = 1 << 30  # bytes of all files of an Ansible role
_RENDERED = ".j2"  # the suffix of templates


class RoleError(ExpectedError):
    """A role's own files are invalid; `diagnostics` has the places and messages."""

    kind = "invalid"

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        first = self.diagnostics[0]
        super().__init__(f"{first.source.name}: {'; '.join(diagnostic.message for diagnostic in self.diagnostics)}")

    @classmethod
    def of_file(cls, path: Path, message: str, hint: str | None = None) -> RoleError:
        """Return the error about a whole file or folder."""
        return cls([Diagnostic("error", message, SourceFile(str(path)), hint=hint)])

    def shown(self) -> str:
        """Return every diagnostic with its place."""
        return render_all(self.diagnostics)


class UnfitError(RoleError):
    """A role does not fit the blueprint's choices. `locs`: places of the blueprint, the nearest reason first."""

    def __init__(self, diagnostics: Iterable[Diagnostic], locs: Iterable[Loc]) -> None:
        super().__init__(diagnostics)
        self.locs = tuple(locs)


@dataclass(frozen=True)
class Code:
    """The opaque part of a role: its engine, its path, and the digest of all its files.

    `removes` and `leaves` are a site role's rules for its removal; other roles have them in their `RoleSpec`.
    """

    engine: Literal["pyinfra", "ansible"]
    source: Path
    digest: str
    collections: tuple[Collection, ...] = ()
    removes: tuple[TreeSpec, ...] = ()
    leaves: tuple[LeavesSpec, ...] = ()


@dataclass(frozen=True)
class Role:
    """The content of one role's folder."""

    folder: Path
    spec: RoleSpec  # with the `source` of each file that has no `content` or `secret`
    texts: Mapping[str, str]  # by `source` of a file; a `Template` if it is rendered
    code: Code | None
    document: Document  # role.yaml, with the places of its parts

    @cached_property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.name

    def wrong(self, message: str, loc: Loc = (), hint: str | None = None) -> RoleError:
        """Return the error about a place in its role.yaml."""
        return RoleError([_placed(self.document, message, loc, hint)])

    def unfit(self, message: str, locs: Iterable[Loc], hint: str | None = None) -> UnfitError:
        """Return the error about a blueprint's choices for it, or about its use there."""
        return UnfitError([_placed(self.document, message, (), hint)], (*locs, *self.reasons(self.spec.on)))

    def reasons(self, expression: str) -> Iterator[Loc]:
        """Yield the places in a blueprint that an expression of the role reads, the nearest first."""
        for variable in re.findall(r"\bvars\.([a-z0-9_]+)", expression):
            yield ("roles", self.name, variable)
        for service in re.findall(r"\bcluster\.services\.([a-z0-9_]+)", expression):
            yield ("services", service)
        if self.spec.container_runtime:
            yield ("software", "containers", "runtimes")
        yield ("roles", self.name)

    def wrong_text(self, source: str, message: str, line: int | None, hint: str | None = None) -> RoleError:
        """Return the error about a line of one of its texts."""
        return RoleError([_in_text(Path(*_at(self.folder, source)), self.texts[source], message, line, hint)])


def load_roles(*folders: Path) -> tuple[Role, ...]:
    """Read every role in these folders, by name in each. Raises `RoleError` for an invalid role."""
    return tuple(
        load_role(role_folder, tested=folder == bundled.roles())
        for folder in folders
        for role_folder in having(folder, ROLES.file)
    )


def declared_secrets(roles: Iterable[Role]) -> dict[str, Secret]:
    """Return the secrets that roles declare, by name. Raises `RoleError` for duplicates and reserved names."""
    secrets: dict[str, Secret] = {}
    for role in roles:
        for name, spec in role.spec.secrets.items():
            if name in OURS:
                raise role.wrong(f"secrets.{name}: hpcforge itself uses this name", ("secrets", name))
            if name in secrets:
                raise role.wrong(
                    f"secrets.{name}: role {secrets[name].role} also declares it; add that role to `needs` instead",
                    ("secrets", name),
                )
            secrets[name] = Secret(name, role.name, spec)
    return secrets


def load_role(folder: Path, *, tested: bool = False) -> Role:
    """Read one role's folder. Raises `RoleError` with all errors of role.yaml, or else of its texts.

    `tested`: hpcforge's tests have parsed the texts, so they are parsed at their first use. Most roles run nowhere.
    """
    document, spec = _read_spec(folder, ROLE_SPEC, TESTED if tested else None)
    outcomes = list(_files(folder, spec.files, document, tested=tested))
    if wrong := [outcome for outcome in outcomes if isinstance(outcome, Diagnostic)]:
        raise RoleError(wrong)
    files = [outcome for outcome in outcomes if isinstance(outcome, tuple)]
    texts = {file.source: text for file, text in files if file.source is not None and text is not None}
    texts |= dict(_contributed_texts(folder, spec, document, tested=tested))
    spec = spec.model_copy(update={"files": tuple(file for file, _ in files)})
    return Role(folder, spec, texts, _load_code(folder, spec), document)


def _files(
    folder: Path, specs: Iterable[FileSpec], document: Document, *, tested: bool
) -> Iterator[tuple[FileSpec, str | None] | Diagnostic]:
    """Yield each file with its `source` and content, or its diagnostic."""
    for place, spec in enumerate(specs):
        try:
            file = _with_source(folder, spec)
            text = file.content if file.source is None else _text(folder, file.source, tested=tested)
            yield (file if tested else _checked_scope(file, text)), text
        except _WrongFileError as error:
            yield _placed(document, error.message, ("files", place), error.hint)
        except RoleError as error:
            yield from error.diagnostics


def _contributed_texts(folder: Path, spec: RoleSpec, document: Document, *, tested: bool) -> Iterator[tuple[str, str]]:
    """Yield the files that contributions name by `source`, and their contents."""
    for kind, contributions in spec.contributes.items():
        for place, contribution in enumerate(contributions):
            if contribution.source is not None:
                try:
                    yield contribution.source, _text(folder, contribution.source, tested=tested)
                except _WrongFileError as error:
                    loc = ("contributes", kind, place)
                    raise RoleError([_placed(document, error.message, loc, error.hint)]) from error


class _WrongFileError(Exception):
    """An invalid entry of `files`."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def _with_source(folder: Path, file: FileSpec) -> FileSpec:
    """Return the file with the source of its text: by default the path on the node, below `files`."""
    if file.content is not None or file.secret is not None or file.source is not None:
        return file
    if "{" in file.path or not file.path.startswith("/"):
        raise _WrongFileError(
            f"{file.path}: its path varies, so hpcforge cannot find its text",
            "set `source: files/...`, `content` or `secret`",
        )
    try:
        names = [name for name in (f"files{file.path}{_RENDERED}", f"files{file.path}") if is_inside(folder, name)]
    except OutsideError as error:
        raise _WrongFileError(f"{file.path}: its text cannot be read: {error}") from error
    if len(names) != 1:
        lies = "is in both" if names else "is in neither of"
        raise _WrongFileError(
            f"{file.path}: its text {lies} files{file.path} and files{file.path}{_RENDERED}",
            "remove one" if names else "write one of them: the second is rendered",
        )
    return file.model_copy(update={"source": names[0]})


def _text(folder: Path, source: str, *, tested: bool) -> str:
    path = folder / source
    try:
        path = Path(*_at(folder, source))
        text = read_inside(*_at(folder, source)).decode("utf-8")
    except OSError as error:
        raise _WrongFileError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _WrongFileError(f"cannot read {path}: it is not UTF-8") from error
    except OutsideError as error:
        raise _WrongFileError(f"{path} cannot be read: {error}", "copy the file into the role") from error
    if not source.endswith(_RENDERED):
        return text
    template = Template(text)
    if tested:
        return template
    try:
        template.tree()
    except TemplateSyntaxError as error:
        raise RoleError([_in_text(path, text, error.message or "", error.lineno)]) from error
    return template


def _at(folder: Path, source: str) -> tuple[Path, str]:
    """Return the folder that must contain a text, and its path there. Shipped roles may use all shipped data."""
    shipped_one = folder.absolute().parent == bundled.roles()
    return (bundled.root() if shipped_one and not is_inside(folder, source) else folder), source


def _checked_scope(file: FileSpec, text: str | None) -> FileSpec:
    if file.scope == "cluster" and (speaks_of_node(text) or (text is not None and speaks_of_node(file.for_each))):
        raise _WrongFileError(
            f"{file.path}: its text uses `node`, but must be the same on all nodes",
            "set `scope: node` if it differs by node; in a loop over nodes use the loop's name",
        )
    return file


def _placed(document: Document, message: str, loc: Loc, hint: str | None) -> Diagnostic:
    return Diagnostic("error", message, document.source, mark_of(document.root, loc) if loc else None, hint)


def _in_text(path: Path, text: str, message: str, line: int | None, hint: str | None = None) -> Diagnostic:
    """Return a diagnostic for a line of a text; Jinja reports no column."""
    source = SourceFile(str(path), tuple(text.split("\n")))
    if line is None or line > len(source.lines):
        return Diagnostic("error", message, source, hint=hint)
    shown = source.lines[line - 1]
    mark = Mark(line, 1 + len(shown) - len(shown.lstrip()), max(1, len(shown.strip())))
    return Diagnostic("error", message, source, mark, hint)


def site_role_code(folder: Path) -> Code:
    """Return the code of a site's own Ansible role. `role.yaml` is optional. Raise `RoleError` for other roles."""
    if not (folder / "tasks" / "main.yml").is_file():
        raise RoleError.of_file(folder, "not an Ansible role: it has no tasks/main.yml")
    has_spec = is_inside(folder, ROLES.file)
    spec = _read_spec(folder, GoingSpec)[1] if has_spec else GoingSpec.model_validate({})
    collections = tuple(map(collection, spec.collections))
    digest = _digest_folder(folder)
    return Code("ansible", folder, digest, collections, spec.delete_on_removal, spec.keep_on_removal)


def collection(spec: CollectionSpec) -> Collection:
    """Return a collection with its archive, by default the wheel that the catalog pins."""
    if spec.source is None or spec.sha256 is None:
        pinned = ansible_wheel()
        archive = Artifact(f"collections/{pinned.wheel}", "pip", pinned.sha256, pinned.size_bytes)
    else:
        file = f"{spec.name.replace('.', '-')}-{spec.version}.tar.gz"
        archive = Artifact(f"collections/{file}", spec.source, spec.sha256)
    return Collection(spec.name, spec.version, archive)


def _load_code(folder: Path, spec: RoleSpec) -> Code | None:
    name = next((name for name in ("deploy.py", "tasks/main.yml") if is_inside(folder, name)), None)
    if name is None:
        return None
    try:
        content = read_inside(folder, name)
    except OutsideError as error:
        raise RoleError.of_file(folder / name, f"cannot be read: {error}") from error
    except OSError as error:
        raise RoleError.of_file(folder / name, f"cannot be read: {error.strerror}") from error
    if name == "deploy.py":
        return Code("pyinfra", folder / name, hashlib.sha256(content).hexdigest())
    return Code("ansible", folder, _digest_folder(folder), tuple(map(collection, spec.collections)))


def _read_spec(folder: Path, kind: type[G], context: dict[str, object] | None = None) -> tuple[Document, G]:
    document = read_inside_of(folder, ROLES.file)
    draft, diagnostics = validate(kind, document, context)
    if not isinstance(draft.model, kind) or any(entry.severity == "error" for entry in diagnostics):
        raise RoleError(in_order(document.source, diagnostics))
    return document, draft.model


def _digest_folder(folder: Path) -> str:
    digest, remaining = hashlib.sha256(), _MAX_FOLDER
    try:
        for name in files_inside(folder):
            content = read_inside(folder, name, remaining)
            remaining -= len(content)
            digest.update(f"{name}\0{len(content)}\0".encode(errors="surrogateescape"))
            digest.update(content)
    except OutsideError as error:
        raise RoleError.of_file(folder, f"cannot be read: {error}", "copy the target of a link") from error
    except OSError as error:
        raise RoleError.of_file(folder, f"cannot be read: {error.strerror}") from error
    return digest.hexdigest()
