"""The limits for numbers of smoke tests: the design's bandwidth, a baseline and usual rates of the software."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast, get_args

from hpcforge.blueprint.sections.hardware import Gpu
from hpcforge.blueprint.smoke_tests import OneGpu, Operation
from hpcforge.cluster.model import Cluster, SmokeTest
from hpcforge.design.fabric.expected_bandwidth import PCIE, NodeGpus, expect
from hpcforge.design.fabric.graph import Fabric
from hpcforge.verify.baselines import Baseline, SavedTest, Values, difference
from hpcforge.verify.lines import DerivedValue, References, usual_rates, weighed
from hpcforge.verify.measurements import numbers
from hpcforge.verify.verdicts import Verdict

if TYPE_CHECKING:
    from hpcforge.node.answer_types import Facts

_REHEARSED_TO = 0.25  # of the usual rate: the most that a limit is where nodes share cores with other work
_OTHER_WORK = {"dtypes", "size", "size_mib"}  # options that change a GPU's rate


@dataclass(frozen=True)
class Expectations:
    """Design, baseline and software of a cluster; without them only the tests' own limits count."""

    cluster: Cluster
    fabrics: Sequence[Fabric] = ()
    gpus: Mapping[str, Gpu] = field(default_factory=dict)  # the catalog's, by model
    facts: Mapping[str, Facts] = field(default_factory=dict)  # of nodes
    slurm: str = ""  # the running version
    baseline: Baseline | None = None
    usual: Mapping[str, SavedTest] = field(default_factory=dict)  # by test: rates of past runs

    def weigh(self, test: SmokeTest, verdict: Verdict) -> Verdict:
        """Return the verdict with its limits."""
        references = References(
            self.derived(test, verdict.nodes, nccl=verdict.backend == "nccl"),
            usual=self._usual(test, verdict),
            usual_to=_REHEARSED_TO if self.cluster.shared_cores else References.usual_to,
        )
        saved = self.baseline.tests.get(test.name) if self.baseline else None
        if self.baseline is not None and saved is not None:
            differs = difference(self.fingerprint(test, verdict), saved.fingerprint)
            references = replace(
                references, baseline=saved.medians(), baseline_name=self.baseline.name, differs=differs
            )
        return weighed(verdict, test.program, references)

    def derived(self, test: SmokeTest, nodes: Sequence[str], *, nccl: bool = True) -> dict[str, DerivedValue]:
        """Return catalog's and fabric's values for each measure of a test with an operation, on these nodes."""
        chosen = {name for name, _ in test.options}
        return {measure: self._derived(operation, nodes, nccl, chosen) for measure, operation in test.program.derived}

    def differs(self, test: SmokeTest, verdict: Verdict) -> str:
        """Describe the difference between the software and the baseline's; "" if there is none, or no baseline."""
        saved = self.baseline.tests.get(test.name) if self.baseline else None
        return difference(self.fingerprint(test, verdict), saved.fingerprint) if saved else ""

    def fingerprint(self, test: SmokeTest, verdict: Verdict) -> dict[str, str]:
        """Return the software and settings to which the numbers of a verdict belong."""
        facts = [self.facts[node] for node in verdict.nodes if node in self.facts]
        options = {**dict(test.program.options), **verdict.options}
        ranked = {"ranks": str(verdict.ranks)} if test.program.ranked else {}
        return {
            "kernel": _join_unique(node_facts.get("kernel", "") for node_facts in facts),
            "driver": _join_unique((nvml["driver"] or "") for node_facts in facts if (nvml := node_facts.get("nvml"))),
            "firmware": _join_unique(firmware for node_facts in facts for firmware in _firmware(node_facts)),
            "torch": verdict.torch_build or "",
            "transport": verdict.transport,
            "slurm": self.slurm,
            "hardware": _join_unique(self.cluster.by_name[node].hardware for node in verdict.nodes),
            "options": " ".join(f"{name}={value}" for name, value in sorted(options.items())),
            "program": hashlib.sha256(test.program.text.encode()).hexdigest()[:12],
            **ranked,
        }

    def measured(self, test: SmokeTest, verdict: Verdict) -> SavedTest:
        """Return the part of a verdict that a baseline keeps."""
        by_name = numbers(test.program, verdict.measurements)
        values = {name: {part: [value] for part, value in parts.items()} for name, parts in by_name.items()}
        return SavedTest(self.fingerprint(test, verdict), values)

    def rates(self, test: SmokeTest, verdict: Verdict) -> SavedTest | None:
        """Return the rates that count as usual for a test; None: it has none, or did not pass on all of its nodes."""
        names = usual_rates(test.program)
        if not (names and verdict.passed and self._ran_on_all(verdict)):
            return None
        measured = self.measured(test, verdict)
        return replace(measured, values={name: parts for name, parts in measured.values.items() if name in names})

    def _usual(self, test: SmokeTest, verdict: Verdict) -> Values:
        """Return the rates of past runs of the same software on the same nodes."""
        past = self.usual.get(test.name)
        if past is None or not self._ran_on_all(verdict) or past.fingerprint != self.fingerprint(test, verdict):
            return {}
        return {name: past.values[name] for name in usual_rates(test.program) if name in past.values}

    def _ran_on_all(self, verdict: Verdict) -> bool:
        """Return True if a test ran on all of its nodes in the blueprint."""
        declared = self.cluster.acceptance.tests if self.cluster.acceptance else ()
        nodes = {*verdict.nodes}
        return not verdict.left_out and any(test.name == verdict.test and {*test.nodes} == nodes for test in declared)

    def _derived(
        self, operation: Operation | OneGpu, names: Sequence[str], nccl: bool, chosen: Collection[str]
    ) -> DerivedValue:
        """Return the value of an operation on these nodes. `chosen`: the test's options that the blueprint sets."""
        nodes = [self.cluster.by_name[name] for name in names]
        without = [node.name for node in nodes if node.gpus is None or node.gpus.fake]
        if without or not nccl:
            return DerivedValue(None, None, "not derived: no rank runs on a GPU")
        models = {node.gpus.model for node in nodes if node.gpus}
        if unknown := sorted(models - {*self.gpus}):
            return DerivedValue(None, None, f"not derived: the catalog does not have {unknown[0]}")
        if operation in get_args(OneGpu):
            if any(node.gpus and node.gpus.mig for node in nodes):
                return DerivedValue(None, None, "not derived: GPUs are cut into MIG instances")
            if altering := sorted(_OTHER_WORK & set(chosen)):
                return DerivedValue(None, None, f"not derived: the blueprint sets {' and '.join(altering)}")
            return expect_of_one(cast("OneGpu", operation), {model: self.gpus[model] for model in models})
        gpus = {node.name: NodeGpus.of(self.gpus[node.gpus.model], node.gpus.count) for node in nodes if node.gpus}
        carrier = self.cluster.fabric_between(nodes)
        fabric = next((candidate for candidate in self.fabrics if carrier and candidate.name == carrier.name), None)
        bandwidth = expect(cast("Operation", operation), names, gpus, fabric)
        return DerivedValue(bandwidth.peak_gb_per_s, bandwidth.expected_gb_per_s, bandwidth.derivation)


def _join_unique(words: Iterable[str]) -> str:
    return ", ".join(sorted({word for word in words if word}))


def _firmware(facts: Facts) -> list[str]:
    """Return the VBIOS of each GPU, as the driver reports it."""
    nvml = facts.get("nvml")
    return [gpu["vbios"] for gpu in nvml["gpus"] if gpu["vbios"]] if nvml else []


def expect_of_one(operation: OneGpu, gpus: Mapping[str, Gpu]) -> DerivedValue:
    """Return bound and expected value of the slowest of some models; None and the reason if one is not known."""
    values = [_product(name, gpu) if operation == "bf16-product" else _copy(name, gpu) for name, gpu in gpus.items()]
    unknown = next((value for value in values if value.expected is None), None)
    return unknown or min(values, key=lambda value: value.expected or 0.0)


def _product(name: str, gpu: Gpu) -> DerivedValue:
    peak, measured = gpu.bf16_dense_peak_tflops, gpu.bf16_measured_tflops
    if not peak or not measured:
        return DerivedValue(None, None, f"not derived: the catalog has no measured BF16 rate of {name}")
    source = gpu.sources.get("bf16_measured_tflops", "no source is named")
    text = f"{name}: {measured:g} of {peak:g} TFLOP/s, which is {measured / peak:.0%} ({source})"
    return DerivedValue(peak, measured, text)


def _copy(name: str, gpu: Gpu) -> DerivedValue:
    bound = NodeGpus.of(gpu, 1).pcie_gb_per_s
    if not bound:
        return DerivedValue(None, None, f"not derived: the catalog has no PCIe link of {name}")
    expected = bound * PCIE.of_bound
    link = f"PCIe {gpu.pcie_generation} x{gpu.pcie_lanes} of {name}"
    text = f"{link}: {bound:.4g} GB/s, of which {PCIE.of_bound:.0%} is {expected:.4g} GB/s ({PCIE.source})"
    return DerivedValue(bound, expected, text)
