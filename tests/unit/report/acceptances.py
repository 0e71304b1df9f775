"""Acceptance reports for tests: of a cluster that is as its blueprint asks, and of one in which much is wrong."""

from __future__ import annotations

from dataclasses import replace

from hpcforge import bundled
from hpcforge.blueprint.sections.nodes import Override
from hpcforge.cluster import Loaded, load
from hpcforge.host.commit import Commit
from hpcforge.plan.admission import Shortfall
from hpcforge.plan.diff import SLURM_NODES
from hpcforge.plan.observation import Observation
from hpcforge.plan.plan import Change, Step
from hpcforge.report.acceptance import AcceptanceBasis
from hpcforge.run.records.history import Past
from hpcforge.verify.verdict_records import KeptVerdicts, Recorded
from hpcforge.verify.verdicts import Verdict
from tests.support.plans import plan_with, with_fields

NOW_S = 1_795_600_000.0
SCRIPT = "</style><script>alert(1)</script>\x1b[2J"


def _loaded() -> Loaded:
    return load(bundled.root() / "blueprints" / "air-cooled-16.yaml")


def whole() -> AcceptanceBasis:
    """All tests passed, on nodes that are as declared."""
    loaded = _loaded()
    cluster = loaded.cluster
    assert cluster.acceptance
    observed = {
        node.name: Observation(
            node.name,
            {
                "os_id": "debian", "os_release": "12", "kernel": "6.1.0-40-amd64", "cpus": node.cpus,
                "memory_kib": node.memory_mib * 1024, "gpus": {"nvidia": node.gpus.count if node.gpus else 0},
            },
            receipt={"run": 7, "hpcforge": "0.2.0"},
        )
        for node in cluster.nodes
    }  # fmt: skip
    kept = []
    for test in cluster.acceptance.tests:
        measured = tuple(
            {measure.name: 1.5 + place, "host": node}
            for place, node in enumerate(test.nodes)
            for measure in test.program.measures
        )
        verdict = Verdict(
            test.name, "passed", test.nodes, ranks=len(test.nodes), headline="busbw 380 GB/s", measurements=measured,
            torch_build="2.13.0+cu126 from wheel", seconds=41.5,
        )  # fmt: skip
        kept.append(KeptVerdicts(verdict, NOW_S - 600, test.nodes))
    names = tuple(node.name for node in cluster.nodes)
    head = cluster.slurm.controller
    slurm = "".join(f"NodeName={node.name} Arch=x86_64 State=IDLE ThreadsPerCore=2\n" for node in cluster.workers)
    return AcceptanceBasis(
        cluster=cluster,
        blueprint="blueprints/air-cooled-16.yaml",
        overrides={},
        commit=Commit("0123456789abcdef0123456789abcdef01234567", dirty=False),
        hpcforge="0.2.0",
        who="ada@desk",
        made_s=NOW_S,
        observed=observed,
        head=replace(observed[head], answers={SLURM_NODES: slurm}),
        plan=plan_with(cluster.name, names, controller=head),
        recorded=Recorded(tuple(kept)),
        runs=(Past("r7", "ada@desk", 7, NOW_S - 3600, 812.0, commit="0123456789abcdef", exit=0),),
    )


def away() -> AcceptanceBasis:
    """No node answers: workers for a reason of three lines, the others because their host keys are not known."""
    basis = whole()
    slow = "{0} ({1}) does not answer\nits console may say why\nthen: hpcforge status -n {0}"
    workers = {node.name for node in basis.cluster.workers}
    observed = {
        node.name: Observation(node.name, unreachable=slow.format(node.name, node.address), reason="timeout")
        if node.name in workers
        else Observation(node.name, unreachable="the inventory has no host key: use --trust-new", reason="no-host-key")
        for node in basis.cluster.nodes
    }
    unreachable = {name: str(seen.unreachable) for name, seen in observed.items()}
    head = observed[basis.cluster.slurm.controller]
    return replace(basis, observed=observed, head=head, plan=with_fields(basis.plan, unreachable=unreachable))


def large() -> AcceptanceBasis:
    """Ten thousand workers in 250 racks; no two measured the same, and every third does not answer."""
    basis = whole()
    one, acceptance = basis.cluster.workers[0], basis.cluster.acceptance
    assert acceptance
    nodes = tuple(replace(one, name=f"w{n:05}", rack=f"r{n // 40:03}", rack_u=n % 40) for n in range(10_000))
    names = tuple(node.name for node in nodes)
    others = tuple(node for node in basis.cluster.nodes if "worker" not in node.functions)
    tests = tuple(replace(test, nodes=names) for test in acceptance.tests)
    slow = {name: f"{name} (10.1.0.1) does not answer" for name in names[::3]}
    seen = {name: replace(basis.observed[one.name], node=name, receipt={"run": n}) for n, name in enumerate(names)}
    seen |= {name: Observation(name, unreachable=why, reason="timeout") for name, why in slow.items()}
    kept = []
    for record in basis.recorded.kept:
        measured = tuple(
            {**record.verdict.measurements[0], **{m.name: 1000.0 + n for m in test.program.measures}, "host": name}
            for test in tests
            if test.name == record.verdict.test
            for n, name in enumerate(names)
        )
        verdict = replace(record.verdict, nodes=names, measurements=measured)
        kept.append(replace(record, verdict=verdict, stands_for=names))
    return replace(
        basis,
        cluster=replace(basis.cluster, nodes=(*others, *nodes), acceptance=replace(acceptance, tests=tests)),
        observed={**basis.observed, **seen},
        plan=with_fields(basis.plan, unreachable=slow),
        recorded=Recorded(tuple(kept)),
    )


def broken() -> AcceptanceBasis:
    """A failed test, a node that is away, less memory than declared, an override, drift; and markup in every text."""
    basis = whole()
    cluster = basis.cluster
    w = [node.name for node in cluster.workers]
    first, *rest = basis.recorded.kept
    failed = replace(first.verdict, status="failed", detail=f"rank 3 on {w[0]}: {SCRIPT}", headline="")
    left = replace(rest[0].verdict, nodes=tuple(w[1:]), left_out={w[0]: SCRIPT}, options={"sizes_kib": "4"})
    assert cluster.acceptance is not None
    tests = tuple(
        replace(test, options=(("sizes_kib", "4"),)) if test.name == left.test else test
        for test in cluster.acceptance.tests
    )
    kept = (KeptVerdicts(failed, NOW_S, ()), KeptVerdicts(left, NOW_S, tuple(w[2:])), *rest[1:])
    return replace(
        basis,
        cluster=replace(cluster, acceptance=replace(cluster.acceptance, tests=tests)),
        overrides={w[3]: Override.model_validate({"memory_gib": "512", "reason": "one DIMM out until June"})},
        commit=replace(basis.commit or Commit("", dirty=True), dirty=True),
        observed={**basis.observed, w[1]: Observation(w[1], unreachable=SCRIPT)},
        plan=with_fields(
            basis.plan,
            unreachable={w[1]: SCRIPT},
            steps=(Step("time", {w[2]: Change(reason="drifted"), w[3]: Change(reason="drifted")}),),
            shortfalls=(Shortfall(w[4], "memory", "1,024 GiB", "992 GiB", f"{w[4]}: {{memory_gib: 992}}"),),
        ),
        recorded=Recorded(kept),
        warnings=(SCRIPT,),
        not_real=("GPUs are device files",),
    )
