"""A site whose nodes have management controllers, on paper: a blueprint, an inventory, and a password."""

from __future__ import annotations

import base64
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pyrage
import yaml
from pyrage import x25519

from tests.support.fake_bmc import PASSWORD, USER, Serving
from tests.support.in_process import hpcforge

NAMES = ("store", "head", "w1", "w2")
_BLUEPRINT = """
schema: 1
name: metal
domain: metal.example.org
inventory: machines.yaml
access: {user: ops}
nodes:
  store:  {functions: [storage], hardware: plain, addresses: 10.78.0.9}
  head:   {functions: [head], hardware: plain, addresses: 10.78.0.10}
  w[1-2]: {functions: [worker], hardware: plain, addresses: "10.78.0.[11-12]"}
hardware:
  plain: {memory_gib: 64, sockets: 2, cores_per_socket: 16, threads_per_core: 2, gpus: {model: h100-sxm, count: 8}}
networks: {cluster: {cidr: 10.78.0.0/24}}
services: {dns: {on: head}, time: {on: head}}
software: {os: {name: debian, release: "12"}}
slurm: {controller: head, partitions: {main: {nodes: "w[1-2]", default: true}}}
"""


@dataclass(frozen=True)
class MetalSite:
    """Its files."""

    folder: Path

    @property
    def blueprint(self) -> Path:
        return self.folder / "metal.yaml"

    @property
    def inventory(self) -> Path:
        return self.folder / "machines.yaml"

    def cli(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """hpcforge on it: VERB WORD... where BLUEPRINT stands for its file."""
        arguments = [str(self.blueprint) if word == "BLUEPRINT" else word for word in words]
        process = hpcforge(*arguments, "--identity", str(self.folder / "key"))
        print(process.stderr, process.stdout)
        assert process.returncode == code, process.stderr
        return process


def metal_site(
    folder: Path, at: Serving, *, pinned: bool = True, known: bool = True, own: str = "", workers: int = 2
) -> MetalSite:
    """Write one whose controllers are `at` these addresses; not `known`: the inventory has no machine yet.

    `own`: lines of the secret `bmc_passwords`.
    """
    sized = _BLUEPRINT.replace("w[1-2]", f"w[1-{workers}]").replace("[11-12]", f"[11-{10 + workers}]")
    (folder / "metal.yaml").write_text(sized)
    names = (*NAMES[:2], *(f"w{number}" for number in range(1, workers + 1)))
    certificate = {"certificate": at.certificate} if pinned else {}
    machines = {
        name: {"bmc": {"address": address, **certificate}, "mac": f"02:00:00:00:00:{place:02x}", "serial": f"SN{place}"}
        for place, (name, address) in enumerate(zip(names, at.addresses, strict=False), 1)
    }
    inventory = {"schema": 1, "bmcs": {"user": USER, "port": at.port}, "nodes": machines if known else {}}
    (folder / "machines.yaml").write_text("# ours\n" + yaml.safe_dump(inventory, sort_keys=False))
    key = x25519.Identity.generate()
    (folder / "key").write_text(f"{key}\n")
    (folder / "key").chmod(0o600)
    values = {"bmc_password": PASSWORD, **({"bmc_passwords": own} if own else {})}
    secrets = json.dumps({name: base64.b64encode(value.encode()).decode() for name, value in values.items()})
    (folder / "metal.age").write_bytes(pyrage.encrypt(secrets.encode(), [key.to_public()]))
    return MetalSite(folder)
