#!/usr/bin/python3 -IS
"""Print a node's power and temperatures as metrics, asked of its management controller inside the node.

FreeIPMI asks it. Names and labels are those of Prometheus' IPMI exporter, which would need a port of its own, ask other
machines for anybody, and have two series for each sensor. Standard library, Python 3.9.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Optional

SENSORS = "/var/cache/hpcforge_sensors"  # the controller's list of sensors, which a timer of the role writes
LIMIT_S = 8.0  # of each of two programs: node exporter's timer ends this one after 20 s
MOST_TEMPERATURES = 64
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


def power_w(text: str) -> Optional[float]:
    """The power that `ipmi-dcmi --get-system-power-statistics` printed, W; None where the controller measures none."""
    found = {name.strip(): value.split() for name, _, value in (line.partition(":") for line in text.splitlines())}
    current = found.get("Current Power", [])
    if found.get("Power Measurement") != ["Active"] or current[1:] != ["Watts"]:
        return None
    return number(current[0])


def temperatures(text: str) -> Iterator[tuple[str, str, float]]:
    """Yield number, name and degrees Celsius of the sensors in comma-separated output of ipmi-sensors."""
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) == 6 and fields[2] == "Temperature" and fields[4] == "C" and fields[0].isdigit():
            celsius = number(fields[3])
            if celsius is not None:
                yield fields[0], fields[1], celsius


def number(text: str) -> Optional[float]:
    """A number of at most 12 characters; None for anything else, N/A too."""
    digits = text[1:] if text.startswith("-") else text
    return float(text) if len(text) <= 12 and digits.replace(".", "", 1).isdecimal() and text.isascii() else None


def lines(watts: Optional[float], celsius: list[tuple[str, str, float]]) -> Iterator[str]:
    """Yield the text format."""
    yield "# TYPE ipmi_up gauge"
    yield f'ipmi_up{{collector="dcmi"}} {int(watts is not None)}'
    yield f'ipmi_up{{collector="ipmi"}} {int(bool(celsius))}'
    if watts is not None:
        yield "# TYPE ipmi_dcmi_power_consumption_watts gauge"
        yield f"ipmi_dcmi_power_consumption_watts {watts!r}"
    if celsius:
        yield "# TYPE ipmi_temperature_celsius gauge"
    for sensor, name, value in celsius[:MOST_TEMPERATURES]:
        yield f'ipmi_temperature_celsius{{id="{sensor}",name="{escaped(name)}"}} {value!r}'


def escaped(text: str) -> str:
    """A text as the value of a label."""
    plain = "".join(char if char.isprintable() else "?" for char in text[:64])
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def said(*command: str) -> str:
    """What a command prints; nothing where it fails, with the reason in the log."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False, env=ENVIRONMENT
        )
    except subprocess.TimeoutExpired:
        print(f"{command[0]}: no end within {LIMIT_S:.0f} s", file=sys.stderr)
        return ""
    if done.returncode != 0:
        print(f"{command[0]}: {done.stderr.decode(errors='replace').strip()[:300]}", file=sys.stderr)
        return ""
    return done.stdout.decode(errors="replace")


def main() -> int:
    """Print all of it. Returns 1 where the controller answered nothing."""
    watts = power_w(said("ipmi-dcmi", "--get-system-power-statistics"))
    celsius: list[tuple[str, str, float]] = []
    if os.listdir(SENSORS):
        options = ("--quiet-cache", f"--sdr-cache-directory={SENSORS}", "--sensor-types=Temperature")
        celsius += temperatures(said("ipmi-sensors", *options, "--comma-separated-output", "--no-header-output"))
    else:  # a new node: the list takes up to a minute, so systemd makes it
        said("systemctl", "start", "--no-block", "hpcforge-sensors.service")
    print("\n".join(lines(watts, celsius)))
    return 0 if watts is not None or celsius else 1


if __name__ == "__main__":
    sys.exit(main())
