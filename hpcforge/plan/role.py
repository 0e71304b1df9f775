"""A role as it is read from its folder: `role.yaml`, templates, and the code of its opaque part."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)

from hpcforge.errors import ExpectedError
from hpcforge.plan.desired import Disruption, OnRemove, Shape
from hpcforge.plan.resources import TYPES, as_templates

Expression = str  # a Jinja expression over `cluster`, `node` and, under `for_each`, `item`


class RoleError(ExpectedError):
    """A role's own files are wrong: where, and what."""

    hint = "this is a fault in a role, not in the blueprint"

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path}: {message}")


class _Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ResourceSpec(_Spec):
    """What every resource may say: whether, and for each of what."""

    when: Expression = "true"
    for_each: Expression | None = None


class PackageSpec(ResourceSpec):
    """A package of the distribution."""

    name: str


class FileSpec(ResourceSpec):
    """A file: exactly one of `template`, `content`, `source` and `secret` says what is in it."""

    path: str
    template: str | None = None
    content: str | None = None
    source: str | None = None
    secret: str | None = None
    mode: str = "0644"
    owner: str = "root"
    group: str = "root"
    scope: Literal["cluster", "node"] = "node"
    early: bool = False
    verify: tuple[str, ...] = ()  # "{file}" stands for the new content


class RereadSpec(_Spec):
    """A file that a refresh is enough for; with `lines` where it changes in lines that match that expression alone."""

    path: str
    lines: str | None = None

    @field_validator("lines")
    @classmethod
    def _is_expression(cls, lines: str | None) -> str | None:
        try:
            if lines is not None:
                re.compile(lines)
        except re.error as error:
            raise ValueError(f"{lines!r} is no regular expression: {error}") from error
        return lines


def _as_path(given: object) -> object:
    return {"path": given} if isinstance(given, str) else given


class UnitSpec(ResourceSpec):
    """A systemd unit that shall be enabled and active."""

    name: str
    watches: tuple[str, ...] | None = None  # None: every file of the role
    refresh: tuple[tuple[str, ...], ...] = ()  # in place of a restart
    rereads: tuple[
        Annotated[RereadSpec, BeforeValidator(_as_path)], ...
    ] = ()  # the files that a refresh is enough for; none: all that it watches


class TreeSpec(ResourceSpec):
    """A path that the role's own code makes, and nobody else."""

    path: str


class LeavesSpec(ResourceSpec):
    """A path that stays when the role goes, and why."""

    path: str
    why: str


class CheckSpec(ResourceSpec):
    """A command with an expected outcome."""

    name: str
    command: tuple[str, ...] = Field(min_length=1)
    stdout: str | None = None
    wait_s: float = 0


class GoingSpec(_Spec):
    """What becomes of what a role's own code makes when the role goes: all that a site's Ansible role may say."""

    description: str = ""
    removes: tuple[TreeSpec, ...] = ()  # paths that it makes, and nobody else: they go, with all that is in them
    leaves: tuple[LeavesSpec, ...] = ()  # what stays, and why


class RoleSpec(GoingSpec):
    """What `role.yaml` may say, but for the kinds of resources: those come from their table."""

    description: str
    on: Expression
    needs: tuple[str, ...] = ()
    packages: tuple[PackageSpec, ...] = ()
    replaces: tuple[str, ...] = ()  # packages that the distribution removes for these, where they are there
    files: tuple[FileSpec, ...] = ()
    units: tuple[UnitSpec, ...] = ()
    checks: tuple[CheckSpec, ...] = ()
    inputs: Mapping[str, Expression] = {}
    on_remove: OnRemove = "stop"
    guard: bool = False
    shape: Shape = "free"
    jobs_feel: bool = True  # False: no job's outcome depends on it, so a change of it calls for no smoke test
    sets_clock: Expression = "false"  # over `cluster`: whether it makes the node's clock right
    disrupts: Mapping[str, Disruption] = {}  # by "packages", a kind, "units", "opaque"

    def of(self, kind: str) -> tuple[ResourceSpec, ...]:
        """What it says of one kind of resource."""
        return tuple(getattr(self, kind))

    @field_validator("disrupts")
    @classmethod
    def _of_parts(cls, disrupts: Mapping[str, Disruption]) -> Mapping[str, Disruption]:
        for part in disrupts:
            if part not in _PARTS:
                raise ValueError(f"{part!r} is none of {', '.join(_PARTS)}")
        return disrupts

    @model_validator(mode="after")
    def _no_reboot_under_guard(self) -> Self:
        if self.guard and "reboot" in self.disrupts.values():
            raise ValueError("a guarded role cannot ask for a reboot: the node would take itself for locked out")
        return self


def _spec_of(kind: str) -> type[ResourceSpec]:
    """What `role.yaml` may say of one kind of resource."""
    if kind == "files":
        return FileSpec
    of = TYPES[kind]
    return create_model(f"{of.__name__}Spec", __base__=ResourceSpec, __doc__=of.__doc__, **as_templates(of))


_PARTS = ("packages", *TYPES, "units", "opaque")
_KINDS: dict[str, Any] = {kind: (GenericAlias(tuple, (_spec_of(kind), ...)), ()) for kind in TYPES}
_ROLE_SPEC: type[RoleSpec] = create_model("RoleSpec", __base__=RoleSpec, **_KINDS)
G = TypeVar("G", bound=GoingSpec)
_SHORT = {"packages": "name", "removes": "path"}  # of these, a text alone stands for a mapping with that key


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

    name: str
    spec: RoleSpec
    texts: Mapping[str, str]  # template and source files by the name role.yaml uses
    code: Code | None


def load_roles(folder: Path) -> tuple[Role, ...]:
    """Read every role under `folder`, by name. Raises `RoleError` where one is wrong."""
    return tuple(load_role(path.parent) for path in sorted(folder.glob("*/role.yaml")))


def load_role(folder: Path) -> Role:
    """Read one role's folder. Raises `RoleError`."""
    path = folder / "role.yaml"
    spec = _read_spec(path, _ROLE_SPEC)
    texts = {}
    for file in spec.files:
        if sum(part is not None for part in (file.template, file.content, file.source, file.secret)) != 1:
            raise RoleError(path, f"{file.path}: give exactly one of template, content, source and secret")
        if file.template is not None:
            texts[file.template] = _read(path, folder / "templates" / file.template)
        elif file.source is not None:
            own = folder / file.source
            # smoke_tests/ lies beside roles/: the programs run alone from there, and are installed by a role
            texts[file.source] = _read(path, own if own.exists() else folder.parent.parent / file.source)
    return Role(folder.name, spec, texts, _load_code(folder))


def site_role_code(folder: Path) -> Code:
    """The code of a site's own Ansible role, which may have a `role.yaml` beside. Raises `RoleError` if it is none."""
    if not (folder / "tasks" / "main.yml").is_file():
        raise RoleError(folder, "not an Ansible role: it has no tasks/main.yml")
    path = folder / "role.yaml"
    going = _read_spec(path, GoingSpec) if path.is_file() else GoingSpec()
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
        for key, name in _SHORT.items():
            if isinstance(data, dict) and isinstance(data.get(key), list):
                data[key] = [{name: one} if isinstance(one, str) else one for one in data[key]]
        return kind.model_validate(data)
    except yaml.YAMLError as error:
        raise RoleError(path, str(error)) from error
    except ValidationError as error:
        wrong = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise RoleError(path, "; ".join(wrong)) from error


def _read(role_yaml: Path, file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise RoleError(role_yaml, f"cannot read {file}: {error.strerror}") from error


def _digest_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(folder)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
