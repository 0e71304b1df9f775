"""What stands in for nvidia-smi, nvidia-modprobe and systemctl on a node with MIG: programs whose state is one file.

Derived from NVIDIA's MIG User Guide (tables of -lgi and -lci, numbers in mig-minors, what is printed where a client has
the GPU open, instances that overlap, instances that are not removed before what computes in them). No real driver was
asked. The state: `gpus` (mode, pending, instances, apps), `reset` (a change of mode takes one, as an A100's does),
`units` (systemd's that are active), `holding` (those that keep a GPU from being changed), `hangs` and `kills_parent` (a
word of the command line), `log` (what changed anything).
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

SIZES = {"1g": 1, "2g": 2, "3g": 4, "4g": 4, "7g": 8}
FIRST = {
    "7g": 0,
    "4g": 1,
    "3g": 1,
    "2g": 3,
    "1g": 7,
}  # the least number of an instance, as drivers were seen to give them
BUSES = ("00000000:1B:00.0", "00000000:2B:00.0")
MINORS = (1, 0)  # of device files: the other way round


def say(text: str, status: int = 0) -> int:
    print(text)
    return status


def size(profile: str) -> int:
    return 2 if profile == "1g.20gb" else SIZES[profile[:2]]


def nvidia_smi(state: dict[str, Any], argv: list[str]) -> int:
    gpus = state["gpus"]
    words = " ".join(argv)
    if argv[0].startswith("--query-gpu"):
        lines = [f"{at}, {BUSES[at]}, {gpu['mode']}" for at, gpu in enumerate(gpus)]
        return say("\n".join(lines))
    if argv[0] == "mig" and argv[1] in ("-lgi", "-lci"):
        return listed(state, argv[1])
    index = int(argv[argv.index("-i") + 1])
    gpu = gpus[index]
    if "--query-compute-apps" in words:
        return say("\n".join(gpu["apps"]))
    state["log"].append(f"nvidia-smi {words}")
    if argv[2:3] == ["-mig"]:
        return mode(state, gpu, index, "Enabled" if argv[3] == "1" else "Disabled")
    if "--gpu-reset" in argv:
        return reset(state, gpu, index)
    if "-dci" in argv:
        for one in gpu["instances"]:
            one["computes"] = False
        return say("Successfully destroyed compute instances")
    if "-dgi" in argv:
        if held(state) or any(one["computes"] for one in gpu["instances"]):
            return say(f"Unable to destroy GPU instance ID 7 from GPU {index}: In use by another client\nFailed", 19)
        gpu["instances"] = []
        return say("Successfully destroyed GPU instances")
    return create(gpu, index, argv[argv.index("-cgi") + 1].split(","))


def held(state: dict[str, Any]) -> bool:
    return bool(set(state["units"]) & set(state["holding"])) or "somebody" in state["holding"]


def mode(state: dict[str, Any], gpu: dict[str, Any], index: int, wanted: str) -> int:
    if gpu["instances"]:
        return say(f"Unable to set MIG mode for GPU {BUSES[index]}: In use by another client", 19)
    gpu["pending"] = wanted
    if state["reset"] and (held(state) or state["reset"] == "by hand"):
        return say(
            f"Warning: MIG mode is in pending enable state for GPU {BUSES[index]}:In use by another client\n"
            f"{BUSES[index]} is currently being used by one or more other processes (e.g. CUDA application or a "
            "monitoring application such as another instance of nvidia-smi). Please first kill all processes using the "
            "device and retry the command or reboot the system to make MIG mode effective.\nAll done."
        )
    gpu["mode"] = wanted
    return say(f"{wanted} MIG Mode for GPU {BUSES[index]}\nAll done.")


def reset(state: dict[str, Any], gpu: dict[str, Any], index: int) -> int:
    if held(state):
        return say(f"GPU {BUSES[index]} is currently in use by another client: In use by another client", 19)
    gpu.update(mode=gpu["pending"], instances=[])
    return say(f"GPU {BUSES[index]} was successfully reset.")


def create(gpu: dict[str, Any], index: int, places: list[str]) -> int:
    for place in places:
        profile, _, start = place.partition(":")
        taken = {at for one in gpu["instances"] for at in range(one["start"], one["start"] + size(one["profile"]))}
        if gpu["mode"] != "Enabled" or taken & set(range(int(start), int(start) + size(profile))):
            return say(
                f"Unable to create a GPU instance on GPU {index} using profile {profile}: Insufficient Resources", 33
            )
        number = FIRST[profile[:2]]
        while number in {one["number"] for one in gpu["instances"]}:
            number += 1
        gpu["instances"].append({"profile": profile, "start": int(start), "number": number, "computes": True})
    return say("Successfully created GPU instances")


def listed(state: dict[str, Any], what: str) -> int:
    rows = []
    for index, gpu in enumerate(state["gpus"]):
        for one in gpu["instances"]:
            name = f"MIG {one['profile']}"
            if what == "-lgi":
                place = f"{one['start']}:{size(one['profile'])}"
                rows.append(f"|{index:>4}  {name:<15}  {19:>3}      {one['number']:>3}          {place:<7} |")
            elif one["computes"]:
                rows.append(
                    f"|{index:>4}    {one['number']:>3}       {name:<15}  {0:>3}       {0:>3}          0:1     |"
                )
    if not rows:
        return say(f"No {'GPU' if what == '-lgi' else 'compute'} instances found: Not Found", 6)
    line = "+" + "-" * 60 + "+"
    return say("\n".join([line, "| GPU   Name  ...  |", "|" + "=" * 60 + "|", *(f"{row}\n{line}" for row in rows)]))


def minor_numbers(gpus: int) -> dict[str, int]:
    """Of mig-minors: for each GPU 15 instances, in each 8 that compute. gpu31/gi14/ci7 is the guide's 4322."""
    found = {"config": 1, "monitor": 2}
    for gpu in range(gpus):
        for instance in range(15):
            number = 3 + gpu * 135 + instance * 9
            found[f"gpu{gpu}/gi{instance}/access"] = number
            found |= {f"gpu{gpu}/gi{instance}/ci{inside}/access": number + 1 + inside for inside in range(8)}
    return found


def nvidia_modprobe(root: Path, state: dict[str, Any], argv: list[str]) -> int:
    state["log"].append(f"nvidia-modprobe {' '.join(argv)}")
    (root / "dev/nvidia-caps").mkdir(exist_ok=True)
    for path in argv[1::2]:
        name = path.removeprefix("/proc/driver/nvidia/capabilities/").replace("/mig/", "/")
        (root / "dev/nvidia-caps" / f"nvidia-cap{minor_numbers(2)[name]}").touch()
    return 0


def systemctl(state: dict[str, Any], argv: list[str]) -> int:
    unit = argv[-1]
    if argv[0] == "is-active":
        return 0 if unit in state["units"] else 3
    state["log"].append(f"systemctl {' '.join(argv)}")
    state["units"] = [one for one in state["units"] if one != unit] + ([unit] if argv[0] == "start" else [])
    return 0


def main(program: str, root: Path, argv: list[str]) -> int:
    with (root / "state.json").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        state = json.load(file)
        if state["kills_parent"] and state["kills_parent"] in argv:
            os.kill(os.getppid(), signal.SIGTERM)
        if {state["hangs"], state["kills_parent"]} & set(argv):
            fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(3600)
        if program == "nvidia-modprobe":
            status = nvidia_modprobe(root, state, argv)
        else:
            status = nvidia_smi(state, argv) if program == "nvidia-smi" else systemctl(state, argv)
        file.seek(0)
        file.truncate()
        json.dump(state, file)
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[0]).name, Path(sys.argv[0]).resolve().parents[1], sys.argv[1:]))
