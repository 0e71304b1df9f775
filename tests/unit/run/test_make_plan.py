"""What a plan names: an account in the way, with the line of the blueprint that has its number."""

from __future__ import annotations

from pathlib import Path

from hpcforge.cli.site import open_site
from hpcforge.plan.plan import Obstacle
from hpcforge.run.make_plan import with_line
from tests.support.site import REPOSITORY


def test_an_account_in_the_way_has_the_line_of_its_number(tmp_path: Path) -> None:
    text = (REPOSITORY / "blueprints" / "rehearsal.yaml").read_text().replace("  site_roles:", "  # site_roles:")
    before, found, after = text.partition("\nusers:\n")
    assert found
    (tmp_path / "people.yaml").write_text("users:\n  eve:\n    uid: 2999\n")
    blueprint = tmp_path / "site.yaml"
    blueprint.write_text(f"{before}{found}  zoe: {{uid: 2998}}\n{after}\ninclude: [people.yaml]\n")
    site = open_site(blueprint, None, None, None, needs_lab=False)
    line = next(number for number, each in enumerate(blueprint.read_text().splitlines(), 1) if "zoe" in each)
    for kind, name, place in (
        ("account", "zoe", f" ({blueprint}:{line})"),
        ("account", "eve", f" ({tmp_path / 'people.yaml'}:3)"),
        ("account", "slurm", ""),
        ("file", "zoe", ""),
    ):
        obstacle = Obstacle("w01", "users", kind, name, "why")
        assert with_line(site, obstacle).why == f"why{place}"
