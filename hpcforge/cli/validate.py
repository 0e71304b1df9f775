"""`hpcforge validate`: check a blueprint and its inventory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hpcforge.blueprint.diagnostics import (
    Diagnostic,
    InvalidInput,
    SourceFile,
    counted,
    folded,
    in_order,
    render_all,
    to_json,
    within_limits,
)
from hpcforge.blueprint.role_declarations import ROLES
from hpcforge.blueprint.untrusted_files import MAX_YAML, having, read_inside
from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster import Loaded, check_table, load
from hpcforge.command_hint import command_line
from hpcforge.report import printing


def validate(blueprint: Path, inventory: Path | None, as_json: bool, every: bool = False) -> int:
    """Run `hpcforge validate`. Returns the exit status."""
    try:
        loaded = load(blueprint, inventory, further=_further)
    except InvalidInput as error:
        if not as_json:
            raise
        printing.result(_json(error.diagnostics))
        return Exit.INVALID
    found = in_order(loaded.draft.document.source, (*loaded.diagnostics, *_further(loaded)))
    code = Exit.INVALID if any(entry.severity == "error" for entry in found) else Exit.DONE
    if as_json:
        printing.result(_json((*found, *loaded.not_checked)))
        return code
    printing.note(render_all((*found, *loaded.not_checked) if every else found), "diagnostics")
    if not every and not code and loaded.not_checked:
        printing.note(f"{chr(10) * bool(found)}not checked (with lines: --all):\n{folded(loaded.not_checked)}\n")
    counts = counted((*found, *loaded.not_checked))
    if code:
        printing.note(f"\n{counts}\n")
        return code
    again = command_line("plan", blueprint, inventory=inventory)
    more = f", {counts}" if counts else ""
    printing.note("\n" * bool(found))
    printing.note(f"{blueprint} is valid: {len(loaded.cluster.nodes)} nodes{more}. Next: {again}\n")
    return Exit.DONE


def _further(loaded: Loaded) -> tuple[Diagnostic, ...]:
    """Return what a clock shows, and what roles and secrets do."""
    past = check_table.run(check_table.TIME, loaded.blueprint.slurm.reservations, _earliest_now())
    return (*loaded.draft.place(past), *_of_roles(loaded))


def _earliest_now() -> str:
    """Return the time of now as the westernmost clock shows it: what is over there is over on each."""
    return (datetime.now(UTC) - timedelta(hours=12)).strftime("%Y-%m-%dT%H:%M")


def _of_roles(loaded: Loaded) -> tuple[Diagnostic, ...]:
    """Check variables without effect, a site's own roles, and secrets that the site has to provide.

    Roles are rendered only if that may find something: it takes a while.
    """
    provided, rendered = _needs_of_roles(loaded)
    if not rendered and not loaded.blueprint.roles.said():
        return ()
    from hpcforge.plan.roles.role import RoleError  # noqa: PLC0415
    from hpcforge.run.site import (  # noqa: PLC0415
        compile_site,
        known_names,
        lacking_secrets,
        load_site_roles,
        without_effect,
    )
    from hpcforge.secrets.secrets import SecretsError, default_identity_path, read_secrets  # noqa: PLC0415 - takes a while

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
    """Tell whether a role might not fit: it names what others contribute, or a package that a release lacks.

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
    shown, more = within_limits(diagnostics)
    entries = [to_json(diagnostic) for diagnostic in shown]
    return json.dumps({"schema_version": 1, "diagnostics": entries, "not_shown": more}, indent=2) + "\n"
