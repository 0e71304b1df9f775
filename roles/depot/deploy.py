"""Put pinned artifacts into the depot, from the folder where the operator host keeps what it fetched."""

import shlex
from pathlib import Path

from pyinfra import host
from pyinfra.api.exceptions import PyinfraError
from pyinfra.facts.files import Sha256File
from pyinfra.operations import files, server

FOLDER = "/srv/hpcforge/depot"

for number, artifact in enumerate(host.data.serves, 1):
    name, sha256 = artifact["name"], artifact["sha256"]
    if host.get_fact(Sha256File, path=f"{FOLDER}/{name}") == sha256:
        continue
    folder, _, file = name.partition("/")
    arriving = f"{FOLDER}/{folder}/.{file}.arriving"  # under its own name only when it is whole
    count = f"file {number} of {len(host.data.serves)}"
    files.put(
        name=f"Send {name}, {count}", src=str(Path(host.data.artifacts) / sha256), dest=arriving, mode="644", force=True
    )
    found = host.get_fact(Sha256File, path=arriving)
    if found != sha256:
        raise PyinfraError(f"{name} arrived with SHA-256 {found}, but {sha256} is pinned")
    # files.move removes what is there first: for a moment nodes would find nothing.
    server.shell(name=f"Serve {name}", commands=[shlex.join(["mv", "-f", arriving, f"{FOLDER}/{name}"])])
