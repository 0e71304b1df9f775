"""Judgements of a part: its claims against the output of its processes, and its numbers. Pure."""

from __future__ import annotations

import json
import re
import signal
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tools.gpu.runs import Run

MODES = 12  # of train_parallel


_WARNINGS = re.compile(r"device_id|unbatched P2P|has NOT been destroyed|destroy_process_group", re.IGNORECASE)


_MOST_LINES = 6


_FACTS = {
    "model": "product_name",
    "uuid": "uuid",
    "serial": "serial",
    "vbios": "vbios_version",
    "memory_mib": "fb_memory_usage/total",
    "ecc": "ecc_mode/current_ecc",
    "pcie_width_max": "pci/pci_gpu_link_info/link_widths/max_link_width",
    "pcie_generation_max": "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
    "clock_max_mhz": "max_clocks/sm_clock",
}


@dataclass
class Judgement:
    """The broken claims, and the measured numbers."""

    broken: list[str] = field(default_factory=list)
    numbers: dict[str, float | int | str] = field(default_factory=dict)

    def claim(self, holds: bool, text: str) -> None:
        """Note a claim that does not hold."""
        if not holds:
            self.broken.append(text)


def well(run: Run, judgement: Judgement) -> None:
    """Claim that every process ended well, rank 0 with a result, and that PyTorch printed no warning."""
    ended = [f"process {n}: exit code {code}{_last(run, n)}" for n, code in enumerate(run.codes) if code != 0]
    judgement.claim(not ended, "; ".join(ended[:_MOST_LINES]))
    judgement.claim(bool(run.events(0, "result")), "no result")
    warnings = {line.strip()[:160] for text in run.errors for line in text.splitlines() if _WARNINGS.search(line)}
    judgement.claim(not warnings, f"PyTorch warns: {'; '.join(sorted(warnings)[:2])}")
    for event in run.events(0, "measurement"):
        judgement.numbers |= {key: value for key, value in event.items() if isinstance(value, float) and key != "loss"}


def _last(run: Run, number: int) -> str:
    lines = [line for line in run.errors[number].splitlines() if line.strip()]
    return f" ({lines[-1].strip()[:120]})" if lines else ""


def over_nccl(run: Run, judgement: Judgement) -> None:
    """Claim as `well`, and that all ranks report their transport: one GPU's ranks use NCCL's sockets."""
    well(run, judgement)
    used = {transport for event in run.events(event="transport") for transport in event["used"]}
    backends = {event["backend"] for event in run.events(event="transport")}
    judgement.claim(len(run.events(event="transport")) == len(run.codes), "not every rank reports its transport")
    judgement.claim(backends != {"nccl"} or any("NET/Socket" in name for name in used), f"transport {sorted(used)}")
    judgement.numbers["transport"] = ", ".join(sorted(used))


def nothing_moved(run: Run, judgement: Judgement) -> None:
    """Claim as `well`, and that one rank reports no bandwidth."""
    well(run, judgement)
    rates = [key for event in run.events(event="measurement") for key in event if key.endswith("gb_per_s")]
    judgement.claim(not rates, f"a bandwidth of one rank: {sorted(set(rates))}")


def errors_below(limit: float) -> Callable[[Run, Judgement], None]:
    """Claim as `well`, and that the error of every assertion is at most `limit`."""

    def judge(run: Run, judgement: Judgement) -> None:
        well(run, judgement)
        errors = [event["error"] for event in run.events(event="assertion")]
        judgement.numbers |= {"assertions": len(errors), "largest_error": max(errors, default=0.0)}
        judgement.claim(bool(errors), "nothing was asserted")
        judgement.claim(max(errors, default=0.0) <= limit, f"error {max(errors, default=0.0):g}, at most {limit:g}")

    return judge


def modes(run: Run, judgement: Judgement) -> None:
    """Claim that all modes of training are right; bf16 has the largest error."""
    errors_below(2e-2)(run, judgement)
    names = {event["mode"] for event in run.events(0, "measurement") if "mode" in event}
    judgement.claim(len(names) == MODES, f"{len(names)} modes of {MODES}")


def same_bits(run: Run, judgement: Judgement) -> None:
    """Claim as `well`, and collect the numbers of each type."""
    well(run, judgement)
    for event in run.events(0, "measurement"):
        if "dtype" in event and event.get("rank") == 0:
            judgement.numbers[f"{event['dtype']}_tflop_per_s"] = event["tflop_per_s"]


def names_wrong(rank: int) -> Callable[[Run, Judgement], None]:
    """Claim that the rank with a wrong result names itself, no other does, and all end with exit code 3."""

    def judge(run: Run, judgement: Judgement) -> None:
        wrong_ranks = {event["rank"] for event in run.events(event="wrong")}
        judgement.claim(wrong_ranks == {rank}, f"named: {sorted(wrong_ranks)}, wrong was rank {rank}")
        judgement.claim(set(run.codes) == {3}, f"exit codes {run.codes}")

    return judge


def is_found(run: Run, judgement: Judgement) -> None:
    """Claim that an assertion or a wrong result shows a fault in the ranks' exchange."""
    judgement.claim(bool(run.events(event="wrong")), "nothing was found wrong")
    judgement.claim(not run.events(event="result"), "a result, although a share was lost")


def waited(absent: int, limit_s: float, dies: bool) -> Callable[[Run, Judgement], None]:
    """Claim that all ranks but the absent one name the collective they waited in, and end within 5 s of its limit."""

    def judge(run: Run, judgement: Judgement) -> None:
        others = [number for number in range(len(run.codes)) if number != absent]
        events = {number: run.events(number, "failed") for number in others}
        silent = [number for number in others if not events[number]]
        judgement.claim(not silent, f"ranks {silent} said nothing")
        unnamed = [n for n in others for event in events[n] if not event.get("collective")]
        judgement.claim(not unnamed, f"ranks {unnamed} do not say which collective")
        judgement.claim(not run.events(absent, "failed"), f"rank {absent} spoke, too")
        running = [number for number in others if run.codes[number] is None]
        judgement.claim(not running, f"ranks {running} had not ended")
        judgement.claim(
            not dies or run.codes[absent] == -signal.SIGKILL, f"rank {absent} ended with {run.codes[absent]}"
        )
        if dies:
            named_s = max(run.ended_s[number] for number in others) - run.ended_s[absent]
            judgement.numbers["seconds_until_named"] = round(named_s, 1)
            judgement.claim(named_s <= limit_s + 5, f"{named_s:.1f} s after it died, the limit is {limit_s:g} s")
        words = [f"{e['error'][:160]} {e.get('place', '')}".strip() for number in others for e in events[number][:1]]
        judgement.numbers["said"] = "; ".join(sorted(set(words))[:3])

    return judge


def resumed(run: Run, judgement: Judgement) -> None:
    """Claim that training continued after the kill, with the losses of an undisturbed one."""
    well(replace(run, outputs=("\n".join(run.outputs),), errors=("",)), judgement)
    judgement.claim("resume_s" in judgement.numbers, "no rank was killed and resumed")


def both_ways(run: Run, judgement: Judgement) -> None:
    """Claim that both nodes and both directions of the pair have a number."""
    well(run, judgement)
    rates = [event["gb_per_s"] for event in run.events(event="measurement") if "gb_per_s" in event]
    judgement.claim(len(rates) == 2, f"{len(rates)} directions of 2")
    judgement.numbers["gb_per_s"] = max(rates, default=0.0)


def one_is_silent(run: Run, judgement: Judgement) -> None:
    """Claim that the pair with the missing node is silent, and the other pair is measured."""
    both_ways(run, judgement)
    silent = [event["of"]["peer"] for event in run.events(event="silent")]
    judgement.claim(silent == ["w3"], f"silent: {silent}")


def as_nvidia_smi(run: Run, judgement: Judgement) -> None:
    """Claim that the reader's facts equal those of nvidia-smi."""
    judgement.claim(run.codes == (0, 0), f"exit codes {run.codes}")
    if run.codes != (0, 0):
        return
    answer, tree = json.loads(run.outputs[0]), ET.fromstring(run.outputs[1])  # noqa: S314  nvidia-smi's own
    judgement.claim(answer["driver"] == tree.findtext("driver_version"), f"driver {answer['driver']}")
    for gpu, element in zip(answer["gpus"], tree.iter("gpu"), strict=False):
        for fact, path in _FACTS.items():
            expected, observed = (element.findtext(path) or "").split(" ")[0].rstrip("x"), gpu[fact]
            text = (
                {True: "Enabled", False: "Disabled"}.get(observed, str(observed))
                if isinstance(observed, bool)
                else str(observed)
            )
            judgement.claim(
                expected in ("N/A", "Requested", text) or element.findtext(path) == text, f"{fact}: {text}, {expected}"
            )
        judgement.claim(gpu["error"] is None and not gpu["troubles"], f"{gpu['error']} {gpu['troubles']}")
        judgement.numbers |= {
            "model": gpu["model"],
            "nvlinks": f"{gpu['nvlinks']['active']} of {gpu['nvlinks']['total']}",
        }


def metrics(run: Run, judgement: Judgement) -> None:
    """Claim that the metrics program ends well and has the GPU's metrics."""
    judgement.claim(run.codes == (0,), f"exit code {run.codes[0]}: {_last(run, 0)}")
    for name in ("gpu_driver_up", "gpu_answers", "gpu_temperature_celsius", "gpu_memory_bytes"):
        judgement.claim(f"\n{name}{{" in run.outputs[0], f"no {name}")
    judgement.numbers["metrics"] = run.outputs[0].count("# TYPE")


def on_gpu(run: Run, judgement: Judgement) -> None:
    """Claim that JAX trains, on a GPU."""
    well(run, judgement)
    devices = [str(event.get("device", "")) for event in run.events(event="result")]
    judgement.claim(any("cpu" not in device.lower() for device in devices if device), f"device {devices}")
