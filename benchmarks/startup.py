"""What it takes to answer: CPU seconds, user and system, of hpcforge and all its children, beside the bare interpreter.

Run it as `python benchmarks/startup.py`; each row is the least of seven runs, in turn with one of the interpreter that
does nothing (*floor*), since other work on the machine makes both dearer. It exits with 1 where help, a TAB or
`validate` takes more than 0.4 s.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REHEARSAL = str(ROOT / "blueprints" / "rehearsal.yaml")
HPCFORGE = str(Path(sys.executable).with_name("hpcforge"))  # of the same environment
_RUNS = 7
_MOST_S = 0.4
_ENDS = (0, 2)  # 2: plan has something to do


def _tab(typed: str) -> dict[str, str]:
    """What the shell sets when TAB is pressed after what is typed."""
    return {"_HPCFORGE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}


# what is run, what the environment adds, whether the limit is for it
ROWS: dict[str, tuple[list[str], dict[str, str], bool]] = {
    "--help": (["--help"], {}, True),
    "apply --help": (["apply", "--help"], {}, True),
    "TAB for a verb": ([], _tab("hpcforge "), True),
    "TAB for an option": ([], _tab("hpcforge apply --"), True),
    "validate": (["validate", REHEARSAL], {}, True),
    "plan --offline": (["plan", "--offline", REHEARSAL], {}, False),
}


def cpu_s(program: list[str], more: dict[str, str]) -> float:
    """Run a program with this checkout's hpcforge; what it and its children took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    done = subprocess.run(program, capture_output=True, check=False, env=environment)
    if done.returncode not in _ENDS:
        sys.exit(f"{program} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print one line a command."""
    print(f"{'command':<18} {'CPU s':>6} {'floor':>6}")
    too_much = False
    for name, (words, environment, limited) in ROWS.items():
        pairs = [(cpu_s([HPCFORGE, *words], environment), cpu_s([sys.executable, "-c", ""], {})) for _ in range(_RUNS)]
        took, floor = (min(column) for column in zip(*pairs, strict=True))
        print(f"{name:<18} {took:>6.2f} {floor:>6.2f}")
        too_much |= limited and took > _MOST_S
    sys.exit(1 if too_much else 0)


if __name__ == "__main__":
    main()
