"""When a process began, on the clock that measures spans."""

from __future__ import annotations

import subprocess
import sys
import time

SCRIPT = """
import time
first_line_s = time.monotonic()
from hpcforge.process import process_began_s
print(process_began_s(), first_line_s)
"""


def test_a_process_began_between_its_parents_order_and_its_first_line() -> None:
    ordered_s = time.monotonic()
    output = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout
    began_s, first_line_s = map(float, output.split())
    assert ordered_s - 1 <= began_s <= first_line_s + 0.011  # the kernel counts hundredths
