"""When a process began, on the clock that measures spans."""

from __future__ import annotations

import subprocess
import sys
import time

SCRIPT = """
import time
started_s = time.monotonic()
from hpcforge.start_time import process_began_s
print(float({before}), process_began_s(), started_s)
"""


def test_a_process_began_between_its_parents_order_and_its_first_line() -> None:
    tick_s = 0.011  # the kernel counts hundredths
    before = time.monotonic()
    output = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(before=before)], capture_output=True, text=True, check=True
    ).stdout
    ordered_s, began_s, first_line_s = map(float, output.split())
    assert ordered_s - tick_s <= began_s <= first_line_s + tick_s
