"""A role as it is read from its folder: `role.yaml`, templates, and the code of its opaque part."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import ValidationError

from hpcforge.errors import ExpectedError
from hpcforge.plan.role_spec import ROLE_SPEC, GoingSpec, LeavesSpec, RoleSpec, TreeSpec

G = TypeVar("G", bound=GoingSpec)
_SHORT = {
    "packages": "name",
    "removes": "path",
    "restarts": "name",
}  # of these, a text alone stands for a mapping with that key


class RoleError(ExpectedError):
    """A role's own files are wrong: where, and what."""

    hint = "this is a fault in a role, not in the blueprint"

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path}: {message}")

    @classmethod
    def of(cls, name: str, message: str) -> RoleError:
        """What is wrong with a role of this name."""
        return cls(Path("roles") / name / "role.yaml", message)


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
    spec = _read_spec(path, ROLE_SPEC)
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
