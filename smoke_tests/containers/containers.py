"""Containers on a node, as a job of an ordinary user runs them: by each runtime that is installed.

    srun python3 smoke_tests/containers/containers.py

The image is busybox and empty files, made here: no registry is asked. Each runtime runs `id` in it; podman also with
one GPU of the job by its CDI name, and then no other GPU may be there. Standard library, Python 3.9.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

BUSYBOX = "/bin/busybox"
PROGRAMS = ("sh", "id", "ls")
FOLDERS = ("dev", "proc", "sys", "tmp", "home", "root", "run", "var", "opt", "srv", "mnt", "usr", "lib")
FILES = ("etc/passwd", "etc/group", "etc/hosts", "etc/resolv.conf", "etc/nsswitch.conf")
OCI = Path("/run/slurm/conf/oci.conf")  # what slurmd got from slurmctld
TIMEOUT_S = 60


class NotRunError(Exception):
    """A runtime does not run the container; says what it said."""


def run(words: list[str], folder: Path) -> str:
    """What a command prints. Raises NotRunError."""
    environment = {**os.environ, "HOME": str(folder), "USER": pwd.getpwuid(os.getuid()).pw_name}
    try:
        ran = subprocess.run(
            words,
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotRunError(f"{' '.join(words[:2])}: {error}") from error
    if ran.returncode:
        raise NotRunError(f"{' '.join(words[:2])}: exit status {ran.returncode}: {ran.stderr.strip()[-400:]}")
    return ran.stdout


def make_image(folder: Path) -> Path:
    """A folder with all that is in the image."""
    image = folder / "image"
    for name in ("bin", "etc", *FOLDERS):
        (image / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, image / "bin" / "busybox")
    for name in PROGRAMS:
        (image / "bin" / name).symlink_to("busybox")
    for name in FILES:
        (image / name).touch()
    return image


def by_podman(folder: Path, image: Path) -> str:
    """Run it by podman, alone and with a GPU."""
    name = f"localhost/hpcforge-test-{os.getpid()}"
    run(["tar", "-C", str(image), "-cf", str(folder / "image.tar"), "."], folder)
    run(["podman", "import", "-q", str(folder / "image.tar"), name], folder)
    try:
        said = run(["podman", "run", "--rm", "--network=host", name, "id"], folder)
        gpus = (os.environ.get("SLURM_STEP_GPUS") or os.environ.get("SLURM_JOB_GPUS") or "").split(",")
        if gpus[0]:
            device = f"--device=nvidia.com/gpu={gpus[0]}"
            seen = run(["podman", "run", "--rm", "--network=none", device, name, "ls", "/dev"], folder).split()
            found = [
                each for each in seen if each.rstrip("0123456789") in ("nvidia", "fakegpu") and each[-1].isdecimal()
            ]
            if len(found) != 1:
                raise NotRunError(f"podman with {device} has the GPUs {found or 'none'}, not one")
    finally:
        run(["podman", "rmi", "-f", name], folder)
    return said


def by_charliecloud(folder: Path, image: Path) -> str:
    """Run it by Charliecloud."""
    return run(["ch-run", str(image), "--", "/bin/id"], folder)


def by_apptainer(folder: Path, image: Path) -> str:
    """Run it by Apptainer, from a file that it builds."""
    run(["apptainer", "--silent", "build", str(folder / "image.sif"), str(image)], folder)
    said = run(["apptainer", "--silent", "exec", "--no-home", str(folder / "image.sif"), "/bin/id"], folder)
    (folder / "image.sif").unlink()
    return said


def by_slurm(folder: Path, image: Path) -> str:
    """Run it as a step of Slurm's with a container."""
    bundle = folder / "bundle"
    bundle.mkdir()
    image.rename(bundle / "rootfs")
    run(["crun", "spec", "--rootless", "-f", str(bundle / "config.json")], folder)
    where = ["-N1", "-n1", f"--nodelist={os.environ['SLURMD_NODENAME']}", "--overlap", "--mpi=none"]
    said = run(["srun", *where, f"--container={bundle}", "/bin/id"], folder)
    (bundle / "rootfs").rename(image)
    return said


RUNTIMES: dict[str, tuple[Callable[[Path, Path], str], Callable[[], object]]] = {
    "podman": (by_podman, lambda: shutil.which("podman")),
    "charliecloud": (by_charliecloud, lambda: shutil.which("ch-run")),
    "apptainer": (by_apptainer, lambda: shutil.which("apptainer")),
    "oci": (by_slurm, OCI.exists),
}


def say(as_json: bool, text: str, **event: object) -> None:
    """One event, as a line of JSON or of text."""
    line = json.dumps(event) if as_json else text
    if line:
        print(line, flush=True)


def main() -> int:
    """Run it by every runtime there is; 0 if each did, 1 if one did not or there is none."""
    options = argparse.ArgumentParser(description="A small container by each runtime of this node.")
    options.add_argument("--json", action="store_true", help="one JSON object a line instead of text")
    asked = options.parse_args()
    folder = Path(os.environ.get("TMPDIR", "/tmp"))  # noqa: S108  (on a node it is the test's own)
    took: dict[str, float] = {}
    try:
        image = make_image(folder)
        for name, (runtime, there) in RUNTIMES.items():
            if there():
                began = time.monotonic()
                if "uid=" not in runtime(folder, image):
                    raise NotRunError(f"{name}: `id` printed no uid")
                took[name] = time.monotonic() - began
        if not took:
            raise NotRunError("no container runtime is installed: name some under software.containers.runtimes")
    except (NotRunError, OSError) as error:
        say(asked.json, f"failed: {error}", event="failed", error=str(error))
        return 1
    slowest = max(took.values()) * 1000
    text = ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in took.items())
    say(asked.json, text, event="measurement", runtimes=len(took), slowest_ms=round(slowest, 1))
    say(asked.json, "", event="result", names=sorted(took))
    return 0


if __name__ == "__main__":
    sys.exit(main())
