"""A smoke test for stories: the rate in a file of the node, 10 GB/s where there is none."""

from __future__ import annotations

import json
from pathlib import Path

FILE = Path("/tmp/steady-rate")

rate = float(FILE.read_text(encoding="utf-8")) if FILE.exists() else 10.0
print(json.dumps({"event": "measurement", "rate_gb_per_s": rate}))
print(json.dumps({"event": "result"}))
