"""Faults of hosts as data: `tests/stories/hosts/faults/NAME.yaml`, and the document that is generated from them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from hpcforge.blueprint.hostlist import expand

FOLDER = Path(__file__).parents[1] / "stories" / "hosts"
VERBS = {
    "apply": "apply --yes --verify none",
    "plan": "plan --verify none",
}  # how a verb is run, where not by its name alone
_WORK = "echo '# by hand' >> /etc/chrony/chrony.conf"
_ALLOWED = {"state": ("fresh", "configured"), "verb": ("apply", "plan", "verify", "status")}
_TYPES = {"str": str, "int": int, "bool": bool, "tuple[str, ...]": list}
_RUN_THERE = re.compile(r"^\s+run there: (.+)$")


@dataclass(frozen=True)
class HostFault:
    """A fault, the scripts that plant it and give an apply something to do, and what must be printed of it."""

    name: str
    fault: str
    source: str
    state: str
    plant: str
    exit: int
    test: str
    says: tuple[str, ...] = ()
    remedy: str = ""  # "printed": the commands that hpcforge printed
    node: str = "w02"
    work: str = _WORK
    verb: str = "apply"
    clean: str = ""
    quick: bool = False


def read_fault(path: Path) -> HostFault:
    """Return the fault of a file; ValueError for what is no such file."""
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    fields = {field.name: field for field in dataclasses.fields(HostFault) if field.name != "name"}
    if not isinstance(written, dict) or written.keys() - fields.keys():
        raise ValueError(f"{path.name}: no mapping, or a key that is not of {', '.join(fields)}")
    for key, value in written.items():
        if type(value) is not _TYPES[str(fields[key].type)]:
            raise ValueError(f"{path.name}: {key} is no {fields[key].type}")
        if value not in _ALLOWED.get(key, (value,)):
            raise ValueError(f"{path.name}: {key} is none of {', '.join(_ALLOWED[key])}")
    required = [name for name, field in fields.items() if field.default is dataclasses.MISSING]
    if written.get("exit"):  # something is reported, and there is a way out
        required += ["says", "remedy"]
    if missing := [key for key in required if key not in written]:
        raise ValueError(f"{path.name}: without {', '.join(missing)}")
    return HostFault(path.stem, **{**written, "says": tuple(written.get("says", ()))})


def read_faults(folder: Path = FOLDER / "faults") -> list[HostFault]:
    """Return the faults of a folder: of configured nodes first, since these nodes are there already."""
    faults = [read_fault(path) for path in sorted(folder.glob("*.yaml"))]
    return sorted(faults, key=lambda fault: fault.state)


def blocks_of(node: str, output: str) -> list[str]:
    """Return the parts of an output that name a node: a line, with those below it that are indented."""
    blocks = re.split(r"^(?=\S)", output, flags=re.MULTILINE)
    name = re.compile(rf"(?<![\w-]){re.escape(node)}(?![\w-])")
    return [block for block in blocks if name.search(block)]


def named(fault: HostFault, output: str) -> bool:
    """Whether every sentence was printed, with the node."""
    text = "\n".join(blocks_of(fault.node, output))
    return all(sentence in text for sentence in fault.says)


def named_after(fault: HostFault, lines: Sequence[tuple[float, str]]) -> float | None:
    """Return the seconds until every sentence was printed; None if one was not."""
    return next((at for place, (at, _) in enumerate(lines, 1) if named(fault, _text(lines[:place]))), None)


def printed_remedy(fault: HostFault, output: str) -> str:
    """Return the commands that were printed for the node, each once."""
    lines = [line for block in blocks_of(fault.node, output) for line in block.splitlines()]
    return "\n".join(dict.fromkeys(match[1] for line in lines if (match := _RUN_THERE.match(line))))


def results(output: str) -> dict[str, str]:
    """Return the result of each node, by the table at the end of an apply."""
    _, _, table = output.rpartition("\nnodes ")
    rows = [line.split()[:2] for line in table.partition("\n\n")[0].splitlines()[1:]]
    return {node: row[1] for row in rows if len(row) == 2 for node in expand(row[0])}


def changes(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return the lines that went, with "-", and those that are new, with "+"."""
    removed, new = set(before) - set(after), set(after) - set(before)
    return [f"-{line}" for line in sorted(removed)] + [f"+{line}" for line in sorted(new)]


def _text(lines: Sequence[tuple[float, str]]) -> str:
    return "".join(line for _, line in lines)


def page(faults: Iterable[HostFault], measured: Mapping[str, float], date: str) -> Iterator[str]:
    """Yield docs/host-faults.md by lines. `measured`: seconds by name, of that date."""
    yield "# Faults of hosts"
    yield ""
    yield "Generated by a test from `tests/stories/hosts/faults/`. `make test-hosts` plants each on one of four nodes."
    yield "It checks that the other nodes are done, and that after the remedy the next apply ends with 0 and leaves"
    yield "nothing behind. Exit code 0: hpcforge works in spite of the fault. *fresh*: before the node's first apply."
    yield f"*s*: seconds from the start of the command until the sentence{f', measured {date}' if date else ''}."
    yield ""
    yield "| planted | on | named by | exit code | sentence | remedy | test | s |"
    yield "|---|---|---|---|---|---|---|---|"
    for fault in faults:
        cells = (
            f"[{_cell(fault.fault)}]({fault.source.split()[0]})",
            f"{fault.node}, {fault.state}",
            f"`{fault.verb}`",
            str(fault.exit),
            "<br>".join(f"*{_cell(sentence)}*" for sentence in fault.says) or "none",
            fault.remedy if fault.remedy in ("", "printed") else f"`{_cell(fault.remedy)}`",
            f"`{fault.test}`",
            f"{measured[fault.name]:.0f}" if fault.name in measured else "",
        )
        yield f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
