"""How `validate` and `design --json` grow: 100, 1,000 and 10,000 nodes, four to a rack, each verb in its own process.

Run it as `python benchmarks/facility.py`; it prints seconds and the most memory that the process held, MiB.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
UNIT = HERE / "blueprints" / "dgx-h100-unit.yaml"


def blueprint(nodes: int) -> str:
    """The 32-node unit, widened: feeds, racks and nodes in proportion."""
    text = UNIT.read_text(encoding="utf-8")
    racks = nodes // 4
    rack, node = (max(usual, len(str(count))) for usual, count in ((4, racks), (5, nodes)))  # digits
    start, end = text.index("  row:"), text.index("hardware:                 ")
    text = text[:start] + "\n" + text[end:]
    text = text.replace("inventory: ../inventory/dgx-h100-unit.yaml\n", "\n")
    changes = {
        "limit_w: 250000": f"limit_w: {250_000 * max(1, nodes // 32)}",
        "g[01-08]": f"g[{1:0{rack}}-{racks:0{rack}}]",
        "gpu[001-032]:": f"{workers(nodes)}:",
        "hardware: dgx-h100,": f'hardware: dgx-h100, addresses: "{addresses(nodes)}",',
        "rack: i01, u: 40": "addresses: 10.20.0.10, rack: i01, u: 40",
        "rack: i01, u: [38, 36]": 'addresses: "10.20.0.[11-12]", rack: i01, u: [38, 36]',
        "rack: i02, u: 30": "addresses: 10.20.0.20, rack: i02, u: 30",
        "10.20.0.0/22": "10.20.0.0/15",
        "gpu[001-030]": f"gpu[{1:0{node}}-{nodes - 2:0{node}}]",
        "gpu[031-032]": f"gpu[{nodes - 1:0{node}}-{nodes:0{node}}]",
        "gpu017": f"gpu{17:0{node}}",
    }
    for old, new in changes.items():
        text = text.replace(old, new)
    return text


def workers(nodes: int) -> str:
    digits = max(5, len(str(nodes)))
    return f"gpu[{1:0{digits}}-{nodes:0{digits}}]"


def addresses(nodes: int) -> str:
    """250 to each 10.20.x, from 10.20.1 to 10.20.200, then the same of 10.21."""
    whole, rest = divmod(nodes, 250)
    parts = []
    for second, before in ((20, 0), (21, 200)):
        full = min(200, whole - before)
        parts += [f"10.{second}.[1-{full}].[1-250]"] if full > 0 else []
        parts += [f"10.{second}.{full + 1}.[1-{rest}]"] if rest and 0 <= full < 200 else []
    return ",".join(parts)


def measure(arguments: list[str], program: tuple[str, ...] = ("-m", "hpcforge")) -> tuple[float, float, int, int]:
    """Run hpcforge, or another program; return seconds, MiB at most, exit status, and bytes written to stdout."""
    with tempfile.TemporaryFile() as out:
        start = time.perf_counter()
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, *program, *arguments],
            {**os.environ, "PYTHONPATH": str(HERE)},
            file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)],
        )
        _, status, usage = os.wait4(pid, 0)
        took = time.perf_counter() - start
        return took, usage.ru_maxrss / 1024, os.waitstatus_to_exitcode(status), os.fstat(out.fileno()).st_size


def main() -> None:
    """Print one line a verb and size."""
    print(f"{'nodes':>6} {'racks':>6}  {'verb':<13} {'s':>6} {'MiB':>6} {'exit':>4} {'stdout, bytes':>14}")
    for nodes in (100, 1_000, 10_000):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "large.yaml"
            path.write_text(blueprint(nodes), encoding="utf-8")
            for verb in (["validate"], ["design", "--json"]):
                took, memory, code, size = measure([verb[0], str(path), *verb[1:]])
                sizes = f"{nodes:>6,} {nodes // 4:>6,}  {' '.join(verb):<13}"
                print(f"{sizes} {took:>6.2f} {memory:>6.0f} {code:>4} {size:>14,}")


if __name__ == "__main__":
    main()
