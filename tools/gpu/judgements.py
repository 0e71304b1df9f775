"""Whether what a part's processes left is as the part claims, and the numbers that it shows. Pure."""

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
    """What is not as claimed, and the numbers that were seen."""

    broken: list[str] = field(default_factory=list)
    numbers: dict[str, float | int | str] = field(default_factory=dict)

    def claim(self, holds: bool, text: str) -> None:
        """Note a claim that does not hold."""
        if not holds:
            self.broken.append(text)


def well(run: Run, seen: Judgement) -> None:
    """Claim that every process ended well, rank 0 with a result, and that PyTorch had nothing to warn of."""
    ended = [f"process {n}: exit code {code}{_last(run, n)}" for n, code in enumerate(run.codes) if code != 0]
    seen.claim(not ended, "; ".join(ended[:_MOST_LINES]))
    seen.claim(bool(run.events(0, "result")), "no result")
    warnings = {line.strip()[:160] for text in run.errors for line in text.splitlines() if _WARNINGS.search(line)}
    seen.claim(not warnings, f"PyTorch warns: {'; '.join(sorted(warnings)[:2])}")
    for event in run.events(0, "measurement"):
        seen.numbers |= {key: value for key, value in event.items() if isinstance(value, float) and key != "loss"}


def _last(run: Run, number: int) -> str:
    lines = [line for line in run.errors[number].splitlines() if line.strip()]
    return f" ({lines[-1].strip()[:120]})" if lines else ""


def over_nccl(run: Run, seen: Judgement) -> None:
    """As `well`, and all ranks report the transport that they had: one GPU's ranks have NCCL's sockets."""
    well(run, seen)
    used = {transport for event in run.events(event="transport") for transport in event["used"]}
    backends = {event["backend"] for event in run.events(event="transport")}
    seen.claim(len(run.events(event="transport")) == len(run.codes), "not every rank reports its transport")
    seen.claim(backends != {"nccl"} or any("NET/Socket" in name for name in used), f"transport {sorted(used)}")
    seen.numbers["transport"] = ", ".join(sorted(used))


def nothing_moved(run: Run, seen: Judgement) -> None:
    """As `well`, and one rank reports no bandwidth."""
    well(run, seen)
    rates = [key for event in run.events(event="measurement") for key in event if key.endswith("gb_per_s")]
    seen.claim(not rates, f"a bandwidth of one rank: {sorted(set(rates))}")


def errors_below(limit: float) -> Callable[[Run, Judgement], None]:
    """As `well`, and every assertion holds with an error of at most this."""

    def judge(run: Run, seen: Judgement) -> None:
        well(run, seen)
        errors = [event["error"] for event in run.events(event="assertion")]
        seen.numbers |= {"assertions": len(errors), "largest_error": max(errors, default=0.0)}
        seen.claim(bool(errors), "nothing was asserted")
        seen.claim(max(errors, default=0.0) <= limit, f"error {max(errors, default=0.0):g}, at most {limit:g}")

    return judge


def modes(run: Run, seen: Judgement) -> None:
    """All modes of training are right; bf16 has the largest error."""
    errors_below(2e-2)(run, seen)
    names = {event["mode"] for event in run.events(0, "measurement") if "mode" in event}
    seen.claim(len(names) == MODES, f"{len(names)} modes of {MODES}")


def same_bits(run: Run, seen: Judgement) -> None:
    """As `well`, and the numbers of each type."""
    well(run, seen)
    for event in run.events(0, "measurement"):
        if "dtype" in event and event.get("rank") == 0:
            seen.numbers[f"{event['dtype']}_tflop_per_s"] = event["tflop_per_s"]


def names_wrong(rank: int) -> Callable[[Run, Judgement], None]:
    """The rank that computes wrong names itself, no other, and all end with exit code 3."""

    def judge(run: Run, seen: Judgement) -> None:
        named = {event["rank"] for event in run.events(event="wrong")}
        seen.claim(named == {rank}, f"named: {sorted(named)}, wrong was rank {rank}")
        seen.claim(set(run.codes) == {3}, f"exit codes {run.codes}")

    return judge


def is_found(run: Run, seen: Judgement) -> None:
    """A fault in what ranks exchange is found, by an assertion or by a wrong result."""
    seen.claim(bool(run.events(event="wrong")), "nothing was found wrong")
    seen.claim(not run.events(event="result"), "a result, although a share was lost")


def waited(gone: int, limit_s: float, dies: bool) -> Callable[[Run, Judgement], None]:
    """All ranks but the one that is gone say in which collective they waited, and end within 5 s of its limit."""

    def judge(run: Run, seen: Judgement) -> None:
        others = [number for number in range(len(run.codes)) if number != gone]
        events = {number: run.events(number, "failed") for number in others}
        silent = [number for number in others if not events[number]]
        seen.claim(not silent, f"ranks {silent} said nothing")
        unnamed = [n for n in others for event in events[n] if not event.get("collective")]
        seen.claim(not unnamed, f"ranks {unnamed} do not say which collective")
        seen.claim(not run.events(gone, "failed"), f"rank {gone} spoke, too")
        left = [number for number in others if run.codes[number] is None]
        seen.claim(not left, f"ranks {left} had not ended")
        seen.claim(not dies or run.codes[gone] == -signal.SIGKILL, f"rank {gone} ended with {run.codes[gone]}")
        if dies:
            named_s = max(run.ended_s[number] for number in others) - run.ended_s[gone]
            seen.numbers["seconds_until_named"] = round(named_s, 1)
            seen.claim(named_s <= limit_s + 5, f"{named_s:.1f} s after it died, the limit is {limit_s:g} s")
        words = [f"{e['error'][:160]} {e.get('place', '')}".strip() for number in others for e in events[number][:1]]
        seen.numbers["said"] = "; ".join(sorted(set(words))[:3])

    return judge


def resumed(run: Run, seen: Judgement) -> None:
    """Training continued after the kill, with the losses of an undisturbed one."""
    well(replace(run, outputs=("\n".join(run.outputs),), errors=("",)), seen)
    seen.claim("resume_s" in seen.numbers, "no rank was killed and resumed")


def both_ways(run: Run, seen: Judgement) -> None:
    """Both nodes and both directions of the pair have a number."""
    well(run, seen)
    rates = [event["gb_per_s"] for event in run.events(event="measurement") if "gb_per_s" in event]
    seen.claim(len(rates) == 2, f"{len(rates)} directions of 2")
    seen.numbers["gb_per_s"] = max(rates, default=0.0)


def one_is_silent(run: Run, seen: Judgement) -> None:
    """The pair with the node that is not there is silent, the other one is measured."""
    both_ways(run, seen)
    silent = [event["of"]["peer"] for event in run.events(event="silent")]
    seen.claim(silent == ["w3"], f"silent: {silent}")


def as_nvidia_smi(run: Run, seen: Judgement) -> None:
    """The reader's facts are those of nvidia-smi."""
    seen.claim(run.codes == (0, 0), f"exit codes {run.codes}")
    if run.codes != (0, 0):
        return
    answer, tree = json.loads(run.outputs[0]), ET.fromstring(run.outputs[1])  # noqa: S314  nvidia-smi's own
    seen.claim(answer["driver"] == tree.findtext("driver_version"), f"driver {answer['driver']}")
    for gpu, element in zip(answer["gpus"], tree.iter("gpu"), strict=False):
        for fact, path in _FACTS.items():
            there, here = (element.findtext(path) or "").split(" ")[0].rstrip("x"), gpu[fact]
            text = {True: "Enabled", False: "Disabled"}.get(here, str(here)) if isinstance(here, bool) else str(here)
            seen.claim(
                there in ("N/A", "Requested", text) or element.findtext(path) == text, f"{fact}: {text}, {there}"
            )
        seen.claim(gpu["error"] is None and not gpu["troubles"], f"{gpu['error']} {gpu['troubles']}")
        seen.numbers |= {"model": gpu["model"], "nvlinks": f"{gpu['nvlinks']['active']} of {gpu['nvlinks']['total']}"}


def metrics(run: Run, seen: Judgement) -> None:
    """The metrics program ends well and has the GPU's metrics."""
    seen.claim(run.codes == (0,), f"exit code {run.codes[0]}: {_last(run, 0)}")
    for name in ("gpu_driver_up", "gpu_answers", "gpu_temperature_celsius", "gpu_memory_bytes"):
        seen.claim(f"\n{name}{{" in run.outputs[0], f"no {name}")
    seen.numbers["metrics"] = run.outputs[0].count("# TYPE")


def on_gpu(run: Run, seen: Judgement) -> None:
    """JAX trains, on a GPU."""
    well(run, seen)
    devices = [str(event.get("device", "")) for event in run.events(event="result")]
    seen.claim(any("cpu" not in device.lower() for device in devices if device), f"device {devices}")
