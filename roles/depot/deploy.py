"""Put pinned artifacts into the depot, from the folder where the operator host keeps what it fetched."""

import shlex
from pathlib import Path

from pyinfra import host
from pyinfra.facts.files import Sha256File
from pyinfra.operations import files, server

FOLDER = "/srv/hpcforge/depot"

for artifact in host.data.serves:
    name, sha256 = artifact["name"], artifact["sha256"]
    if host.get_fact(Sha256File, path=f"{FOLDER}/{name}") == sha256:
        continue
    folder, _, file = name.partition("/")
    arriving = f"{FOLDER}/{folder}/.{file}.arriving"  # under its own name only when it is whole
    files.put(name=f"Send {name}", src=str(Path(host.data.artifacts) / sha256), dest=arriving, mode="644", force=True)
    check = shlex.quote(f"{sha256}  {arriving}")
    server.shell(
        name=f"Check {name}",
        commands=[
            f"echo {check} | sha256sum --check --quiet -"
            f" && mv -f {shlex.quote(arriving)} {shlex.quote(f'{FOLDER}/{name}')}"
        ],
    )
