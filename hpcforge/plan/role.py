"""A role as it is read from its folder: `role.yaml`, the texts of its files, and the code of its opaque part."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from jinja2 import TemplateSyntaxError
from pydantic import ValidationError

from hpcforge.errors import ExpectedError
from hpcforge.plan.render import Template, speaks_of_node
from hpcforge.plan.role_spec import ROLE_SPEC, FileSpec, GoingSpec, LeavesSpec, RoleSpec, TreeSpec

G = TypeVar("G", bound=GoingSpec)
_RENDERED = ".j2"  # a file whose name ends so is a template


class RoleError(ExpectedError):
    """A role's own files are wrong: where, and what."""

    hint = "this is a fault in a role, not in the blueprint"

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path}: {message}")


@dataclass(frozen=True)
class Code:
    """The opaque part of a role: which engine runs it, from where, and the digest of all its files.

    `removes` and `leaves` are what a site's own role says of when it goes; other roles say it in their `RoleSpec`.
    """

    engine: Literal["pyinfra", "ansible"]
    source: Path
    digest: str
    removes: tuple[TreeSpec, ...] = ()
    leaves: tuple[LeavesSpec, ...] = ()


@dataclass(frozen=True)
class Role:
    """One folder of how-to, wholly read."""

    folder: Path
    spec: RoleSpec  # of each file without `content` and `secret` the `source` is filled in
    texts: Mapping[str, str]  # by `source` of a file; a `Template` where it is rendered
    code: Code | None

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.name


def load_roles(*folders: Path) -> tuple[Role, ...]:
    """Read every role in these folders, by name in each. Raises `RoleError` where one is wrong."""
    return tuple(load_role(path.parent) for folder in folders for path in sorted(folder.glob("*/role.yaml")))


def load_role(folder: Path) -> Role:
    """Read one role's folder. Raises `RoleError`."""
    path = folder / "role.yaml"
    spec = _read_spec(path, ROLE_SPEC)
    files = tuple(_with_source(path, file) for file in spec.files)
    texts = {file.source: _text(path, file.source) for file in files if file.source is not None}
    for file in files:
        _check_scope(path, file, file.content if file.source is None else texts[file.source])
    return Role(folder, spec.model_copy(update={"files": files}), texts, _load_code(folder))


def _with_source(role_yaml: Path, file: FileSpec) -> FileSpec:
    """Where the text of a file lies: at the path that it will have, if nothing else is said."""
    if file.content is not None or file.secret is not None or file.source is not None:
        return file
    if "{" in file.path or not file.path.startswith("/"):
        raise RoleError(role_yaml, f"{file.path}: say by `source` where its text lies, since its path is not fixed")
    names = [name for name in (f"files{file.path}{_RENDERED}", f"files{file.path}") if _at(role_yaml, name).is_file()]
    if len(names) != 1:
        lies = "lies in both" if names else "lies in neither of"
        raise RoleError(role_yaml, f"{file.path}: its text {lies} files{file.path} and files{file.path}{_RENDERED}")
    return file.model_copy(update={"source": names[0]})


def _text(role_yaml: Path, source: str) -> str:
    file = _at(role_yaml, source)
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise RoleError(role_yaml, f"cannot read {file}: {error.strerror}") from error
    if not source.endswith(_RENDERED):
        return text
    try:
        template = Template(text)
        template.tree()
    except TemplateSyntaxError as error:
        raise RoleError(file, f"line {error.lineno}: {error.message}") from error
    return template


def _at(role_yaml: Path, source: str) -> Path:
    own = role_yaml.parent / source
    # smoke_tests/ lies beside roles/: the programs run alone from there, and are installed by a role
    return own if own.exists() else role_yaml.parents[2] / source


def _check_scope(role_yaml: Path, file: FileSpec, text: str | None) -> None:
    if file.scope == "cluster" and (speaks_of_node(text) or (text is not None and speaks_of_node(file.for_each))):
        message = f"{file.path}: it is one for the whole cluster, and speaks of `node`"
        raise RoleError(role_yaml, f"{message}; if each node has its own, say `scope: node`")


def site_role_code(folder: Path) -> Code:
    """The code of a site's own Ansible role, which may have a `role.yaml` beside. Raises `RoleError` if it is none."""
    if not (folder / "tasks" / "main.yml").is_file():
        raise RoleError(folder, "not an Ansible role: it has no tasks/main.yml")
    path = folder / "role.yaml"
    going = _read_spec(path, GoingSpec) if path.is_file() else GoingSpec.model_validate({})
    return Code("ansible", folder, _digest_folder(folder), going.removes, going.leaves)


def _load_code(folder: Path) -> Code | None:
    deploy = folder / "deploy.py"
    if deploy.is_file():
        return Code("pyinfra", deploy, hashlib.sha256(deploy.read_bytes()).hexdigest())
    return Code("ansible", folder, _digest_folder(folder)) if (folder / "tasks" / "main.yml").is_file() else None


def _read_spec(path: Path, kind: type[G]) -> G:
    try:
        # every scalar stays text until pydantic types it: else YAML reads the key `on` as true
        data: Any = yaml.load(path.read_text("utf-8"), Loader=yaml.CBaseLoader)  # noqa: S506 - makes text only
        return kind.model_validate(data)
    except yaml.YAMLError as error:
        raise RoleError(path, str(error)) from error
    except ValidationError as error:
        wrong = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise RoleError(path, "; ".join(wrong)) from error


def _digest_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(folder)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
