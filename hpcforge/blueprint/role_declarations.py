"""Declarations of roles for the blueprint: `services` and `vars` of each role.yaml, read without the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from hpcforge.blueprint.diagnostics import render_all
from hpcforge.blueprint.reader import plain, read_bytes
from hpcforge.blueprint.schema_hints import renamed_keys
from hpcforge.blueprint.section import Section
from hpcforge.blueprint.sections.services import Offer, ServiceName
from hpcforge.blueprint.site_folders import Addition
from hpcforge.blueprint.untrusted_files import MAX_YAML, having, read_inside
from hpcforge.blueprint.variables import Variable, VariableName
from hpcforge.errors import ExpectedError

ROLE_NAME = re.compile(r"(?!site_)[a-z][a-z0-9_]{0,62}")  # site_NAME names a role of `software.site_roles`
A_ROLE_NAME = "lower-case letters, digits and _, a letter first; site_... is reserved for `software.site_roles`"
_DECLARES = re.compile(r"^(?:services|vars|container_runtime|memory):", re.MULTILINE)
ROLES = Addition("role", "role.yaml", ("role_folders",), (("services",), ("roles",)), ROLE_NAME.fullmatch, A_ROLE_NAME)


class DeclarationError(ExpectedError):
    """An error in a role's declaration."""

    kind = "invalid"
    hint = "the error is in a role, not in the blueprint; hpcforge role check FOLDER shows where"


RuntimeName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,30}$")]


class MemoryNeed(BaseModel):
    """Memory that the programs of a role take."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mib: int = Field(ge=1, description="On each of its nodes, MiB.")
    per_node_mib: float = Field(0, ge=0, description="More for each node of the cluster, MiB.")
    source: str = Field(min_length=1, description="Where the numbers are published; `guess: ` and the reason if not.")


class _RoleFile(BaseModel):
    """The parts of a role.yaml that add to a blueprint."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    services: Mapping[ServiceName, Offer] = {}
    vars: Mapping[VariableName, Variable] = {}
    container_runtime: RuntimeName | None = None
    accepts: Mapping[str, object] = {}

    memory: MemoryNeed | None = None
    scheduler: bool = False
    on: str = "true"


@dataclass(frozen=True)
class RoleMemory:
    """The memory that a role takes, and where: on nodes of its services, on the controller, or on every node."""

    need: MemoryNeed
    services: tuple[str, ...]
    scheduler: bool
    everywhere: bool


@dataclass(frozen=True)
class RoleDeclarations:
    """Services by name; variables by role, where there are some, and by name; container runtimes; and all roles.

    `on` has of roles with variables where they run: an expression, see `hpcforge.plan.roles.render`.
    """

    offers: Mapping[str, Offer]
    variables: Mapping[str, Mapping[str, Variable]]
    on: Mapping[str, str]
    roles: tuple[str, ...]
    container_runtimes: tuple[str, ...] = ()
    accepted: Mapping[str, str] = field(default_factory=dict)  # role by the kind of contribution that it accepts

    memory: Mapping[str, RoleMemory] = field(default_factory=dict)  # memory by role, if the role declares any


def read_declared(*folders: Path) -> RoleDeclarations:
    """Read the declarations of the roles in these folders. Raise `DeclarationError`."""
    offers: dict[str, Offer] = {}
    declarations = {path: _read_declaration(path) for folder in folders for path in having(folder, ROLES.file)}
    for folder, declaration in declarations.items():
        path = folder / ROLES.file
        for name, offer in declaration.services.items():
            if name in offers:
                raise DeclarationError(f"{path}: services.{name}: another role already offers this service")
            if hasattr(Section, name):
                raise DeclarationError(f"{path}: services.{name}: invalid name for a service")
            offers[name] = offer
        for name, variable in declaration.vars.items():
            if variable.needs and variable.needs not in declaration.vars:
                raise DeclarationError(f"{path}: vars.{name}: needs: the role has no variable {variable.needs}")
    runtimes: dict[str, Path] = {}
    for folder, declaration in declarations.items():
        if (runtime := declaration.container_runtime) is not None:
            if runtime in runtimes:
                first_role = runtimes[runtime].name
                raise DeclarationError(
                    f"{folder / ROLES.file}: container_runtime: role {first_role} provides {runtime}, too"
                )
            runtimes[runtime] = folder
    chosen = {path.name: declaration for path, declaration in declarations.items() if declaration.vars}
    return RoleDeclarations(
        offers,
        {role: declaration.vars for role, declaration in chosen.items()},
        {role: declaration.on for role, declaration in chosen.items()},
        tuple(path.name for path in declarations),
        tuple(runtimes),
        {kind: role for role, declaration in chosen.items() for kind in declaration.accepts},
        {
            path.name: RoleMemory(
                declaration.memory, tuple(declaration.services), declaration.scheduler, declaration.on == "true"
            )
            for path, declaration in declarations.items()
            if declaration.memory
        },
    )


def _read_declaration(folder: Path) -> _RoleFile:
    path = folder / ROLES.file
    try:
        text = read_inside(folder, ROLES.file, MAX_YAML).decode("utf-8")
        if not _DECLARES.search(text):  # most roles declare nothing, and reading YAML takes longer
            return _RoleFile()
        return _RoleFile.model_validate(_yaml(text, path))
    except OSError as error:
        raise DeclarationError(f"{path}: the file cannot be read: {error.strerror}") from error
    except ValidationError as error:
        wrong = (
            f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}{_new_name(detail)}" for detail in error.errors()
        )
        raise DeclarationError(f"{path}: {'; '.join(wrong)}") from error
    except ValueError as error:  # the file is outside the folder, or is not UTF-8
        raise DeclarationError(f"{path}: the file cannot be read: {error}") from error


def _new_name(detail: ErrorDetails) -> str:
    """Return where a key that is refused has another name now, and which."""
    new = renamed_keys().get(str(detail["loc"][-1])) if detail["type"] == "extra_forbidden" else None
    return f"; did you mean `{new}`?" if new else ""


def _yaml(text: str, path: Path) -> Any:
    """Read a role.yaml with every scalar as text until pydantic types it: else YAML reads the key `on` as true."""
    document = read_bytes(text.encode(), str(path))
    errors = [entry for entry in document.diagnostics if entry.severity == "error"]
    if errors:
        raise DeclarationError(render_all(errors).strip())
    return plain(document.root)
