"""What `role.yaml` may say: its resources, and what belongs to the role as a whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import GenericAlias
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator, model_validator

from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.services import Offer
from hpcforge.blueprint.values import Short, refusal
from hpcforge.blueprint.variables import Variable, VariableName
from hpcforge.kinds import KINDS
from hpcforge.plan.desired import Disruption, OnRemove, Shape
from hpcforge.plan.render import Expression, Template
from hpcforge.plan.resources import TYPES, as_templates
from hpcforge.plan.secrets import SecretName, SecretSpec

_DOWNLOADS = "downloads"  # a kind that role.yaml does not say by itself: it follows from `artifacts`
_MAX_WHY_BYTES = 100  # nft takes comments of 128
_TRUE, _FALSE = Expression("true"), Expression("false")


class _Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ResourceSpec(_Spec):
    """What every resource may say: whether, and for each of what."""

    when: Expression = Field(_TRUE, description="It is there where this is true.")
    for_each: Expression | None = Field(
        None, description="A list: one for each entry of it, which `when` and the other fields know as `item`."
    )


class PackageSpec(ResourceSpec):
    """A package of the distribution."""

    name: Template = Field(description="Its name.")


class FileSpec(ResourceSpec):
    """A file; what is in it lies in the role's folder, at the path that it will have, unless this says otherwise.

    `files/etc/motd` is handed on as it is, `files/etc/motd.j2` is rendered. At most one of `content`, `source` and
    `secret`.
    """

    path: Template = Field(description="Where it will be on the node.")
    source: str | None = Field(
        None,
        description="What is in it lies here, a path in the role's folder; rendered, if it ends in `.j2`. For a path "
        "that varies.",
    )
    content: Template | None = Field(None, description="What is in it.")
    secret: Template | None = Field(None, description="The name of the secret that is in it.")
    mode: str = Field("0644", description="Access rights, octal.")
    owner: Template = Field(Template("root"), description="The user that owns it.")
    group: Template = Field(Template("root"), description="The group that owns it.")
    scope: Literal["cluster", "node"] = Field(
        "cluster", description="`cluster`: its text is the same on all nodes, and may not speak of `node`."
    )
    early: bool = Field(False, description="It must be there before packages are installed.")
    verify: tuple[str, ...] = Field(
        (), description="A command that must succeed before the file gets its name; `{file}` stands for the new one."
    )

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if sum(one is not None for one in (self.content, self.source, self.secret)) > 1:
            raise refusal(f"{self.path}: give at most one of content, source and secret")
        return self


class RereadSpec(_Spec):
    """A file that a refresh is enough for; with `lines` where it changes in lines that match that expression alone."""

    path: Template = Field(description="A path that the unit watches.")
    lines: str | None = Field(None, description="A regular expression that every changed line must match as a whole.")

    @field_validator("lines")
    @classmethod
    def _is_expression(cls, lines: str | None) -> str | None:
        try:
            if lines is not None:
                re.compile(lines)
        except re.error as error:
            raise refusal(f"{quote(lines or '')} is not a regular expression: {error}") from error
        return lines


class UnitSpec(ResourceSpec):
    """A systemd unit that shall be enabled and active."""

    name: Template = Field(description="Its name, as in `chrony.service`.")
    watches: tuple[Template, ...] | None = Field(
        None, description="Paths of files: where one changes, the unit is restarted. Default: every file of the role."
    )
    refresh: tuple[tuple[Template, ...], ...] = Field((), description="Commands that take the place of a restart.")
    rereads: tuple[Annotated[RereadSpec, Short("path")], ...] = Field(
        (), description="The files that `refresh` is enough for. Default: all that it watches."
    )


class RestartSpec(ResourceSpec):
    """A unit of another role's that this one disturbs: it is restarted when one of `watches` changes."""

    name: Template = Field(description="Its name.")
    watches: tuple[Template, ...] | None = Field(
        None, description="Paths of files of this role. Default: every file of the role."
    )


class ArtifactSpec(ResourceSpec):
    """A file from outside, pinned: the operator host fetches it, the depot serves it, and with `to` the node has it."""

    name: Template = Field(description="FOLDER/FILE, by which the depot serves it.")
    source: Template = Field(
        description="Its address (https, http, file), or `pip`: a wheel that pip finds by its file name."
    )
    sha256: Template = Field(description="SHA-256 of its content, 64 digits of 0-9 and a-f.")
    size_bytes: Template | None = Field(None, description="Its size, bytes, where that is known.")
    to: Template | None = Field(
        None, description="Its path on the node. Default: none, and the role's own code takes it from the depot."
    )
    mode: Template = Field(Template("0644"), description="Octal; it is root's.")


class TreeSpec(ResourceSpec):
    """A path that the role's own code makes, and nobody else."""

    path: Template = Field(description="Goes with the role, with all that is in it.")


class LeavesSpec(ResourceSpec):
    """A path that stays when the role goes, and why."""

    path: Template = Field(description="What stays.")
    why: str = Field(description="The reason, for the person who takes the role away.")


class PortSpec(ResourceSpec):
    """A port on which its node answers hosts outside the cluster's networks, too, where a firewall stands."""

    port: Template = Field(description="1 to 65535, or a range: `30000-30100`.")
    protocol: Literal["tcp", "udp"] = Field("tcp", description="Over which transport.")
    why: str = Field(description="What for: it stands beside the port in the firewall's rules.")

    @field_validator("why")
    @classmethod
    def _is_comment(cls, why: str) -> str:
        if not why.isprintable() or len(why.encode()) > _MAX_WHY_BYTES or '"' in why or "\\" in why:
            raise refusal(f'one line of at most {_MAX_WHY_BYTES} bytes, without " and \\: it becomes a comment of nft')
        return why


class SettingSpec(ResourceSpec):
    """A key that a file of another role shall have, the same on all nodes: its template puts it where it belongs."""

    file: Template = Field(description="The path of that file.")
    key: Template = Field(description="As in `PrologFlags`.")
    value: Template = Field(description="One line, without `#`.")
    several: bool = Field(
        False, description="It takes a list: what several roles, and the site, say of it is joined by commas."
    )


class CheckSpec(ResourceSpec):
    """A command with an expected outcome."""

    name: str = Field(description="What is so where it passes.")
    command: tuple[Template, ...] = Field(min_length=1, description="Program and arguments; no shell reads them.")
    stdout: Template | None = Field(
        None, description="A regular expression that must be found in what it prints. Default: exit status 0 is enough."
    )
    wait_s: float = Field(0, description="How long it is tried again after a change, seconds.")
    first: bool = Field(
        False,
        description="Whether it has to pass before anything is done: a node where it fails is left out. One without "
        "Python, that cannot be asked yet, has it afterwards alone.",
    )


class GoingSpec(_Spec):
    """What becomes of what a role's own code makes when the role goes: all that a site's Ansible role may say."""

    description: str = Field("", description="What the role is for.")
    removes: tuple[Annotated[TreeSpec, Short("path")], ...] = Field(
        (), description="Paths that its own code makes, and nobody else: they go, with all that is in them."
    )
    leaves: tuple[LeavesSpec, ...] = Field((), description="What stays when the role goes.")


class RoleSpec(GoingSpec):
    """What `role.yaml` may say, but for the kinds of resources: those come from their table."""

    description: str = Field(description="What the role is for.")
    on: Expression = Field(description="It runs on the nodes where this is true.")
    needs: tuple[str, ...] = Field(
        (),
        description="Roles that come before it: `base`, on the same node where it runs there; `base@cluster`, on every "
        "node where it runs.",
    )
    packages: tuple[Annotated[PackageSpec, Short("name")], ...] = Field(
        (), description="Packages of the distribution, of all roles installed at once."
    )
    replaces: tuple[str, ...] = Field(
        (), description="Packages that the distribution removes for these, where they are there."
    )
    files: tuple[Annotated[FileSpec, Short("path")], ...] = Field((), description="Regular files.")
    units: tuple[Annotated[UnitSpec, Short("name")], ...] = Field(
        (), description="Systemd units, enabled and active; restarted where a file changes that they watch."
    )
    restarts: tuple[Annotated[RestartSpec, Short("name")], ...] = Field(
        (), description="Units of other roles; those come after this one on the nodes where it is."
    )
    artifacts: tuple[ArtifactSpec, ...] = Field((), description="Files from outside, pinned, through the depot.")
    ports: tuple[PortSpec, ...] = Field(
        (), description="Ports that hosts outside the cluster's networks may reach; templates know those of all roles "
        "of a node as `open_ports[node.name]`."
    )  # fmt: skip
    settings: tuple[SettingSpec, ...] = Field(
        (), description="Keys that files of other roles shall have, where this one runs on any node; templates know "
        "them as `settings[PATH]`."
    )  # fmt: skip
    services: Mapping[str, Offer] = Field({}, description="What blueprints may then say under `services`.")
    vars: Mapping[VariableName, Variable] = Field({}, description="What blueprints may then choose under `roles`.")
    secrets: Mapping[SecretName, SecretSpec] = Field(
        {}, description="What its files, and those of roles that need it, may hold: `{{ secret('NAME') }}`."
    )
    checks: tuple[CheckSpec, ...] = Field((), description="Commands with an expected outcome, looked at in every plan.")
    inputs: Mapping[str, Expression] = Field(
        {}, description="What `deploy.py` or `tasks/main.yml` is told: an expression by name."
    )
    on_remove: OnRemove = Field(
        "stop",
        description="When the role goes: `stop` its units and take away what it wrote; `purge` the packages that it "
        "brought, too; or `keep` all.",
    )
    before_site_roles: bool = Field(False, description="A site's own Ansible roles wait for it.")
    not_rehearsed: str = Field(
        "",
        description="Why every rehearsal leaves it out: what of a machine it needs that none has. A role "
        "that stands in for it says so by its `on`, as `gpu_fake` does.",
    )
    not_in_containers: str = Field(
        "", description="Why a rehearsal in containers leaves it out; virtual machines have it, as real ones do."
    )
    scheduler: bool = Field(
        False, description="It brings Slurm's controller: without one nothing is admitted or verified."
    )
    guard: bool = Field(
        False,
        description="It could lock hpcforge out, or stop what all nodes need: the node puts its files back where it "
        "fails, and where no new connection confirms it.",
    )
    shape: Shape = Field("free", description="`together`: no node goes on before all have its files.")
    jobs_feel: bool = Field(
        True, description="False: no job's outcome depends on it, so a change of it calls for no smoke test."
    )
    sets_clock: Expression = Field(_FALSE, description="Over `cluster`: whether it makes the node's clock right.")
    disrupts: Mapping[str, Disruption] = Field(
        {}, description="What changing it does to jobs, where it is not what is usual: by `packages`, a kind of "
        "resource, `units`, `opaque`."
    )  # fmt: skip

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
                raise refusal(f"{part!r} is none of {', '.join(_PARTS)}", did_you_mean(part, _PARTS))
        return disrupts

    @model_validator(mode="after")
    def _no_reboot_under_guard(self) -> Self:
        if self.guard and "reboot" in self.disrupts.values():
            raise refusal("a guarded role cannot request a reboot: the node would revert the change during it")
        return self

    @model_validator(mode="after")
    def _no_downloads_under_guard(self) -> Self:
        if self.guard and self.of(_DOWNLOADS):
            raise refusal("a guarded role cannot have artifacts on its nodes: the node could not revert them")
        return self


def _spec_of(kind: str) -> Any:
    """What `role.yaml` may say of one kind of resource; a text alone stands for the field that names one."""
    of = TYPES[kind]
    made: Any = FileSpec
    if kind != "files":
        made = create_model(f"{of.__name__}Spec", __base__=ResourceSpec, __doc__=of.__doc__, **as_templates(of))
    return Annotated[made, Short(KINDS[kind].key)]


def _meaning(kind: str) -> str:
    of = FileSpec if kind == "files" else TYPES[kind]
    return (of.__doc__ or "").partition("\n")[0]


def json_schema() -> dict[str, Any]:
    """What role.yaml may say, for editors and for the reference."""
    return {**ROLE_SPEC.model_json_schema(), "title": "role.yaml"}


_PARTS = ("packages", *TYPES, "units", "opaque")
_KINDS: dict[str, Any] = {
    kind: (GenericAlias(tuple, (_spec_of(kind), ...)), Field((), description=_meaning(kind)))
    for kind in TYPES
    if kind != _DOWNLOADS
}
ROLE_SPEC: type[RoleSpec] = create_model("RoleSpec", __base__=RoleSpec, **_KINDS)  # with the kinds of resources
