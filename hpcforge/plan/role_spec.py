"""What `role.yaml` may say: its resources, and what belongs to the role as a whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import GenericAlias
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model, field_validator, model_validator

from hpcforge.blueprint.services import Offer
from hpcforge.plan.desired import Disruption, OnRemove, Shape
from hpcforge.plan.resources import TYPES, as_templates

_DOWNLOADS = "downloads"  # a kind that role.yaml does not say by itself: it follows from `artifacts`
Expression = str  # a Jinja expression over `cluster`, `node` and, under `for_each`, `item`


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


class RestartSpec(ResourceSpec):
    """A unit of another role's that this one disturbs: it is restarted when one of `watches` changes."""

    name: str
    watches: tuple[str, ...] | None = None  # files of this role; None: every one


class ArtifactSpec(ResourceSpec):
    """A file from outside, pinned: the operator host fetches it, the depot serves it, and with `to` the node has it."""

    name: str  # FOLDER/FILE, by which the depot serves it
    source: str  # its address (https, http, file), or `pip`: a wheel that pip finds by its file name
    sha256: str
    size_bytes: str | None = None
    to: str | None = None  # a path on the node; without it the role's own work takes it from the depot
    mode: str = "0644"  # octal; it is root's


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
    restarts: tuple[RestartSpec, ...] = ()  # units of other roles; those come after this one where it is
    artifacts: tuple[ArtifactSpec, ...] = ()
    services: Mapping[str, Offer] = {}  # what blueprints may then say under `services`
    checks: tuple[CheckSpec, ...] = ()
    inputs: Mapping[str, Expression] = {}
    on_remove: OnRemove = "stop"
    before_site_roles: bool = False  # a site's own Ansible roles wait for it
    scheduler: bool = False  # it brings Slurm's controller: without one nothing is admitted or verified
    guard: bool = False
    shape: Shape = "free"
    jobs_feel: bool = True  # False: no job's outcome depends on it, so a change of it calls for no smoke test
    sets_clock: Expression = "false"  # over `cluster`: whether it makes the node's clock right
    disrupts: Mapping[str, Disruption] = {}  # by "packages", a kind, "units", "opaque"

    def of(self, kind: str) -> tuple[ResourceSpec, ...]:
        """What it says of one kind of resource."""
        if kind == _DOWNLOADS:
            return tuple(one for one in self.artifacts if one.to is not None)
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

    @model_validator(mode="after")
    def _no_downloads_under_guard(self) -> Self:
        if self.guard and self.of(_DOWNLOADS):
            raise ValueError("a guarded role cannot have artifacts on its nodes: they would not be taken back")
        return self


def _spec_of(kind: str) -> type[ResourceSpec]:
    """What `role.yaml` may say of one kind of resource."""
    if kind == "files":
        return FileSpec
    of = TYPES[kind]
    return create_model(f"{of.__name__}Spec", __base__=ResourceSpec, __doc__=of.__doc__, **as_templates(of))


_PARTS = ("packages", *TYPES, "units", "opaque")
_KINDS: dict[str, Any] = {
    kind: (GenericAlias(tuple, (_spec_of(kind), ...)), ()) for kind in TYPES if kind != _DOWNLOADS
}
ROLE_SPEC: type[RoleSpec] = create_model("RoleSpec", __base__=RoleSpec, **_KINDS)  # with the kinds of resources
