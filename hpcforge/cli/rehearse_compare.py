"""`hpcforge rehearse compare`: the stand-ins of a rehearsal, and the files that they change."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.rehearsals import not_up
from hpcforge.cli.site import lab_facts, open_site, stood_in
from hpcforge.cluster import load
from hpcforge.errors import UsageError
from hpcforge.lab import lab as labs
from hpcforge.lab.facts import facts_of
from hpcforge.lab.names import default_lab_name
from hpcforge.rehearsal.compare import compare as compared
from hpcforge.rehearsal.stand_in_rules import OF_LABS, RULES
from hpcforge.report import printing
from hpcforge.report.rehearsal_text import compared_text
from hpcforge.run.site import compile_site, load_site_roles, site_roles
from hpcforge.secrets.secrets import default_identity_path


def compare(
    blueprint: Path, inventory: Path | None, lab: str | None, nodes: str | None, full: bool, as_json: bool
) -> int:
    """Run `hpcforge rehearse compare`. Returns the exit status."""
    loaded, name = load(blueprint, inventory), lab or default_lab_name(blueprint)
    running = labs.load(name) if nodes is None and os.geteuid() == 0 else None  # only root has rehearsals
    if loaded.wants_lab:
        if nodes is not None:
            raise UsageError("a lab's blueprint is always rehearsed as a whole", "leave out --nodes")
        if running is None:
            raise not_up(blueprint, lab)
        site, facts, rules = open_site(blueprint, inventory, lab, None), facts_of(running), OF_LABS
    else:
        facts, rules = lab_facts(loaded, running, nodes), RULES
        site = stood_in(loaded, running, name, default_identity_path(), nodes)
    own = compile_site(site_roles(site), {}, site.cluster)
    roles = load_site_roles(loaded)
    comparison = compared(
        loaded.cluster, facts, rules, roles, own, lambda subset, cluster: compile_site(subset, {}, cluster)
    )
    if as_json:
        printing.result(
            json.dumps({"schema_version": 1, "up": running is not None, **asdict(comparison)}, indent=2) + "\n"
        )
    else:
        printing.result(compared_text(comparison, up=running is not None, full=full))
    return Exit.ERROR if comparison.unexplained else Exit.DONE
