"""How a fabric grows: 128, 1,024 and 8,192 nodes of 8 rails, with racks, so that every cable has a length.

Run it as `python benchmarks/fabric.py`. Each verb in its own process: seconds, and
the most memory that it held, MiB; then the graph alone. The last size is all that three tiers of 64-port switches hold.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import facility

SIZES = (128, 1_024, 8_192)
SWITCHES_A_RACK = 40


def blueprint(nodes: int) -> str:
    """The benchmark of racks and power, with a rail-optimised fabric whose switches have racks of their own."""
    switches = {128: 48, 1_024: 640, 8_192: 5_120}[nodes]
    racks = f"i[001-{-(-switches // SWITCHES_A_RACK):03}]"
    text = facility.blueprint(nodes)
    text = text.replace("  racks:\n", "  cabling: {kinds: [dac, optics], racks_in_row: 48}\n  racks:\n", 1)
    site = f"    {racks}: {{model: rack-48u}}\n    i[01-02]:\n"
    text = text.replace("    i[01-02]:\n", site, 1)
    return (
        text
        + f"""
fabrics:
  compute: {{kind: infiniband, rate_gbps: 400, topology: rail-optimised, rails: 8, switch: qm9700, nodes: worker,
            subnet_manager: on-switch, switches_in: ["{racks}"]}}
"""
    )


def main() -> None:
    """Print a line for each verb and size, then for each graph."""
    print(f"{'nodes':>6}  {'verb':<20} {'s':>6} {'MiB':>6} {'exit':>4} {'stdout, bytes':>14}")
    with tempfile.TemporaryDirectory() as folder:
        paths = {nodes: Path(folder) / f"{nodes}.yaml" for nodes in SIZES}
        for nodes, path in paths.items():
            path.write_text(blueprint(nodes), encoding="utf-8")
            for verb in (["validate"], ["design"], ["design", "--json"], ["design", "--csv", "cables"]):
                took, memory, code, size = facility.measure([verb[0], str(path), *verb[1:]])
                print(f"{nodes:>6,}  {' '.join(verb):<20} {took:>6.2f} {memory:>6.0f} {code:>4} {size:>14,}")
        print(f"\n{'nodes':>6} {'switches':>8} {'cables':>8}  {'graph, s':>8} {'metrics, s':>10}")
        for nodes, path in paths.items():
            graph(nodes, path)


def graph(nodes: int, path: Path) -> None:
    """Build and measure the fabric alone, in this process: it is small until then, and what it starts is, too."""
    from hpcforge.cluster import load  # noqa: PLC0415
    from hpcforge.design.fabric.fabrics import fabrics  # noqa: PLC0415
    from hpcforge.design.fabric.summary import metrics  # noqa: PLC0415

    loaded = load(path, judged=False)
    start = time.perf_counter()
    [fabric] = fabrics(loaded.blueprint, loaded.catalog).built
    built = time.perf_counter()
    metrics(fabric)
    count = sum(device.model is not None for device in fabric.devices)
    took = f"{built - start:>8.2f} {time.perf_counter() - built:>10.2f}"
    print(f"{nodes:>6,} {count:>8,} {len(fabric.cables):>8,}  {took}")


if __name__ == "__main__":
    main()
