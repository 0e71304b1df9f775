#!/usr/bin/python3 -BIS
"""Print a node's power and temperatures as metrics, asked of its management controller inside the node.

FreeIPMI asks it. Names and labels are those of Prometheus' IPMI exporter, which would need a port of its own, ask other
machines for anybody, and have two series for each sensor. Standard library, Python 3.9.
"""

import os
import sys
from collections.abc import Iterator
from typing import Optional

sys.path.insert(0, "/usr/lib/hpcforge")
import metric_sources

COLLECTOR = "power"
SENSORS = "/var/cache/hpcforge_sensors"  # the controller's list of sensors, which a timer of the role writes
MOST_TEMPERATURES = 64


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


def dcmi() -> Iterator[float]:
    """Yield the power, W. A controller without DCMI refuses the command: that is an answer, without a sample."""
    status, text, errors = metric_sources.run("ipmi-dcmi", "--get-system-power-statistics")
    watts = power_w(text) if status == 0 else None
    if watts is not None:
        yield watts
    elif errors:
        metric_sources.log("ipmi-dcmi", errors.strip())


def sensors() -> Iterator[tuple[str, str, float]]:
    """Yield the temperatures. Raises OSError where there is none."""
    if not os.listdir(SENSORS):  # a new node: the list takes up to a minute, so systemd makes it
        metric_sources.output("systemctl", "start", "--no-block", "hpcforge-sensors.service")
        raise OSError("the list of sensors is not made yet")
    options = ("--quiet-cache", f"--sdr-cache-directory={SENSORS}", "--sensor-types=Temperature")
    text = metric_sources.output("ipmi-sensors", *options, "--comma-separated-output", "--no-header-output")
    yield from temperatures(text)


def samples(watts: list[float], celsius: list[tuple[str, str, float]]) -> Iterator[metric_sources.Sample]:
    """Yield the metrics."""
    yield "ipmi_up", {"collector": "dcmi"}, bool(watts)
    yield "ipmi_up", {"collector": "ipmi"}, bool(celsius)
    for value in watts:
        yield "ipmi_dcmi_power_consumption_watts", {}, value
    for sensor, name, value in celsius[:MOST_TEMPERATURES]:
        yield "ipmi_temperature_celsius", {"id": sensor, "name": name[:64]}, value


def main() -> None:
    """Print all of it."""
    answers = metric_sources.read(COLLECTOR, {"dcmi": dcmi, "sensors": sensors})
    printed = [*samples(answers["dcmi"].items, answers["sensors"].items), *metric_sources.up(COLLECTOR, answers)]
    print("\n".join(metric_sources.lines(printed)))


if __name__ == "__main__":
    main()
