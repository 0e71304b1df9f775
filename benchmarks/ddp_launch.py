"""What hpcforge's launch costs a training job: the same program by `hpcforge verify`, and by hand with torchrun.

As root, on a rehearsal that is up and applied:

    hpcforge rehearse up benchmarks/ddp_launch.yaml
    hpcforge apply benchmarks/ddp_launch.yaml --yes --verify none
    .venv/bin/python benchmarks/ddp_launch.py benchmarks/ddp_launch.yaml

The program is `train_ddp`, which measures samples a second of its timed steps. Ten pairs are run, one launch after the
other, so that what else the machine does falls on both; the medians are compared. The target is 3 %.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time

BY_HAND = """\
export OMP_NUM_THREADS={threads} OMP_WAIT_POLICY=passive PYTHONPATH=/opt/hpcforge/smoke_tests PYTHONWARNINGS=ignore
cd / && sudo -u {user} --preserve-env=OMP_NUM_THREADS,OMP_WAIT_POLICY,PYTHONPATH,PYTHONWARNINGS \\
  srun --exclusive --nodelist={nodes} --nodes={count} --ntasks={count} --cpus-per-task={threads} sh -c '
  exec /opt/hpcforge/pytorch/bin/python -m torch.distributed.run --nnodes=$SLURM_NNODES --node_rank=$SLURM_NODEID \\
    --nproc_per_node={each} --master_addr={address} --master_port={port} \\
    /opt/hpcforge/smoke_tests/train_ddp.py --json --steps={steps}'
"""


def run(*command: str) -> str:
    """What a command prints; its end is shown where it fails."""
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if ran.returncode:
        sys.exit(f"{' '.join(command[:6])}: exit status {ran.returncode}\n{ran.stderr[-2000:]}{ran.stdout[-2000:]}")
    return ran.stdout


def main() -> None:
    """Run the pairs and print Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("blueprint")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of launches (default: 10)")
    parser.add_argument("--lab", default="", help="the rehearsal, where there are several")
    chosen = parser.parse_args()
    forge = (sys.executable, "-m", "hpcforge")
    lab = ("--lab", chosen.lab) if chosen.lab else ()
    launched, by_hand = [], []
    for pair in range(chosen.pairs):
        said = json.loads(run(*forge, "verify", chosen.blueprint, "--test", "train_ddp", "--json", *lab))
        (verdict,) = said["verdicts"]
        (measured,) = verdict["measurements"]
        launched.append(measured["samples_per_s"])
        nodes = verdict["nodes"]
        address = run(*forge, "rehearse", "ssh", nodes[0], *lab, "--", "hostname", "-I").split()[0]
        script = BY_HAND.format(
            threads=os.environ.get("DDP_THREADS", "2"),
            user="tests",
            nodes=",".join(nodes),
            count=len(nodes),
            each=verdict["ranks"] // len(nodes),
            address=address,
            port=29200 + pair,
            steps=measured["steps"],
        )
        lines = run(*forge, "rehearse", "ssh", "head", *lab, "--", "sudo", "sh", "-c", shlex.quote(script)).splitlines()
        events = [json.loads(line) for line in lines if line.startswith("{")]
        by_hand.append(next(event["samples_per_s"] for event in events if event["event"] == "measurement"))
        print(f"pair {pair + 1}: {launched[-1]:.0f} and {by_hand[-1]:.0f} samples/s", file=sys.stderr, flush=True)
    ours, theirs = statistics.median(launched), statistics.median(by_hand)
    print(f"{time.strftime('%F %R')}, {os.cpu_count()} CPUs, load now: {os.getloadavg()[0]:.2f}\n")
    print("| launch | median, samples/s | lowest | highest |\n|---|---|---|---|")
    print(f"| hpcforge verify | {ours:.0f} | {min(launched):.0f} | {max(launched):.0f} |")
    print(f"| torchrun by hand | {theirs:.0f} | {min(by_hand):.0f} | {max(by_hand):.0f} |")
    print(f"\nhpcforge / by hand: {ours / theirs:.3f}")


if __name__ == "__main__":
    main()
