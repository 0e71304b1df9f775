"""The schema of `role.yaml`: its resources, and the settings of the role as a whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import GenericAlias
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator, model_validator

from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.role_declarations import MemoryNeed, RuntimeName
from hpcforge.blueprint.sections.services import Offer
from hpcforge.blueprint.values import ShortForm, refusal
from hpcforge.blueprint.variables import Variable, VariableName
from hpcforge.kinds import KINDS
from hpcforge.plan.desired import Disruption, OnRemove, Shape
from hpcforge.plan.resources import TYPES, as_templates
from hpcforge.plan.roles.render import Expression, Template
from hpcforge.plan.secrets import SecretName, SecretSpec

_DOWNLOADS = "downloads"  # a kind that role.yaml does not have: `artifacts` implies it
_TRUE, _FALSE = Expression("true"), Expression("false")


class _Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ResourceSpec(_Spec):
    """The fields of every resource: its condition and its loop."""

    when: Expression = Field(_TRUE, description="It exists if this is true.")
    for_each: Expression | None = Field(
        None, description="A list: one resource for each entry, which `when` and the other fields use as `item`."
    )


_RESERVED = {"role", "nodes", "text", "source", *ResourceSpec.model_fields}  # names that no field of a kind can have


class PackageSpec(ResourceSpec):
    """A package of the distribution."""

    name: Template = Field(description="Its name.")


class FileSpec(ResourceSpec):
    """A file; its content is in the role's folder, below the path that it gets on the node, unless a field changes
    that.

    `files/etc/motd` is handed on as it is, `files/etc/motd.j2` is rendered. At most one of `content`, `source` and
    `secret`.
    """

    path: Template = Field(description="Its path on the node.")
    source: str | None = Field(
        None,
        description="The file with its content, a path in the role's folder; rendered if it ends in `.j2`. For a "
        "path that varies.",
    )
    content: Template | None = Field(None, description="Its content.")
    secret: Template | None = Field(None, description="The name of the secret that it contains.")
    mode: str = Field("0644", description="Access rights, octal.")
    owner: Template = Field(Template("root"), description="The user that owns it.")
    group: Template = Field(Template("root"), description="The group that owns it.")
    scope: Literal["cluster", "node"] = Field(
        "cluster", description="`cluster`: its text is the same on all nodes, and must not use `node`."
    )
    before_packages: bool = Field(False, description="It must exist before packages are installed.")
    verify: tuple[str, ...] = Field(
        (),
        description="A command that must succeed before the file replaces the old one; `{file}` is the path of "
        "the new file.",
    )

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if sum(origin is not None for origin in (self.content, self.source, self.secret)) > 1:
            raise refusal(f"{self.path}: give at most one of content, source and secret")
        return self


class RereadSpec(_Spec):
    """A file that a reload is enough for; with `lines` where it changes in lines that match that expression alone."""

    path: Template = Field(description="A path of `restart_on`.")
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
    """A systemd unit that is enabled and active."""

    name: Template = Field(description="Its name, as in `chrony.service`.")
    restart_on: tuple[Template, ...] | None = Field(
        None, description="Paths of files: where one changes, the unit is restarted. Default: every file of the role."
    )
    reload_commands: tuple[tuple[Template, ...], ...] = Field((), description="Commands that replace a restart.")
    reload_on: tuple[Annotated[RereadSpec, ShortForm("path")], ...] = Field(
        (), description="The files that `reload_commands` is enough for. Default: all of `restart_on`."
    )


class ListenSpec(ResourceSpec):
    """A port that a daemon of the role listens on. A node where another program has it is left out."""

    port: Template = Field(description="Its number.")
    protocol: Literal["tcp", "udp"] = Field("tcp", description="Its transport.")
    address: Template = Field(Template(""), description="The address of the node. Default: all.")


class RestartSpec(ResourceSpec):
    """A unit of another role's that this one disturbs: it is restarted when one of `restart_on` changes."""

    name: Template = Field(description="Its name.")
    restart_on: tuple[Template, ...] | None = Field(
        None, description="Paths of files of this role. Default: every file of the role."
    )


class ArtifactSpec(ResourceSpec):
    """A file from outside, pinned: the operator host fetches it, the depot serves it, and with `path` a node has it."""

    name: Template = Field(description="Its path in the depot, FOLDER/FILE.")
    source: Template = Field(
        description="Its address (https, http, file), or `pip` for a wheel that pip finds by its file name."
    )
    sha256: Template = Field(description="SHA-256 of its content, 64 digits of 0-9 and a-f.")
    size_bytes: Template | None = Field(None, description="Its size, bytes, if known.")
    path: Template | None = Field(
        None, description="Its path on the node. Default: none; the role's own code fetches it from the depot."
    )
    mode: Template = Field(Template("0644"), description="Octal; root owns it.")


class TreeSpec(ResourceSpec):
    """A path that only the role's own code creates."""

    path: Template = Field(description="Removed with the role, with all its content.")


class LeavesSpec(ResourceSpec):
    """A path that stays when the role goes, and why."""

    path: Template = Field(description="What stays.")
    why: str = Field(description="The reason, for the person who removes the role.")


class OldStateSpec(ResourceSpec):
    """What another cluster may have left, and this role would take for its own: `apply --take-over` renames it."""

    path: Template = Field(description="A folder or a file.")
    name_in: str = Field(
        "", description="The file below it with the other cluster's name. Default: the file itself has `ClusterName=`."
    )
    beside: tuple[Template, ...] = Field((), description="Paths that are renamed with it.")
    unit: Template = Field(Template(""), description="The unit that is stopped before.")
    why: str = Field(description="What it would do, for the person who reads the plan.")


class AcceptSpec(_Spec):
    """A kind of items that roles may contribute; templates of this role get them as `contributions.KIND`.

    Each item has the fields of the kind, `role` (the name of the contributing role) and `nodes` (where that runs).
    """

    description: v.Sentence = Field(description="What such an item is.")
    scope: Literal["cluster", "node"] = Field(
        "cluster",
        description="`cluster`: an item is the same on all nodes, and templates get a list. `node`: it is rendered for "
        "each node where its role runs, and templates get the lists by node: `contributions.KIND[node.name]`.",
    )
    fields: Mapping[VariableName, Variable] = Field(min_length=1, description="Its fields by name, typed as `vars`.")
    text: bool = Field(False, description="Each item has a text, too: `source` names a file of the contributing role.")
    unique: tuple[VariableName, ...] = Field(
        (), description="Items that agree in these fields are one item. Two that then differ are an error."
    )
    known: Expression | None = Field(
        None,
        description="An expression over `cluster`: a list of the values that the first field of `unique` may have, in "
        "any case. Without it, or where it is none: any.",
    )
    joined: VariableName | None = Field(
        None, description="A field that may differ: its values are joined by commas, each once."
    )
    joined_if: VariableName | None = Field(
        None, description="A field of type `truth`: `joined` counts only for items where it is true."
    )

    @model_validator(mode="after")
    def _has_these_fields(self) -> Self:
        for name in filter(None, (*self.unique, self.joined, self.joined_if)):
            if name not in self.fields:
                raise refusal(f"{quote(name)} is none of its fields", did_you_mean(name, self.fields))
        for name in self.fields:
            if name in _RESERVED:
                raise refusal(f"{quote(name)} cannot be a field: every item has it")
        if self.joined and self.fields[self.joined].type not in ("text", "setting"):
            raise refusal("`joined` is for a field of type text or setting")
        if self.joined_if and (not self.joined or self.fields[self.joined_if].type != "truth"):
            raise refusal("`joined_if` is for a field of type truth, beside `joined`")
        if self.known is not None and not self.unique:
            raise refusal("`known` without `unique`")
        return self


class ContributionSpec(ResourceSpec):
    """An item of a kind that another role accepts: a template for each field of that kind."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Template] = Field(init=False)

    source: str | None = Field(
        None, description="A file in the role's folder, if the kind has a text; rendered if it ends in `.j2`."
    )

    @property
    def fields(self) -> Mapping[str, Template]:
        """What it says besides, by the names of the kind's fields."""
        return self.__pydantic_extra__


class CheckSpec(ResourceSpec):
    """A command with an expected outcome."""

    name: str = Field(description="What it proves.")
    command: tuple[Template, ...] = Field(min_length=1, description="Program and arguments; no shell reads them.")
    stdout: Template | None = Field(
        None, description="A regular expression that its output must match. Default: only exit status 0 counts."
    )
    wait_s: float = Field(0, description="How long to retry it after a change, seconds.")
    precondition: bool = Field(
        False,
        description="Whether it must pass before any change: hpcforge skips a node where it fails. A node without "
        "Python runs it only afterwards.",
    )


class CollectionSpec(_Spec):
    """A collection that `tasks/main.yml` uses, pinned by its version and the digest of its archive.

    The operator host fetches the archive; nodes get nothing of it but the modules that run there. By default the
    collection comes with the PyPI package `ansible` that hpcforge pins.
    """

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$", description="NAMESPACE.NAME, as in `community.mysql`."
    )
    version: str = Field(pattern=r"^[0-9][0-9A-Za-z.+-]*$", description="Its exact version, as in `3.16.1`.")
    source: str | None = Field(
        None,
        pattern=r"^(https?://[^\s/@]+/|file:///)\S+$",
        description="The address of its archive (`.tar.gz`; https, http, file). Default: the PyPI package `ansible`.",
    )
    sha256: str | None = Field(
        None, pattern="^[0-9a-f]{64}$", description="SHA-256 of that archive, 64 digits of 0-9 and a-f."
    )

    @model_validator(mode="after")
    def _pinned(self) -> Self:
        if (self.source is None) != (self.sha256 is None):
            raise refusal(f"{self.name}: give source and sha256 together, or neither")
        return self


class GoingSpec(_Spec):
    """The fields of a site's Ansible role: its collections, and the rules for its removal."""

    description: str = Field("", description="What the role is for.")
    collections: tuple[CollectionSpec, ...] = Field(
        (), description="Collections of Ansible that `tasks/main.yml` uses, each pinned."
    )
    delete_on_removal: tuple[Annotated[TreeSpec, ShortForm("path")], ...] = Field(
        (), description="Paths that only its own code creates: they are removed with all their content."
    )
    keep_on_removal: tuple[LeavesSpec, ...] = Field((), description="What stays when the role goes.")


class RoleSpec(GoingSpec):
    """The fields of `role.yaml`, but for the kinds of resources, which come from their table."""

    not_keys: ClassVar[Mapping[str, str]] = {
        "ports": "since 0.2 write `contributes: {open_ports: [...]}`",
        "settings": "since 0.2 write `contributes: {slurm_conf: [...]}`, or another kind that a role accepts",
    }

    description: str = Field(description="What the role is for.")
    on: Expression = Field(description="It runs on the nodes where this expression is true.")
    needs: tuple[str, ...] = Field(
        (),
        description="Roles that run before it: `base`, on the same node; `base@cluster`, on every node where `base` "
        "runs.",
    )
    packages: tuple[Annotated[PackageSpec, ShortForm("name")], ...] = Field(
        (), description="Packages of the distribution; packages of all roles are installed together."
    )
    replaces: tuple[str, ...] = Field((), description="Packages that the distribution removes for these, if installed.")
    programs: tuple[str, ...] = Field(
        (),
        description="Programs and libraries (`libmunge.so.2`) of its packages. A node where others of these names come "
        "first, as in /usr/local, is left out.",
    )
    listens: tuple[Annotated[ListenSpec, ShortForm("port")], ...] = Field(
        (), description="Ports that its daemons listen on."
    )
    files: tuple[Annotated[FileSpec, ShortForm("path")], ...] = Field((), description="Regular files.")
    units: tuple[Annotated[UnitSpec, ShortForm("name")], ...] = Field(
        (), description="Systemd units: enabled, active, and restarted when a file of their `restart_on` changes."
    )
    restarts: tuple[Annotated[RestartSpec, ShortForm("name")], ...] = Field(
        (), description="Units of other roles, which then run after this role."
    )
    artifacts: tuple[ArtifactSpec, ...] = Field((), description="Pinned files from outside, through the depot.")
    accepts: Mapping[VariableName, AcceptSpec] = Field(
        {}, description="Kinds of items that other roles may contribute, for its templates: `contributions.KIND`."
    )
    contributes: Mapping[VariableName, tuple[ContributionSpec, ...]] = Field(
        {}, description="Items for other roles, by the kind that such a role accepts."
    )
    services: Mapping[str, Offer] = Field({}, description="Services that it adds for blueprints, under `services`.")
    vars: Mapping[VariableName, Variable] = Field(
        {}, description="Variables that it adds for blueprints, under `roles`."
    )
    container_runtime: RuntimeName | None = Field(
        None, description="The word for it under `software.containers.runtimes`, if it provides a container runtime."
    )
    secrets: Mapping[SecretName, SecretSpec] = Field(
        {}, description="Secrets for its files and those of roles that need it: `{{ secret('NAME') }}`."
    )
    checks: tuple[CheckSpec, ...] = Field((), description="Commands with an expected result, run in every plan.")
    inputs: Mapping[str, Expression] = Field(
        {}, description="Inputs of `deploy.py` or `tasks/main.yml`: an expression by name."
    )
    rerun_on: tuple[Template, ...] = Field(
        (), description="Paths of files of this role: where one changes, its code runs again. Default: none."
    )
    on_removal: OnRemove = Field(
        "stop",
        description="When the role is removed: `stop` its units and remove what it wrote; `purge` also removes its "
        "packages; `keep` removes nothing.",
    )
    old_state: tuple[OldStateSpec, ...] = Field((), description="What another cluster may have left on a node.")
    before_site_roles: bool = Field(False, description="A site's own Ansible roles wait for it.")
    not_rehearsed: str = Field(
        "",
        description="Why no rehearsal can run it: the hardware that it needs. A stand-in role takes its place by its "
        "own `on`, as `gpu_fake` does.",
    )
    not_in_containers: str = Field("", description="Why a rehearsal in containers cannot run it; virtual machines can.")
    memory: MemoryNeed | None = Field(
        None, description="Memory that its programs take, for a warning of `validate`. Default: not counted."
    )
    scheduler: bool = Field(
        False, description="It installs Slurm's controller: without one, hpcforge neither admits nor verifies."
    )
    auto_rollback: bool = Field(
        False,
        description="It could lock hpcforge out or stop a service that all nodes need: the node restores its files "
        "if it fails, or if no new connection confirms it.",
    )
    strategy: Shape = Field("free", description="`together`: each node waits until all nodes have its files.")
    affects_jobs: bool = Field(True, description="False: it cannot affect jobs, so a change needs no smoke test.")
    sets_clock: Expression = Field(
        _FALSE, description="An expression over `cluster`: whether it sets the node's clock."
    )
    disrupts: Mapping[str, Disruption] = Field(
        {}, description="How its changes disrupt jobs, if not the default: by `packages`, a kind of resource, "
            "`units`, `code`."
    )  # fmt: skip

    def of(self, kind: str) -> tuple[ResourceSpec, ...]:
        """Return the entries of one kind of resource."""
        if kind == _DOWNLOADS:
            return tuple(artifact for artifact in self.artifacts if artifact.path is not None)
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
        if self.auto_rollback and "reboot" in self.disrupts.values():
            raise refusal(
                "a role with `auto_rollback` cannot request a reboot: the node would revert the change during it"
            )
        return self

    @model_validator(mode="after")
    def _no_downloads_under_guard(self) -> Self:
        if self.auto_rollback and self.of(_DOWNLOADS):
            raise refusal(
                "a role with `auto_rollback` cannot have artifacts on its nodes: the node could not revert them"
            )
        return self


def _spec_of(kind: str) -> Any:
    """Return the schema of one kind of resource in `role.yaml`; a string is short for its key field."""
    resource_type = TYPES[kind]
    made: Any = FileSpec
    if kind != "files":
        made = create_model(
            f"{resource_type.__name__}Spec",
            __base__=ResourceSpec,
            __doc__=resource_type.__doc__,
            **as_templates(resource_type),
        )
    return Annotated[made, ShortForm(KINDS[kind].key)]


def _meaning(kind: str) -> str:
    resource_type = FileSpec if kind == "files" else TYPES[kind]
    return (resource_type.__doc__ or "").partition("\n")[0]


def json_schema() -> dict[str, Any]:
    """Return the schema of role.yaml, for editors and for the reference."""
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, **ROLE_SPEC.model_json_schema(), "title": "role.yaml"}


_PARTS = ("packages", *TYPES, "units", "code")
_KINDS: dict[str, Any] = {
    kind: (GenericAlias(tuple, (_spec_of(kind), ...)), Field((), description=_meaning(kind)))
    for kind in TYPES
    if kind != _DOWNLOADS
}
ROLE_SPEC: type[RoleSpec] = create_model("RoleSpec", __base__=RoleSpec, **_KINDS)  # with the kinds of resources
