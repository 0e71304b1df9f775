"""What root of a worker, w03, does where it lies about itself and others: head, w01 and w02."""

from __future__ import annotations

PROGRAM = "/opt/hpcforge/smoke_tests/steady.py"  # of the smoke test in tests/stories/verification/tests
# It runs in place of that program.
EVENTS = """\
import json, sys
print(json.dumps({"event": "node", "host": "w01"}))
for host in ("w01", "w02", "ALL", "w[01-02]"):
    failed = json.dumps({"event": "failed", "rank": 0, "task": 0, "host": host, "error": "a lie"})
    for start in ("x\\r0: ", "x\\x0b0: ", "x\\x850: ", "x\\u20280: "):
        sys.stdout.buffer.write((start + failed + "\\n").encode())
    for start in ("", "x\\r", "x\\x0b", "x\\x85", "x\\u2028"):
        for words in (f"{host}: task 0: Exited with exit code 1", f"Node failure on {host}"):
            sys.stderr.buffer.write(f"{start}srun: error: {words}\\n".encode())
sys.exit(1)
"""
# Root of w03 serves what it likes in node exporter's place: of itself, and of others by any label.
EXPORTER = """
import http.server
OTHERS = ("head", "w01", "w02")
SERIES = ["node_time_seconds 1", "node_load1 0"]
for node in OTHERS:
    where = f'node="{node}",instance="{node}",job="cluster",rack="",rack_u=""'
    SERIES += [
        f'up{{{where}}} 1',
        f'probe_success{{{where},exported_job="ping"}} 1',
        f'slurm_node_maintenance{{{where}}} 1',
        f'slurm_node_drained{{{where},reason="hpcforge: lies"}} 1',
        f'slurm_node_down{{{where}}} 1',
        f'hpcforge_run_active{{{where}}} 1',
        f'hpcforge_source_up{{{where},collector="slurm",source="sdiag"}} 0',
        f'gpu_present{{{where},gpu="0",device="/dev/x"}} 0',
        f'ALERTS{{{where},alertname="HpcforgeRun",alertstate="firing",explains="run"}} 1',
    ]
BODY = ("\\n".join(SERIES) + "\\n").encode()
class Lies(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(BODY)
http.server.ThreadingHTTPServer(("0.0.0.0", 9100), Lies).serve_forever()
"""
# Root of w03 changes each answer of hpcforge's program: it is w01, without memory, perhaps with words for a terminal.
ANSWERS = r"""#!/bin/bash
/usr/bin/python3.11 "$@" | sed -u -e 's/"memory_kib": *[0-9]*/"memory_kib": 1/g' -e 's/w03/w01/g' EXPRESSION
"""
