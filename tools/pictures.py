"""Makes the pictures of README.md in docs/images/: `make pictures`, as root, on a machine with chromium.

    python tools/pictures.py [design] [terminal] [verification]

design.png: the page of `hpcforge design`, its top and its racks, photographed by Chromium. terminal.svg: what
`hpcforge apply` prints when it repairs a file, on a rehearsal of the blueprint that README.md shows. verification.png:
the top and the tests of the page of `hpcforge verify`, on a rehearsal of four workers, one of which has another MTU.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
DESIGNED = "dgx-h100-site.yaml"
COLUMNS = 128
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_COLOR": "1"}
IN_COLOURS = {
    **ENVIRONMENT,
    "NO_COLOR": "",
    "TERM": "xterm-256color",
    "TTY_INTERACTIVE": "0",
}  # no rows of nodes at work
FRAMES = """<!DOCTYPE html><meta charset="utf-8">
<style>body { margin: 0 } iframe { border: 0; width: 1280px; display: block }</style>
<iframe src="design.html" style="height: 400px"></iframe><iframe src="design.html#racks" style="height: 560px"></iframe>
"""
# Its top, with the tests: what it says of this machine comes last.
TOP_AND_TESTS = """<!DOCTYPE html><meta charset="utf-8">
<style>body { margin: 0 } iframe { border: 0; width: 1280px; height: 560px; display: block }</style>
<iframe src="page.html"></iframe>
"""
TESTED = """schema: 1
name: demo
domain: demo.example.org
inventory: {lab: nspawn}
access: {user: ops}
nodes:
  head:     {functions: [head],   hardware: rehearsal-node, addresses: 10.77.0.10}
  w[01-04]: {functions: [worker], hardware: rehearsal-node, addresses: "10.77.0.[11-14]"}
networks: {cluster: {cidr: 10.77.0.0/24}}
services: {dns: {on: head}, time: {on: head}, depot: {on: head}}
software: {os: {name: debian, release: "12"}, frameworks: {pytorch: "2.13.0"}}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: []
  partitions: {main: {nodes: all, default: true}}
users: {tests: {uid: 2002}}
acceptance:
  run_as: tests
  tests:
    node_health: {nodes: all}
    allreduce: {nodes: all}
    collectives: {nodes: all, options: {sizes_kib: [4, 64, 1024]}}
    storage: {nodes: all, options: {size_mib: 16, files: 100, samples: 100}}
    train_ddp: {nodes: all}
"""
SVG = """<svg viewBox="0 0 {terminal_width} {terminal_height}" xmlns="http://www.w3.org/2000/svg">
<style>{styles} .{unique_id}-matrix {{ font: {char_height}px monospace; white-space: pre }}</style>
<rect width="100%" height="100%" rx="6" fill="#0c0c0c"/>
<defs>{lines}</defs><g transform="translate(12, 10)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def main() -> None:
    """Make those that are named, or all."""
    IMAGES.mkdir(exist_ok=True)
    makers = {"design": design, "terminal": terminal, "verification": verification}
    for name in sys.argv[1:] or makers:
        makers[name](IMAGES)


def design(images: Path) -> None:
    """Photograph the page of a design."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(["hpcforge", "design", DESIGNED, "--html", str(folder / "design.html")], ROOT / "blueprints")
        (folder / "frames.html").write_text(FRAMES, encoding="utf-8")
        photograph(folder / "frames.html", images / "design.png", 960)


def photograph(page: Path, picture: Path, height: int) -> None:
    """Photograph a page in Chromium, 1280 pixels wide."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files"]
    size = [f"--user-data-dir={page.parent / 'profile'}", f"--window-size=1280,{height}"]
    run(["chromium", *flags, *size, f"--screenshot={picture}", str(page)], page.parent)


def terminal(images: Path) -> None:
    """Draw an apply that repairs a file which somebody edited on a node."""
    edit = "echo '# edited by hand' >> /etc/chrony/chrony.conf"
    with rehearsal(shown_blueprint()) as folder:
        sys.stdout.write(run(["hpcforge", "apply", "demo.yaml", "--yes"], folder))
        run(["hpcforge", "rehearse", "ssh", "demo.yaml", "w02", "--", "sudo", "sh", "-c", f'"{edit}"'], folder)
        printed = run_on_terminal(["hpcforge", "apply", "demo.yaml", "--yes"], folder)
    (images / "terminal.svg").write_text(drawn(f"$ hpcforge apply demo.yaml --yes\n{printed}"), encoding="utf-8")


def verification(images: Path) -> None:
    """Photograph the page of a verification that found a bad node."""
    with rehearsal(TESTED) as folder:
        run(["hpcforge", "apply", "demo.yaml", "--yes", "--verify", "none"], folder)
        mtu = ["sudo", "ip", "link", "set", "host0", "mtu", "1400"]
        run(["hpcforge", "rehearse", "ssh", "demo.yaml", "w03", "--", *mtu], folder)
        verify = ["hpcforge", "verify", "demo.yaml", "--level", "standard", "--html", "page.html"]
        subprocess.run(verify, cwd=folder, env=ENVIRONMENT, timeout=900, check=False)  # its exit status is that of w03
        (folder / "frames.html").write_text(TOP_AND_TESTS, encoding="utf-8")
        photograph(folder / "frames.html", images / "verification.png", 560)


@contextmanager
def rehearsal(blueprint: str) -> Iterator[Path]:
    """Run the nodes of a blueprint; the folder has it as demo.yaml."""
    with tempfile.TemporaryDirectory(prefix="hpcforge-picture-") as name:
        folder = Path(name)
        (folder / "demo.yaml").write_text(blueprint, encoding="utf-8")
        run(["hpcforge", "rehearse", "up", "demo.yaml"], folder)
        try:
            yield folder
        finally:
            run(["hpcforge", "rehearse", "down", "demo.yaml"], folder)


def shown_blueprint() -> str:
    """Return the blueprint that README.md shows: its first block of YAML."""
    [first, *_] = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    return first


def drawn(printed: str) -> str:
    """Draw a text as a terminal shows it, with its colours."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, color_system="standard", force_terminal=True)
        console.print(Text.from_ansi(printed, end=""))  # its last line break leaves a blank line below
    return console.export_svg(code_format=SVG, theme=MONOKAI, unique_id="terminal")


def run_on_terminal(command: list[str], folder: Path) -> str:
    """Return the output of a program on a terminal, with its colours. Raises CalledProcessError if it fails."""
    ours, theirs = pty.openpty()
    printed, words = b"", [_program(command), *command[1:]]
    with subprocess.Popen(words, cwd=folder, env=IN_COLOURS, stdin=theirs, stdout=theirs, stderr=theirs) as child:
        os.close(theirs)
        with suppress(OSError):  # the end of a pseudo-terminal
            while True:
                printed += os.read(ours, 65536)
    os.close(ours)
    if child.returncode:
        sys.stderr.buffer.write(printed)
        raise subprocess.CalledProcessError(child.returncode, command)
    return printed.decode().replace("\r\n", "\n")


def _program(command: list[str]) -> str:
    return shutil.which(command[0], path=ENVIRONMENT["PATH"]) or command[0]


def run(command: list[str], folder: Path) -> str:
    """Return the output of a program on both streams. If it fails, print it and raise CalledProcessError."""
    process = subprocess.run(
        [_program(command), *command[1:]],
        cwd=folder,
        env=ENVIRONMENT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if process.returncode:
        sys.stderr.write(process.stdout)
        process.check_returncode()
    return process.stdout


if __name__ == "__main__":
    main()
