"""HPL on all ranks of a job, by HPC Challenge (hpcc) of the distribution: solved rightly, and how fast.

    srun --mpi=pmix -N2 python3 smoke_tests/hpl/hpl.py --size 1000

hpcc reads hpccinf.txt in its folder and runs HPL among its benchmarks; it checks HPL's residual itself. Its rank 0
writes hpccoutf.txt, whose summary has HPL_Tflops, MPI and Success. Standard library, Python 3.9.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HPCC = "/usr/bin/hpcc"
# The format is HPL's (HPL.dat), with the lines that hpcc adds for the benchmarks beside it.
INPUT = """\
HPLinpack benchmark input file
hpcforge
HPL.out output file name (if any)
8 device out
1 # of problems sizes (N)
{size} Ns
1 # of NBs
{block} NBs
0 PMAP process mapping
1 # of process grids (P x Q)
{rows} Ps
{columns} Qs
16.0 threshold
1 # of panel fact
2 PFACTs
1 # of recursive stopping criterium
4 NBMINs
1 # of panels in recursion
2 NDIVs
1 # of recursive panel fact.
1 RFACTs
1 # of broadcast
1 BCASTs
1 # of lookahead depth
1 DEPTHs
2 SWAP
64 swapping threshold
0 L1
0 U
1 Equilibration
8 memory alignment
0 number of additional problem sizes for PTRANS
0 values of N
0 number of additional blocking sizes for PTRANS
0 values of NB
"""


def grid(ranks: int) -> tuple[int, int]:
    """Rows and columns of the ranks' grid, as square as can be, with no more rows than columns."""
    rows = next(rows for rows in range(int(ranks**0.5), 0, -1) if ranks % rows == 0)
    return rows, ranks // rows


def summary(text: str) -> dict[str, str]:
    """The values NAME=VALUE of hpcc's summary."""
    inside = text.partition("Begin of Summary section.")[2].partition("End of Summary section.")[0]
    return dict(line.split("=", 1) for line in inside.splitlines() if "=" in line)


def say(as_json: bool, text: str, **event: object) -> None:
    """One event, as a line of JSON or of text."""
    line = json.dumps(event) if as_json else text
    if line:
        print(line, flush=True)


def main() -> int:
    """Run hpcc; 0 if it was right, 3 if not, 1 if it failed."""
    options = argparse.ArgumentParser(description="HPL on all ranks, by hpcc.")
    options.add_argument("--json", action="store_true", help="one JSON object a line instead of text")
    options.add_argument("--size", type=int, default=1000, help="order of the matrix (default: 1000)")
    options.add_argument("--block", type=int, default=128, help="size of a block (default: 128)")
    asked = options.parse_args()
    rank, ranks = int(os.environ.get("SLURM_PROCID") or 0), int(os.environ.get("SLURM_NTASKS") or 1)
    folder = Path(os.environ.get("TMPDIR") or ".")
    rows, columns = grid(ranks)
    (folder / "hpccinf.txt").write_text(
        INPUT.format(size=asked.size, block=asked.block, rows=rows, columns=columns), encoding="ascii"
    )
    ran = subprocess.run([HPCC], cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode:
        error = f"hpcc: exit status {ran.returncode}: {(ran.stderr or ran.stdout)[-400:]}"
        say(asked.json, f"failed: {error}", event="failed", error=error)
        return 1
    if rank:
        return 0
    out = folder / "hpccoutf.txt"
    found = summary(out.read_text(encoding="utf-8", errors="replace")) if out.exists() else {}
    expected = {"Success": "1", "CommWorldProcs": str(ranks)}
    for name, value in expected.items():
        if found.get(name) != value:
            got = found.get(name, "nothing")
            say(asked.json, f"wrong: {name} is {got}", event="wrong", where=f"{name} of hpcc", expected=value, got=got)
            return 3
    gflops, order = float(found["HPL_Tflops"]) * 1000, int(found["HPL_N"])
    text = f"{gflops:.2f} GFLOP/s, order {order}, {rows} x {columns} ranks"
    say(asked.json, text, event="measurement", gflops=round(gflops, 4), order=order)
    say(asked.json, "", event="result")
    return 0


if __name__ == "__main__":
    sys.exit(main())
