"""`hpcforge validate`: check a blueprint and its inventory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import AsJson, Blueprint, Inventory
from hpcforge.cli.verb import verb
from hpcforge.command_hint import command_line
from hpcforge.report import printing

if TYPE_CHECKING:
    from hpcforge.blueprint.diagnostics import Diagnostic
    from hpcforge.cluster import Loaded


@dataclass(frozen=True, kw_only=True)
class ValidateOptions:
    """Options of `hpcforge validate`."""

    blueprint: Blueprint
    inventory: Inventory = None
    every: Annotated[bool, typer.Option("--all", help="Show each fact that is not checked, with its line.")] = False
    as_json: AsJson = False


@verb(epilog="Example: hpcforge validate blueprints/rehearsal.yaml")
def validate(options: ValidateOptions) -> int:
    """Contacts no node."""
    from hpcforge.blueprint.diagnostics import InvalidInput, in_order
    from hpcforge.cluster import load

    try:
        loaded = load(options.blueprint, options.inventory, further=_further)
    except InvalidInput as error:
        if not options.as_json:
            raise
        printing.result(_json(error.diagnostics))
        return Exit.INVALID
    diagnostics = in_order(loaded.draft.document.source, (*loaded.diagnostics, *_further(loaded)))
    if options.as_json:
        printing.result(_json((*diagnostics, *loaded.not_checked)))
    else:
        _print(options, loaded, diagnostics)
    return Exit.INVALID if _wrong(diagnostics) else Exit.DONE


def _wrong(diagnostics: Sequence[Diagnostic]) -> bool:
    return any(entry.severity == "error" for entry in diagnostics)


def _print(options: ValidateOptions, loaded: Loaded, diagnostics: Sequence[Diagnostic]) -> None:
    from hpcforge.blueprint.diagnostics import counted, folded, render_all

    every = (*diagnostics, *loaded.not_checked)
    printing.note(render_all(every if options.every else diagnostics))
    if not (options.every or _wrong(diagnostics)) and loaded.not_checked:
        separator = "\n" * bool(diagnostics)
        printing.note(f"{separator}not checked (with lines: --all):\n{folded(loaded.not_checked)}\n")
    counts = counted(every)
    if _wrong(diagnostics):
        printing.note(f"\n{counts}\n")
        return
    command = command_line("plan", options.blueprint, inventory=options.inventory)
    more = f", {counts}" if counts else ""
    printing.note("\n" * bool(diagnostics))
    printing.note(f"{options.blueprint} is valid: {len(loaded.cluster.nodes)} nodes{more}. Next: {command}\n")


def _further(loaded: Loaded) -> tuple[Diagnostic, ...]:
    """Check reservations against the clock, and roles and secrets."""
    from hpcforge.cluster import check_table

    past = check_table.run(check_table.TIME, loaded.blueprint.slurm.reservations, _earliest_now())
    return (*loaded.draft.place(past), *_of_roles(loaded))


def _earliest_now() -> str:
    """Return the present time in the westernmost zone: a time in the past there is in the past everywhere."""
    return (datetime.now(UTC) - timedelta(hours=12)).strftime("%Y-%m-%dT%H:%M")


def _of_roles(loaded: Loaded) -> tuple[Diagnostic, ...]:
    """Check variables without effect, a site's own roles, and secrets that the site has to provide.

    Renders roles only if that may report something, since it takes a while.
    """
    provided, rendered = _needs_of_roles(loaded)
    if not rendered and not loaded.blueprint.roles.said():
        return ()
    from hpcforge.blueprint.diagnostics import Diagnostic, InvalidInput, SourceFile
    from hpcforge.plan.roles.role import RoleError
    from hpcforge.run.site import (
        compile_site,
        known_names,
        lacking_secrets,
        load_site_roles,
        without_effect,
    )
    from hpcforge.secrets.secrets import SecretsError, default_identity_path, read_secrets

    try:
        roles = load_site_roles(loaded)
        idle = without_effect(loaded, roles)
        if not rendered:
            return idle
        desired = compile_site(roles, {}, loaded.cluster)
    except RoleError as error:
        wrong = known_names(error, loaded)
        return wrong.diagnostics if isinstance(wrong, InvalidInput) else error.diagnostics
    if not provided:
        return idle
    try:
        secrets = read_secrets(loaded.secrets_path, default_identity_path())
    except SecretsError as error:
        source = SourceFile(str(loaded.secrets_path))
        return (*idle, Diagnostic("not-checked", f"whether secrets are set: {error}", source))
    return (*idle, *lacking_secrets(loaded, roles, desired, secrets, "warning"))


def _needs_of_roles(loaded: Loaded) -> tuple[bool, bool]:
    """Return whether a role may need a secret of the site, and whether roles are rendered for that or another reason.

    The other reasons are a site's own roles, and roles that might not fit. A shipped role needs a secret only if the
    blueprint sets its variables, or has an external service that the role uses.
    """
    from hpcforge.blueprint.role_declarations import ROLES
    from hpcforge.blueprint.untrusted_files import MAX_YAML, having, read_inside

    shipped, *own = loaded.role_folders
    chosen = [shipped / name for name in sorted(loaded.blueprint.roles.said()) if (shipped / name).is_dir()]
    folders = [*chosen, *(role_folder for folder in own for role_folder in having(folder, ROLES.file))]
    texts = [read_inside(folder, ROLES.file, MAX_YAML).decode() for folder in folders]
    outside = [f"services.{name}.external" for name, service in loaded.cluster.services.items() if service.external]
    speaking = (path.read_text("utf-8") for path in shipped.glob("*/role.yaml") if outside)
    texts += (text for text in speaking if any(key in text for key in outside))
    provided = any("provided:" in text for text in texts)
    return provided, bool(own) or provided or _may_be_unfit(loaded, texts)


def _may_be_unfit(loaded: Loaded, chosen: Sequence[str]) -> bool:
    """Return whether a role might not fit: it names contributions of others, or a package that a release lacks.

    Container runtimes that a release lacks have an error of their own.
    """
    if any("contributed:" in text for text in chosen):
        return True
    cluster = loaded.cluster
    systems = [cluster.os_of(name) for name in cluster.by_name]
    lacking = {name for system in systems for name in system.names.lacks}
    texts = [path.read_text("utf-8") for path in loaded.role_folders[0].glob("*/role.yaml")] if lacking else []
    return any(name in text for text in texts if "container_runtime:" not in text for name in lacking)


def _json(diagnostics: Sequence[Diagnostic]) -> str:
    from hpcforge.blueprint.diagnostics import to_json, within_limits

    shown, more = within_limits(diagnostics)
    entries = [to_json(diagnostic) for diagnostic in shown]
    return json.dumps({"schema_version": 1, "diagnostics": entries, "not_shown": more}, indent=2) + "\n"
