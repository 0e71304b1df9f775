"""Draws the packages of hpcforge/ and their imports, from the imports themselves: docs/packages.svg.

    python -m tools.import_figure > docs/packages.svg

A test compares that. An import that other imports imply is not drawn, so that the lines can be followed.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import grimp
import networkx

ROOT = Path(__file__).parents[1]
PACKAGE = "hpcforge"
_LINE = "The line"  # the contract whose source modules are pure
_BOX, _GAP, _ROW, _MARGIN = (98, 30), 14, 78, 16  # pixels
_STYLE = """\
text { font: 13px sans-serif; text-anchor: middle; dominant-baseline: central; fill: #1b1f24 }
rect { rx: 4; stroke: #57606a } .pure { fill: #dcebf9 } .effect { fill: #fbe9d0 }
path { fill: none; stroke: #8c959f; stroke-width: 1.2 } .note { text-anchor: start }
"""


def package_imports(root: Path = ROOT) -> dict[str, set[str]]:
    """Return the packages of hpcforge/ that each of its packages imports directly, without those of the contracts'
    `ignore_imports`.
    """
    graph = grimp.build_graph(PACKAGE)
    ignored = {line for contract in contracts(root) for line in contract.get("ignore_imports", ())}
    imports: dict[str, set[str]] = {path.parent.name: set() for path in (root / PACKAGE).glob("*/__init__.py")}
    for module in graph.modules:
        for target in graph.find_modules_directly_imported_by(module):
            source, imported = _package(module), _package(target)
            if source != imported and {source, imported} <= imports.keys() and f"{module} -> {target}" not in ignored:
                imports[source].add(imported)
    return imports


def _package(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def contracts(root: Path) -> Sequence[Mapping[str, Sequence[str]]]:
    """Return the import contracts of pyproject.toml."""
    with (root / "pyproject.toml").open("rb") as file:
        return tuple(tomllib.load(file)["tool"]["importlinter"]["contracts"])


def floors(imports: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Return the packages by floor, the lowest first: each is above everything that it imports.

    Raises networkx.NetworkXUnfeasible if packages import each other in a circle.
    """
    graph = networkx.DiGraph({package: sorted(targets) for package, targets in sorted(imports.items())})
    return [sorted(floor) for floor in networkx.topological_generations(graph.reverse())]


def figure(root: Path = ROOT) -> str:
    """Return the figure as SVG."""
    imports = package_imports(root)
    rows = floors(imports)
    graph = networkx.transitive_reduction(networkx.DiGraph(imports))
    pure = {name.split(".")[1] for name in contracts(root)[0]["source_modules"] if name.count(".") == 1}
    width = max(map(len, rows)) * (_BOX[0] + _GAP) - _GAP + 2 * _MARGIN
    height = len(rows) * _ROW + 2 * _MARGIN
    places = dict(_places(rows, width))
    lines = [_line(places[source], places[target]) for source, target in sorted(graph.edges)]
    boxes = [_box(name, places[name], pure) for name in sorted(places)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            "<title>Packages of hpcforge/; a line goes down to what a package imports</title>",
            f"<style>\n{_STYLE}</style>",
            *lines,
            *boxes,
            f'<text class="note" x="{_MARGIN}" y="{height - 10}">blue: pure; a line goes down to an import</text>',
            "</svg>\n",
        ]
    )


def _places(rows: Sequence[Sequence[str]], width: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the centre of each box: the lowest floor at the bottom."""
    for floor, names in enumerate(rows):
        step = width / len(names)
        y = _MARGIN + (len(rows) - 1 - floor) * _ROW + _BOX[1] // 2
        yield from ((name, (round(step * (place + 0.5)), y)) for place, name in enumerate(names))


def _line(source: tuple[int, int], target: tuple[int, int]) -> str:
    (x, y), (to_x, to_y) = (source[0], source[1] + _BOX[1] // 2), (target[0], target[1] - _BOX[1] // 2)
    middle = (y + to_y) // 2
    return f'<path d="M{x} {y} C{x} {middle} {to_x} {middle} {to_x} {to_y}"/>'


def _box(name: str, centre: tuple[int, int], pure: Collection[str]) -> str:
    x, y = centre[0] - _BOX[0] // 2, centre[1] - _BOX[1] // 2
    kind = "pure" if name in pure else "effect"
    return (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{_BOX[0]}" height="{_BOX[1]}"/>'
        f'<text x="{centre[0]}" y="{centre[1]}">{escape(name)}</text>'
    )


if __name__ == "__main__":
    sys.stdout.write(figure())
