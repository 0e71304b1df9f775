"""CPU seconds of each subject of obstacles on a node, with the node program as it is sent there."""

from __future__ import annotations

import json
from pathlib import Path

from hpcforge import bundled
from hpcforge.cluster.load import load
from hpcforge.node import bundle
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.roles.role import load_roles, site_role_code
from hpcforge.run.requests import wanted
from hpcforge.secrets.secret_files import Contents

# The program answers on standard output, and the seconds come on standard error. A subject is counted with the time
# that Python takes to compile its module, and with the programs that it runs.
PROGRAM = """
import base64, json, os, resource, sys, time, zlib
document = json.load(sys.stdin)
document["modules"] = json.loads(zlib.decompress(base64.b64decode(document["modules"])))
scope = {"__name__": "hpcforge.node.start"}
exec(document["modules"]["hpcforge.node.start"], scope)
sys.meta_path.insert(0, scope["BundleFinder"](document["modules"]))
from hpcforge.node import main, obstacles
search, subjects, costs = obstacles.search, obstacles.SUBJECTS, {}

def cpu_s():
    programs = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + programs.ru_utime + programs.ru_stime

def measured(inspection, report):
    for subject in subjects:
        obstacles.SUBJECTS, before = (subject,), cpu_s()
        yield from list(search(inspection, report))
        costs[subject] = round(cpu_s() - before, 4)

obstacles.search = measured
main.main(document["request"])
os.write(2, json.dumps(costs).encode())
"""


def inspection(blueprint: Path, node: str) -> str:
    """Return the document that has a node inspected for all its roles, without their checks, which run beside it."""
    cluster, roles = load(blueprint).cluster, load_roles(bundled.root() / "roles")
    code = {role.name: site_role_code(role.path) for role in cluster.site_roles}
    desired = compile_desired(cluster, roles, {"munge_key": None}, code)
    contents = Contents(desired.texts, {})
    requests = [{**wanted(role, contents), "checks": []} for role in desired.nodes[node]]
    return bundle.payload({"verb": "observe", "wanted": requests, "inspect": True})


def read_costs(output: str) -> tuple[list[str], dict[str, float]]:
    """Return the obstacles and warnings of an answer, and the CPU seconds by subject."""
    *answers, costs = [json.loads(line) for line in output.splitlines()]
    assert any(answer["event"] == "observed" for answer in answers), output
    obstacles = [str(obstacle) for answer in answers for obstacle in answer.get("obstacles", ())]
    return obstacles + [answer["detail"] for answer in answers if answer["event"] == "warning"], costs
