"""Checks the YAML that hpcforge ships and writes against its JSON Schemas, as other tools do: by check-jsonschema.

    python -m tools.check_schemas

The schemas themselves are checked against their metaschema, patterns by ECMA 262. `make check` runs it.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from hpcforge.cli import run
from hpcforge.starter.draft import OF_MACHINES, templates

ROOT = Path(__file__).parents[1]
SCHEMAS = ("blueprint", "inventory", "smoke-test", "role", "design", "verification")
SHIPPED = {
    "blueprint": ("blueprints/*.yaml", "tests/unit/blueprint/cases/valid*.yaml"),
    "inventory": ("inventory/*.yaml",),
    "smoke-test": ("smoke_tests/*/test.yaml",),
    "role": ("roles/*/role.yaml", "examples/*/roles/*/role.yaml", "blueprints/campus_roles/*/role.yaml"),
}
DESIGNED = ("air-cooled-16", "campus", "dgx-h100-unit", "roce-pair-16")


def written(folder: Path) -> Iterator[tuple[str, Path]]:
    """Run the commands that write files; yield each file with the name of its schema."""
    for name in SCHEMAS:
        (folder / f"{name}.json").write_text(_output("schema", name), encoding="utf-8")
    (folder / "hosts").write_text("10.20.0.10 head\n10.20.0.11 1001\n10.20.0.12 w02\n", encoding="utf-8")
    starts = {OF_MACHINES: ("--from", str(folder / "hosts"))}
    for template in sorted({*templates(), OF_MACHINES}):
        blueprint = folder / f"{template}.yaml"
        _output("init", str(blueprint), *starts.get(template, ("--template", template)))
        yield "blueprint", blueprint
        yield from (("inventory", path) for path in folder.glob(f"{template}.inventory.yaml"))
    _output("role", "new", "scratch", "--in", str(folder / "roles"))
    yield "role", folder / "roles" / "scratch" / "role.yaml"
    for name in DESIGNED:
        design = folder / f"{name}.design.json"
        design.write_text(_output("design", str(ROOT / "blueprints" / f"{name}.yaml"), "--json"), encoding="utf-8")
        yield "design", design


def _output(*arguments: str) -> str:
    """Return the output of an hpcforge command. Raises `RuntimeError` if it fails."""
    output, notes = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(notes):
        status = run(list(arguments))
    if status:
        raise RuntimeError(f"hpcforge {' '.join(arguments)}: exit status {status}\n{notes.getvalue()}")
    return output.getvalue()


def check(arguments: Sequence[str | Path]) -> bool:
    """Run check-jsonschema, which prints errors; return whether there are none."""
    command = [sys.executable, "-m", "check_jsonschema", "--quiet", *map(str, arguments)]
    return subprocess.run(command, check=False).returncode == 0


def main() -> int:
    """Return 1 if a schema or a file is wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [
            (schema, path)
            for schema, patterns in SHIPPED.items()
            for pattern in patterns
            for path in ROOT.glob(pattern)
        ]
        files += written(folder)
        right = check(["--check-metaschema", *(folder / f"{schema}.json" for schema in SCHEMAS)])
        for schema in SCHEMAS:
            matching = [path for kind, path in files if kind == schema]
            right = (not matching or check(["--schemafile", folder / f"{schema}.json", *matching])) and right
    print(f"check_schemas: {len(files)} files" if right else "check_schemas: see above")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
