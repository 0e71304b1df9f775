"""Cables, as the programs that see them write them down: `ibnetdiscover`, `lldpctl -f json`, and ibsim's own files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from hpcforge.design.fabric.cable_index import CableEnds, PortName
from hpcforge.design.fabric.graph import ENDS, Fabric

DGX = ("mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11")  # compute adapters, by rail


def adapters(rails: int) -> tuple[str, ...]:
    return DGX[:rails]


def _number(fabric: Fabric, port: PortName) -> int:
    """A switch port as InfiniBand counts it."""
    index = fabric.index[port.device]
    labels = {fabric.port_label(index, number): number for number in range(1, fabric.devices[index].ports + 1)}
    return labels[port.name]


def _rail(port: PortName) -> int:
    return int(port.name.rpartition(" ")[2])


def _is_end(fabric: Fabric, port: PortName) -> bool:
    return fabric.devices[fabric.index[port.device]].kind in ENDS


def _records(fabric: Fabric, links: Iterable[CableEnds]) -> dict[str, list[tuple[int, str, int]]]:
    """Every switch and adapter as it describes itself, with its port, and the far end's description and port."""
    records: dict[str, list[tuple[int, str, int]]] = {
        device.name: [] for device in fabric.devices if device.kind not in ENDS
    }
    for link in links:
        ends = [(_described(fabric, port), 1 if _is_end(fabric, port) else _number(fabric, port)) for port in link]
        for (one, number), (far_end, far) in (ends, ends[::-1]):
            records.setdefault(one, []).append((number, far_end, far))
    return records


def _described(fabric: Fabric, port: PortName) -> str:
    return f"{port.device} {adapters(fabric.rails)[_rail(port) - 1]}" if _is_end(fabric, port) else port.device


def ibsim(fabric: Fabric, links: Iterable[CableEnds]) -> str:
    """A network for ibsim, which knows nodes by their descriptions."""
    text = []
    for name, ports in _records(fabric, links).items():
        kind = f'Hca 1 "{name}"' if " " in name else f'Switch {fabric.devices[fabric.index[name]].ports} "{name}"'
        text.append(kind + "\n" + "".join(f'[{number}] "{far_end}"[{far}]\n' for number, far_end, far in sorted(ports)))
    return "\n".join(text)


def ibnetdiscover(fabric: Fabric, links: Iterable[CableEnds], managed: bool = True) -> str:
    """What ibnetdiscover 44 writes of managed QM9700 switches, with a SHARP aggregation node in each."""
    records = _records(fabric, links)
    guids = {name: f"{0xB83FD20300000000 + number:016x}" for number, name in enumerate(records)}
    descriptions = {name: name if " " in name or not managed else f"MF0;{name}:MQM9700/U1" for name in records}
    ids = {name: f"{'H' if ' ' in name else 'S'}-{guids[name]}" for name in records}
    lines = ["#", "# Topology file: generated on Fri Nov 20 17:00:00 2026", "#", ""]
    for name, ports in records.items():
        switch = " " not in name
        kind = f'Switch\t65 "{ids[name]}"' if switch else f'Ca\t1 "{ids[name]}"'
        tail = " enhanced port 0 lid 5 lmc 0" if switch else ""
        lines += ["vendid=0x2c9", f"{'switch' if switch else 'ca'}guid=0x{guids[name]}({guids[name]})"]
        lines.append(f'{kind}\t\t# "{descriptions[name]}"{tail}')
        for number, far_end, far in sorted(ports):
            mine = "" if switch else f"({guids[name]})"
            theirs = "" if " " not in far_end else f"({guids[far_end]})"
            lines.append(
                f'[{number}]{mine}\t"{ids[far_end]}"[{far}]{theirs}\t\t# "{descriptions[far_end]}" lid 7 4xNDR'
            )
        if switch:
            lines.append(
                f'[65]\t"H-aa{guids[name][2:]}"[1](aa)\t\t# "Mellanox Technologies Aggregation Node" lid 9 4xNDR'
            )
        lines.append("")
        if switch:
            lines += ["vendid=0x2c9", f'Ca\t1 "H-aa{guids[name][2:]}"\t\t# "Mellanox Technologies Aggregation Node"']
            lines += [f'[1](aa)\t"{ids[name]}"[65]\t\t# lid 9 lmc 0 "{descriptions[name]}" lid 5 4xNDR', ""]
    return "\n".join(lines)


def lldp(links: Iterable[CableEnds], port: str = "swp{}") -> Mapping[str, str]:
    """What `lldpctl -f json` writes on each node; a node without neighbours writes that it has none."""
    by_node: dict[str, list[dict[str, object]]] = {}
    for link in links:
        by_node.setdefault(link.a.device, []).append(
            {
                f"eno{_rail(link.a)}": {
                    "via": "LLDP",
                    "rid": "1",
                    "age": "0 day, 00:00:03",
                    "chassis": {link.b.device: {"id": {"type": "mac", "value": "3a:66:3d:2b:10:fb"}, "descr": "Linux"}},
                    "port": {"id": {"type": "ifname", "value": port.format(link.b.name)}, "descr": "to a node"},
                }
            }
        )
    return {name: json.dumps({"lldp": {"interface": entries}}, indent=1) for name, entries in by_node.items()}
