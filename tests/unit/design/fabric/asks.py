"""Fabrics for tests: asked for in numbers, or by blueprints that differ in little."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hpcforge.cluster import Loaded, load
from hpcforge.design.fabric.build import build
from hpcforge.design.fabric.graph import Fabric
from hpcforge.design.fabric.spec import Ask, Model, OtherEnd

ROOT = Path(__file__).parents[4]
POD = ROOT / "blueprints" / "dgx-h100-pod.yaml"


def names(count: int) -> tuple[str, ...]:
    return tuple(f"n{number:05}" for number in range(1, count + 1))


def asked(nodes: int, ports: int = 64, **more: Any) -> Ask:
    model = Model("switch", ports, ports)
    others = more.pop("others", 0)
    defaults: dict[str, Any] = {
        "name": "f",
        "kind": "ethernet",
        "topology": "rail-optimised",
        "rate_gbps": 100.0,
        "uplink_rate_gbps": 100.0 * more.get("breakout", 1),
        "nodes": names(nodes),
        "leaf": model,
        "spine": model,
        "endpoints": tuple(OtherEnd(f"other-{number}", 1) for number in range(others)),
    }
    return Ask(**{**defaults, **more})


def built(nodes: int, ports: int = 64, **more: Any) -> Fabric:
    return build(asked(nodes, ports, **more))


def switches(fabric: Fabric) -> tuple[int, int, int]:
    return fabric.count("leaf"), fabric.count("spine"), fabric.count("core")


def blueprint(folder: Path, fabrics: str, nodes: int, hardware: str = "dgx-h100") -> Path:
    """A cluster of workers and one head, with `fabrics` as they are written there."""
    text = f"""\
schema: 1
name: small
domain: small.example.org
access: {{user: ops}}
nodes:
  head01: {{functions: [head], hardware: generic-1u, addresses: 10.1.0.1}}
  w[00001-{nodes:05}]: {{functions: [worker], hardware: {hardware}, addresses: "{addresses(nodes)}"}}
networks: {{mgmt: {{cidr: 10.0.0.0/8}}}}
services: {{dns: {{on: head01}}, time: {{on: head01}}}}
software: {{os: {{name: debian, release: "12"}}}}
slurm:
  controller: head01
  reserve: {{cores: 1, memory_gib: 1}}
  partitions: {{main: {{nodes: all, default: true}}}}
fabrics:
{fabrics}
"""
    path = folder / "small.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def addresses(nodes: int) -> str:
    whole, rest = divmod(nodes, 250)
    parts = [f"10.2.[1-{whole}].[1-250]"] if whole else []
    return ",".join(parts + ([f"10.2.{whole + 1}.[1-{rest}]"] if rest else []))


def loaded(path: Path) -> Loaded:
    return load(path, judged=False)
