"""How `validate` and `plan --offline` grow: 100 to 100,000 nodes, each with its line in an inventory.

Run it as `python benchmarks/scale.py`; it prints seconds, CPU seconds and the most memory that the process held, MiB,
and exits with 1 where a plan of 10,000 nodes takes more than 5 CPU s or 150 MiB, or one of 100,000 more than 60 CPU s
or 1.3 GiB. The blueprint is `dgx-h100-unit.yaml`, widened: all shipped roles.
"""

from __future__ import annotations

import base64
import hashlib
import os
import sys
import tempfile
from pathlib import Path

import facility
from rounds import Cost

from hpcforge.blueprint.hostlist import expand

_MOST = {10_000: (5.0, 150.0), 100_000: (60.0, 1331.0)}  # CPU seconds and MiB
_ENDS = {"validate": 0, "plan": 2}  # 2: there is something to do


def inventory(nodes: int) -> str:
    """A line a node: address and host key."""
    names = expand(f"head01,login[01-02],stor01,{facility.workers(nodes)}")
    addresses = [*expand("10.20.0.[10-12],10.20.0.20"), *expand(facility.addresses(nodes))]
    lines = [
        f'  {name}: {{address: {address}, host_keys: ["{_key(name)}"]}}\n'
        for name, address in zip(names, addresses, strict=True)
    ]
    return "schema: 1\nnodes:\n" + "".join(lines)


def site(folder: Path, nodes: int) -> Path:
    """The blueprint with its inventory beside it, written to a folder."""
    path = folder / "large.yaml"
    text = facility.blueprint(nodes)
    path.write_text(text.replace("access:", "inventory: machines.yaml\naccess:", 1), encoding="utf-8")
    (folder / "machines.yaml").write_text(inventory(nodes), encoding="utf-8")
    return path


def _key(name: str) -> str:
    """A host key that nobody has the private half of."""
    blob = b"\0\0\0\x0bssh-ed25519\0\0\0 " + hashlib.sha256(name.encode()).digest()
    return f"ssh-ed25519 {base64.b64encode(blob).decode()}"


def cost(words: list[str]) -> Cost:
    """Run a verb; exits where it ends as it should not."""
    before = os.times()
    wall_s, memory, code, _ = facility.measure(words)
    after = os.times()
    if code != _ENDS[words[0]]:
        sys.exit(f"{' '.join(words)} ended with {code}")
    return Cost(wall_s, sum(after[2:4]) - sum(before[2:4]), memory)


def main() -> None:
    """Print one line a verb and size."""
    print(f"{'nodes':>7}  {'verb':<15} {'s':>6} {'CPU s':>6} {'MiB':>6}")
    too_much = False
    for nodes in (100, 1_000, 10_000, 100_000):
        with tempfile.TemporaryDirectory() as folder:
            path = site(Path(folder), nodes)
            for words in (["validate", str(path)], ["plan", "--offline", str(path)]):
                run = cost(words)
                verb = " ".join(words[:-1])
                spent = f"{run.wall_s:>6.2f} {run.cpu_s:>6.2f} {run.memory_mib:>6.0f}"
                print(f"{nodes:>7,}  {verb:<15} {spent}", flush=True)
                most_s, most_mib = _MOST.get(nodes, (run.cpu_s, run.memory_mib))
                too_much |= run.cpu_s > most_s or run.memory_mib > most_mib
    sys.exit(1 if too_much else 0)


if __name__ == "__main__":
    main()
