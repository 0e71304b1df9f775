"""What a command imports before it answers: nobody waits at a TAB for what a TAB cannot need. No time is measured."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpcforge.cli import _VERBS

REHEARSAL = str(Path(__file__).parents[3] / "blueprints" / "rehearsal.yaml")
_CHILD = """
import atexit, json, sys
atexit.register(lambda: sys.stderr.write("\\n" + json.dumps(sorted(sys.modules))))
sys.argv[0] = "hpcforge"
from hpcforge.__main__ import main
main()
"""
_COMMAND_LINE = {
    "hpcforge",
    "hpcforge.__main__",
    "hpcforge.cli",
    "hpcforge.cli.completion",
    "hpcforge.cli.exit_codes",
    "hpcforge.process",
    "hpcforge.cli.failures",
    "hpcforge.cli.options",
    "hpcforge.cli.signals",
    "hpcforge.cli.verb",
    "hpcforge.command_hint",
    *(f"hpcforge.cli.{verb}" for verb in _VERBS),
    "hpcforge.errors",
    "hpcforge.report",
    "hpcforge.report.printing",
    "hpcforge.report.text",
    "hpcforge.styles",
}
_ELSEWHERE = {"ansible", "ansible_runner", "gevent", "paramiko", "pyinfra", "torch"}  # children's, or the nodes'
_SEES_NO_NODE = {"jinja2", "cryptography", "pyrage", "rich", "markdown_it", "packaging"}


def _imported(*words: str, typed: str | None = None) -> tuple[str, set[str]]:
    """Standard output of a command in an interpreter of its own, or of a TAB after what is `typed`; all it imported."""
    tab = (
        {"_HPCFORGE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split(" ")) - 1)}
        if typed
        else {}
    )
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *words], capture_output=True, text=True, check=False, env={**os.environ, **tab}
    )
    return done.stdout, set(json.loads(done.stderr.splitlines()[-1]))


def _tops(modules: set[str]) -> set[str]:
    return {module.split(".")[0] for module in modules}


def _does_work(modules: set[str]) -> set[str]:
    """Those that are ours and do more than describe a command line."""
    ours = {module for module in modules if module.split(".")[0] == "hpcforge"}
    return ours - _COMMAND_LINE


@pytest.mark.parametrize("words", [("--help",), ("apply", "--help"), ("rehearse", "--help"), ("secrets", "list", "-h")])
def test_help_imports_what_describes_verbs_and_no_more(words: tuple[str, ...]) -> None:
    out, modules = _imported(*words)
    assert "Usage: " in out
    assert not _does_work(modules)
    assert not _tops(modules) & {"yaml", "ClusterShell", "jinja2", *_ELSEWHERE}


def test_the_list_of_verbs_imports_no_verb() -> None:
    _, modules = _imported("--help")
    assert not {f"hpcforge.cli.{verb}" for verb in _VERBS} & modules


def test_no_verb_imports_at_its_top_what_works() -> None:
    imports = "; ".join(f"import hpcforge.cli.{verb}" for verb in _VERBS)
    code = f"import json, sys; {imports}; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(json.loads(done.stdout))
    assert not _does_work(modules)
    assert not _tops(modules) & {"yaml", "ClusterShell", "jinja2", *_ELSEWHERE}


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("hpcforge ", "validate"),
        ("hpcforge re", "rehearse"),
        ("hpcforge apply --l", "--limit"),
        ("hpcforge nodes ", "add"),
    ],
)
def test_a_tab_imports_what_describes_verbs_and_no_more(typed: str, offered: str) -> None:
    out, modules = _imported(typed=typed)
    assert offered in out.split()
    assert not _does_work(modules)
    assert not _tops(modules) & {"yaml", "ClusterShell", "jinja2", *_ELSEWHERE}


@pytest.mark.parametrize("valid", [True, False])
def test_validate_imports_nothing_that_is_for_nodes(valid: bool) -> None:
    wrong = Path(__file__).parents[1] / "blueprint" / "cases" / "five_mistakes.yaml"
    _, modules = _imported("validate", REHEARSAL if valid else str(wrong))
    assert "hpcforge.cluster.load" in modules
    layers = {".".join(module.split(".")[:2]) for module in _does_work(modules)}
    assert not layers & {f"hpcforge.{layer}" for layer in ("node", "engines", "run", "lab", "verify", "report", "plan")}
    assert not _tops(modules) & {*_SEES_NO_NODE, *_ELSEWHERE}


def test_python_ends_without_collections_of_all_objects() -> None:
    code = f"import atexit, gc; atexit.register(lambda: print('frozen:', gc.get_freeze_count() > 10_000)){_CHILD}"
    done = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "frozen: True"


def test_validate_without_a_room_imports_none_of_its_algorithms() -> None:
    _, modules = _imported("validate", REHEARSAL)
    design = {module for module in modules if module.startswith("hpcforge.design.")}
    assert design <= {"hpcforge.design.facility", "hpcforge.design.facility.rules"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rehearsals")
def test_entering_a_rehearsal_reads_no_blueprint() -> None:
    """Whoever tries something out in a rehearsal enters it again and again."""
    _, modules = _imported("rehearse", "ssh", "--lab", "not-there", "head")
    assert "hpcforge.lab.ssh" in modules
    layers = {".".join(module.split(".")[:2]) for module in _does_work(modules)}
    assert not layers & {f"hpcforge.{layer}" for layer in ("node", "engines", "run", "cluster", "catalog", "plan")}
    assert not _tops(modules) & {*_SEES_NO_NODE, *_ELSEWHERE}


def test_a_plan_without_nodes_imports_no_engine() -> None:
    out, modules = _imported("plan", "--offline", REHEARSAL)
    assert "bootstrap" in out or "nodes to change" in out
    assert not _tops(modules) & {"rich", *_ELSEWHERE}


def test_a_small_blueprint_makes_validators_of_what_it_says_only() -> None:
    """Sections that it has not, and kinds of parts that it names none of, are known and not yet compiled."""
    code = (
        "from pathlib import Path\nfrom hpcforge.blueprint.sections import hardware, site\n"
        "from hpcforge.cluster import load\n"
        f"load(Path({REHEARSAL!r}))\n"
        "kinds = (site.SiteSection, hardware.Server, hardware.Pdu, hardware.Ups, hardware.Drive)\n"
        "print(*(kind.__name__ for kind in kinds if kind.__pydantic_complete__))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Server"]
