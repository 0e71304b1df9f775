"""What travels to a node: all that the program can import there, nothing else, and in a form that its Python reads."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from hpcforge import node
from hpcforge.kinds import KINDS, PACKAGE_MANAGERS
from hpcforge.node import bundle
from hpcforge.node.obstacles import OF_PACKAGES, SUBJECTS
from hpcforge.node.verbs import VERBS

FOLDER = Path(node.__file__).parent
STAY = {f"hpcforge.node.{name}" for name in ("bundle", "contact", "requests", "answer_types")}
BESIDE = {"hpcforge.schemas", "hpcforge.kinds"}
TABLES = {
    "hpcforge.node.kinds": set(KINDS),
    "hpcforge.node.obstacles": set(SUBJECTS) - set(OF_PACKAGES),
    "hpcforge.node.package_manager": set(PACKAGE_MANAGERS),
}
# Imports each module in a Python that has nothing of hpcforge but what came.
IMPORTER = """\
import importlib, json, sys
sources = json.load(sys.stdin)
scope = {"__name__": "hpcforge.node.start"}
exec(sources["hpcforge.node.start"], scope)
sys.meta_path.insert(0, scope["BundleFinder"](sources, {}, {}))
for name in sources:
    importlib.import_module(name)
"""


def test_all_of_the_folder_travels_but_what_the_operator_host_alone_needs() -> None:
    paths = [path.relative_to(FOLDER.parents[1]).with_suffix("") for path in FOLDER.rglob("*.py")]
    names = {".".join(path.parts).removesuffix(".__init__") for path in paths}
    assert set(bundle.modules()) == (names - STAY - {"hpcforge.node"}) | BESIDE
    assert list(bundle.modules()) == sorted(set(bundle.modules()))


def test_nothing_travels_that_the_program_cannot_reach() -> None:
    """By Python's own reading of the sources, beside the bundle's."""
    ahead = {"hpcforge.node.start", *(f"hpcforge.node.{row.module}" for row in VERBS.values())}
    reached = {"hpcforge.node"}  # which is but its docstring
    while ahead:
        name = ahead.pop()
        reached.add(name)
        ahead |= {f"{name}.{row}" for row in TABLES.get(name, ())}
        ahead |= {found for found in _imports(ast.parse(bundle.sources()[name])) if _is_module(found)}
        ahead -= reached
    assert reached - {"hpcforge.node"} == set(bundle.modules())


def test_the_package_that_does_not_travel_has_no_code() -> None:
    [docstring] = ast.parse((FOLDER / "__init__.py").read_text()).body
    assert isinstance(docstring, ast.Expr)


@pytest.mark.parametrize("verb", sorted({verb for verb, _ in VERBS}))
def test_each_module_that_is_sent_for_a_verb_can_be_imported_there(verb: str) -> None:
    end = subprocess.run(
        ["python3", "-IS", "-c", IMPORTER],
        input=json.dumps(bundle.needed(verb)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (end.returncode, end.stderr) == (0, "")


@pytest.mark.parametrize("verb", sorted({verb for verb, _ in VERBS}))
def test_a_table_travels_with_the_modules_that_use_it(verb: str) -> None:
    texts = {name: text for name, text in bundle.needed(verb).items() if name not in TABLES}
    for table, call in {
        "kinds": "handler(",
        "obstacles": "obstacles.search(",
        "package_manager": "package_manager.of_node(",
    }.items():
        if any(call in text for text in texts.values()):
            name = f"hpcforge.node.{table}"
            assert {f"{name}.{row}" for row in TABLES[name]} <= bundle.needed(verb).keys()


@pytest.mark.parametrize("name", bundle.modules())
def test_python_3_9_and_standard_library_only(name: str) -> None:
    for found in _imports(ast.parse(bundle.sources()[name], feature_version=(3, 9))):
        own = found.startswith("hpcforge.") and {found, found.rpartition(".")[0]} & {"hpcforge.node", *bundle.modules()}
        assert own or found.split(".")[0] in sys.stdlib_module_names, found
        assert not _is_module(found) or found == "hpcforge.node" or found in bundle.modules()


@pytest.mark.parametrize("become", [True, False])
def test_first_command_survives_any_login_shell(become: bool) -> None:
    command = bundle.first_command(become)
    assert "\n" not in command
    assert "!" not in command  # csh expands it even between single quotes


def _imports(tree: ast.AST) -> Iterator[str]:
    """Modules, and names that may be modules, that are imported at once or within a function; not for types only."""
    for at in ast.iter_child_nodes(tree):
        if isinstance(at, ast.If) and "TYPE_CHECKING" in ast.dump(at.test):
            continue
        if isinstance(at, ast.ImportFrom):
            yield from (str(at.module), *(f"{at.module}.{alias.name}" for alias in at.names))
        elif isinstance(at, ast.Import):
            yield from (alias.name for alias in at.names)
        else:
            yield from _imports(at)


def _is_module(name: str) -> bool:
    if not name.startswith("hpcforge."):
        return False
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # a name within a module
        return False
