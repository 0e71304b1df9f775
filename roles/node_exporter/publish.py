#!/usr/bin/python3 -IS
"""Run a program and publish the metrics that it prints, for node exporter to hand on.

    hpcforge-publish-metrics NAME PROGRAM

What the program prints replaces /var/lib/hpcforge_metrics/NAME.prom at once and as a whole. If it fails or takes too
long, its metrics go, and `hpcforge_collector_success` is 0. A program that hangs in the kernel is waited for: no second
one is started meanwhile. What a program published that no timer starts any more is removed. Standard library, Python
3.9.
"""

import contextlib
import os
import select
import subprocess
import sys
import time

FOLDER = "/var/lib/hpcforge_metrics"
TIMER = "/etc/systemd/system/hpcforge-metrics-{}.timer"
OWN = b"# HELP hpcforge_collector_success "  # no file that others put there has it
LIMIT_S = 25.0  # less than collect_s by default
MOST_BYTES = 4 << 20


def published(name: str, said: bytes, worked: bool, took_s: float) -> bytes:
    """Return the text of the file: what the program said, and how that went."""
    label = f'{{collector="{name}"}}'
    own = (
        "# HELP hpcforge_collector_success Whether the program that collects these metrics ended well.\n"
        "# TYPE hpcforge_collector_success gauge\n"
        f"hpcforge_collector_success{label} {int(worked)}\n"
        "# HELP hpcforge_collector_seconds How long it took.\n"
        "# TYPE hpcforge_collector_seconds gauge\n"
        f"hpcforge_collector_seconds{label} {took_s:.3f}\n"
    )
    return (said if worked else b"") + own.encode()


def write(path: str, text: bytes) -> None:
    """Replace a file, which node exporter reads: never half of it."""
    new = f"{path}.new"  # node exporter reads *.prom alone
    with open(new, "wb") as file:
        file.write(text)
    os.chmod(new, 0o644)
    os.replace(new, path)


def remove_orphans(folder: str, timer: str) -> None:
    """Remove the files of programs that have no timer: their role has been removed."""
    for entry in os.listdir(folder):
        name, dot, kind = entry.rpartition(".")
        path = os.path.join(folder, entry)
        if dot and kind == "prom" and not os.path.exists(timer.format(name)):
            with contextlib.suppress(FileNotFoundError):  # another run removes it, too
                with open(path, "rb") as file:
                    published_here = OWN in file.read()
                if published_here:
                    os.unlink(path)


def output(child: "subprocess.Popen[bytes]", until_s: float) -> tuple[bytes, str]:
    """Return what a program prints, and what is wrong with it: it fails, does not end, or prints too much."""
    assert child.stdout
    text = bytearray()
    while select.select([child.stdout], [], [], max(0.0, until_s - time.monotonic()))[0]:
        part = os.read(child.stdout.fileno(), 1 << 16)
        text += part
        if len(text) > MOST_BYTES:
            return b"", f"more than {MOST_BYTES} bytes"
        if not part:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = child.wait(max(0.0, until_s - time.monotonic()))
                return bytes(text), f"status {status}" if status else ""
            break
    return b"", f"no end within {LIMIT_S:.0f} s"


def main(name: str, program: str) -> int:
    """Run it once. Returns the exit status."""
    remove_orphans(FOLDER, TIMER)
    path, began = os.path.join(FOLDER, f"{name}.prom"), time.monotonic()
    try:
        child = subprocess.Popen([program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    except OSError as error:
        write(path, published(name, b"", False, 0.0))
        print(f"<4>{program}: {error.strerror}", file=sys.stderr)  # a warning: the timer keeps out less than a notice
        return 1
    with child:  # at its end it is waited for
        text, problem = output(child, began + LIMIT_S)
        if problem:
            print(f"<4>{program}: {problem}", file=sys.stderr)
            child.kill()
        write(path, published(name, text, not problem, time.monotonic() - began))
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
