"""One process that validates one file after the other: a path a line on standard input, an answer a line on standard
output: exit code, what was printed, seconds of CPU, the most memory this process ever had (MiB), and a traceback.

Only `python worker.py`, as `pool.py` starts it: its standard output belongs to the protocol.
"""

from __future__ import annotations

import contextlib
import io
import json
import resource
import sys
import time
import traceback
from pathlib import Path

from hpcforge.cli import run
from hpcforge.cluster.load import _declared, _model

_ADDRESS_SPACE = 2 << 30  # bytes: what would take the machine's memory ends as a MemoryError


def tried(path: str, as_json: bool) -> dict[str, object]:
    printed = io.StringIO()
    code, trace = None, None
    start = time.process_time()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            _declared.cache_clear()  # they know folders by their paths
            _model.cache_clear()
            code = run(["validate", path, *(["--json"] if as_json else [])])
        except BaseException:  # a MemoryError, SystemExit and an endless recursion are findings, too
            trace = traceback.format_exc()
    return {
        "code": code,
        "printed": printed.getvalue(),
        "cpu_s": time.process_time() - start,
        "peak_mib": _peak_mib(),
        "traceback": trace,
    }


def _peak_mib() -> float:
    """Of this program alone: what getrusage(2) says begins with the peak of the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    for line in sys.stdin:
        asked = json.loads(line)
        sys.stdout.write(json.dumps(tried(asked["path"], asked["as_json"])) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
