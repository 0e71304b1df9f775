"""How long machines take from power to ssh: `make bench-metal`, as root, on a machine that does nothing else.

QEMU without KVM, empty disks, an image of a node's packages: what `apply --install` does before any role. Each round
installs a machine with BIOS, one with UEFI, and three at once; medians of the rounds are printed by phase.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hpcforge.cli.site import open_site
from hpcforge.metal.install import PHASES, Installation, install
from hpcforge.metal.netboot import services
from hpcforge.metal.serve import image_named, served
from hpcforge.plan.plan import Install
from tests.support.metal_machines import ONE, THREE, Machine, image_of, metal

CASES = {
    "BIOS": (ONE, (False,)),
    "UEFI": (ONE, (True,)),
    "three at once": (THREE, (False, True, True)),
}


def built(kept: Path) -> str:
    """The name of the image of one node."""
    with tempfile.TemporaryDirectory(dir=kept) as name, metal(Path(name), [Machine(Path(name))], ONE) as there:
        return image_of(there)


def installed(kept: Path, name_of_image: str, blueprint: str, firmware: Sequence[bool]) -> list[Installation]:
    """Install new machines, each with UEFI or BIOS."""
    with tempfile.TemporaryDirectory(dir=kept) as name:
        folder = Path(name)
        machines = [Machine(folder, number, uefi=uefi) for number, uefi in enumerate(firmware, 1)]
        with metal(folder, machines, blueprint) as there:
            nodes = f"w[1-{len(machines)}]" if len(machines) > 1 else "w1"
            there.hpcforge("discover", "SITE", *there.controllers, "--trust-new", "--assign", nodes)
            site = open_site(there.site.blueprint, None, None, folder / "key", needs_lab=False)
            image = image_named(name_of_image)
            installs = [Install(node.name, "Debian 12", image.name) for node in site.cluster.nodes]
            what = served(site, image, None, 8080, False, folder / "ssh.pub", print)
            with services.serving(what) as check:
                services.started(check)
                done = install(site, installs, check, print)
    failed = [f"{one.node}: {one.why}" for one in done if one.why]
    if failed:
        raise SystemExit("\n".join(failed))
    return done


def main() -> None:
    """Print a table of medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    took: dict[str, list[list[Installation]]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory() as name:
        kept = Path(name)
        os.environ["XDG_STATE_HOME"] = str(kept / "state")  # the records of this process
        image = built(kept)
        for _ in range(rounds):
            for case, (blueprint, firmware) in CASES.items():
                took[case].append(installed(kept, image, blueprint, firmware))
    print(f"{'':<16}" + "".join(f"{phase:>10}" for phase in PHASES) + f"{'to ssh, s':>11}   each round")
    for case, runs in took.items():
        last = [max(run, key=lambda one: sum(one.phases_s.values())) for run in runs]  # all have ssh by then
        sums = [sum(one.phases_s.values()) for one in last]
        phases = [statistics.median(one.phases_s[phase] for one in last) for phase in PHASES]
        cells = "".join(f"{seconds:>10.0f}" for seconds in phases)
        print(f"{case:<16}{cells}{statistics.median(sums):>11.0f}   {', '.join(f'{total:.0f}' for total in sums)}")


if __name__ == "__main__":
    main()
