"""What a rehearsal of a real site is made of, for every shipped blueprint."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cli import site as sites
from hpcforge.cli.node_selection import choose
from hpcforge.cli.options import SelectOptions
from hpcforge.cli.site import lab_facts, open_site, real_networks
from hpcforge.cluster import Loaded, load
from hpcforge.cluster.model import Jump, Measure, StandInGpus, Threshold
from hpcforge.cluster.select import SelectionError
from hpcforge.errors import UsageError
from hpcforge.kinds.files import File
from hpcforge.lab import facts
from hpcforge.lab.state import Lab
from hpcforge.rehearsal.node_choice import chosen
from hpcforge.rehearsal.stand_in_rules import RULES
from hpcforge.rehearsal.stand_ins import rehearsed
from hpcforge.report.rehearsal_text import not_rehearsed
from hpcforge.run.make_plan import compare_unseen
from hpcforge.run.site import Site, goal, jump_host, target
from tests.support.shipped import ROOT
from tests.unit.rehearsal.conftest import DGX

Rehearsal = Callable[..., Site]


def strings(data: Any) -> Iterator[str]:
    """All that stands in plain data."""
    if isinstance(data, dict):
        data = [*data.keys(), *data.values()]
    if isinstance(data, list | tuple):
        for one in data:
            yield from strings(one)
    elif isinstance(data, str | Path):
        yield str(data)


def test_nothing_of_the_real_machines_is_left(real: Loaded, rehearsal_of: Rehearsal) -> None:
    site = rehearsal_of(real)
    theirs = real_networks(real.cluster)
    there = [target(site, node.name, node).address for node in site.cluster.nodes]
    assert there and all(IPv4Address(address) in IPv4Network(site.cluster.network.cidr) for address in there)
    assert jump_host(site) is None
    said = " ".join(strings(dataclasses.asdict(site.cluster)))
    found = [
        text for text in re.findall(r"\d+\.\d+\.\d+\.\d+", said) if any(IPv4Address(text) in their for their in theirs)
    ]
    assert not found
    assert site.loaded.cluster is site.cluster
    assert site.loaded.inventory is not None and not {*site.loaded.inventory.nodes} - {*site.cluster.by_name}
    assert site.loaded.secrets_path.parent.name == "a-lab"
    assert site.kept_as == f"{site.cluster.name}@a-lab"


def test_every_site_can_be_planned_for(real: Loaded, rehearsal_of: Rehearsal) -> None:
    site = rehearsal_of(real)
    plan = compare_unseen(site, choose(site, goal(site, make=False), SelectOptions()))
    assert plan.pending and not plan.state.refused
    assert {name for step in plan.changes.steps for name in step.changes} == {*site.cluster.by_name}
    assert all(name in site.cluster.by_name for partition in site.cluster.slurm.partitions for name in partition.nodes)
    assert {partition.name for partition in site.cluster.slurm.partitions} == {
        partition.name for partition in real.cluster.slurm.partitions
    }


def test_of_each_kind_of_node_some_are_rehearsed(dgx: Loaded) -> None:
    assert chosen(dgx.cluster, None) == (
        "head01", "login01", "login02", "stor01", "gpu001", "gpu002", "gpu003", "gpu031",
    )  # fmt: skip
    assert chosen(dgx.cluster, "gpu[005-006],login02") == ("head01", "login02", "gpu005", "gpu006")
    with pytest.raises(SelectionError):
        chosen(dgx.cluster, "gpu999")


def test_a_lab_has_what_it_can_and_says_what_not(dgx: Loaded, rehearsal_of: Rehearsal) -> None:
    site = rehearsal_of(dgx, "login01,gpu[001-002]")
    cluster, slurm = site.cluster, site.cluster.slurm
    worker = cluster.by_name["gpu001"]
    assert isinstance(worker.gpus, StandInGpus)
    assert (worker.gpus.model, worker.gpus.count) == ("h100-sxm", 8)
    assert worker.gpus.devices[7] == "/dev/fakegpu7"
    assert worker.gpus != dgx.cluster.by_name["gpu001"].gpus
    assert (worker.gpus.most_ranks(2), worker.gpus.most_ranks(64)) == (2, 8)
    assert (worker.reserve_cores, worker.reserve_memory_mib, slurm.enforce) == (0, 0, ())
    assert [partition.name for partition in slurm.partitions] == ["train"]
    assert [[switch.nodes for switch in one.switches] for one in slurm.topologies] == [[("gpu001", "gpu002")]]
    assert (cluster.services["time"].on, cluster.services["time"].external) == (("head01",), ())
    assert cluster.services["dns"] == dgx.cluster.services["dns"]
    short = not_rehearsed(site.stand_ins, "hpcforge rehearse compare")
    for said in ("32 of 36 nodes", "GPUs", "memory, cores", "limits by cgroups", "the site's time", "BMCs"):
        assert said in short
    assert short.count("\n") == 2
    assert "the partitions debug, which have no other" in site.stand_ins[0].sentence


@pytest.mark.parametrize(
    ("controllers", "why"),
    [
        ({"cpuset", "memory"}, "a container's cgroups are not its own"),
        ((), "this machine's cgroup v2 has no controllers"),
    ],
)
def test_limits_say_what_this_machine_lacks(dgx: Loaded, controllers: set[str], why: str) -> None:
    lab = dataclasses.replace(lab_facts(dgx, None), controllers=frozenset(controllers))
    _, stand_ins = rehearsed(dgx.cluster, lab, RULES)
    assert any(why in one.sentence for one in stand_ins)


def test_root_and_jump_hosts_are_the_sites_own(dgx: Loaded) -> None:
    lab = lab_facts(dgx, None)
    outside = Jump("gate", "192.0.2.9", "ops", (), is_node=False)
    head = Jump("head01", "10.20.0.10", "ops", (), is_node=True)
    for via, left in ((outside, None), (head, lab.machines["head01"].address)):
        access = dataclasses.replace(dgx.cluster.access, via=via)
        cluster, _ = rehearsed(dataclasses.replace(dgx.cluster, access=access), lab, RULES)
        assert (cluster.access.via and cluster.access.via.address) == left


def test_without_the_word_lab_a_site_is_meant(dgx: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(sites.labs, "load", asked.append)
    site = open_site(DGX, None, None, Path("/nowhere/age.key"))
    assert (asked, site.lab, site.stand_ins, site.kept_as) == ([], None, (), "aurora")
    assert site.cluster == dgx.cluster
    with pytest.raises(UsageError, match="the rehearsal 'mine' is not up"):
        open_site(DGX, None, "mine", Path("/nowhere/age.key"))
    with pytest.raises(UsageError, match="the rehearsal 'mine' is not up"):  # an inventory given is the site's
        open_site(DGX, dgx.inventory_path, "mine", Path("/nowhere/age.key"))


def a_lab(cidr: str, *nodes: str) -> Lab:
    return Lab(
        "mine", "nspawn", "hf0000", cidr, "10.77.0.1", 1, "/c", "ops", "12", str(DGX), "mgmt", (), nodes, 0
    )  # fmt: skip


def test_a_lab_that_is_none_of_this_site_is_refused(dgx: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = facts.LabMachine("10.77.0.10", ("ssh-ed25519 AAAA",))

    def has(*names: str) -> None:
        made = facts._facts(dict.fromkeys(names, machine), "10.77.0.0/24", "ops", None)
        monkeypatch.setattr(sites, "facts_of", lambda lab: made)

    has("head01", "gpu001", "stranger")
    assert {*lab_facts(dgx, a_lab("10.77.0.0/24", "head01")).machines} == {"head01", "gpu001"}
    with pytest.raises(UsageError, match="and this blueprint has machines in that subnet"):
        lab_facts(dgx, a_lab("10.20.0.0/24", "head01"))
    has("gpu001")
    with pytest.raises(UsageError, match="lacks head01, which provides a service"):
        lab_facts(dgx, a_lab("10.77.0.0/24", "gpu001"))


def test_processors_are_counted_as_slurm_counts_them(tmp_path: Path) -> None:
    for number, (socket, core) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)] * 2):
        folder = tmp_path / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{socket}\n")
        (folder / "core_id").write_text(f"{core}\n")
    assert facts.processors(tmp_path) == (2, 2, 2)
    assert facts.processors(tmp_path / "nothing") == (1, 1, 1)


def test_pytorch_is_the_catalogs_for_cpus(dgx: Loaded, rehearsal_of: Rehearsal) -> None:
    site = rehearsal_of(dgx)
    real, stand_in = dgx.cluster.pytorch, site.cluster.pytorch
    assert real is not None and stand_in is not None
    assert not any("+cpu" in wheel.file for wheel in real.wheels)
    assert stand_in.wheels[0].file.startswith(f"torch-{stand_in.version}+cpu-cp311-")
    [said] = [one.sentence for one in site.stand_ins if one.name == "PyTorch"]
    assert said == (
        f"PyTorch {stand_in.version} for CPUs is installed instead of {real.version} for GPUs; "
        f"the catalog has no build of {real.version} for CPUs"
    )
    thirteen = dataclasses.replace(dgx.cluster, os=dataclasses.replace(dgx.cluster.os, release="13"))
    cluster, _ = rehearsed(thirteen, lab_facts(dgx, None), RULES)
    assert cluster.pytorch is not None
    assert (cluster.pytorch.build, cluster.pytorch.wheels) == ("distribution", ())


def test_a_framework_for_gpus_is_the_catalogs_for_cpus(tmp_path: Path, rehearsal_of: Rehearsal) -> None:
    text = (ROOT / "blueprints" / "dgx-h100-site.yaml").read_text().replace("../", f"{ROOT}/")
    (tmp_path / "b.yaml").write_text(text.replace('pytorch: "2.10.0"', 'jax: "0.10.2"'))
    loaded = load(tmp_path / "b.yaml", judged=True)
    site = rehearsal_of(loaded)
    (real,), (stand_in,) = loaded.cluster.frameworks, site.cluster.frameworks
    assert [any("cuda12" in wheel.file for wheel in each.wheels) for each in (real, stand_in)] == [True, False]
    [said] = [one.sentence for one in site.stand_ins if one.name == "PyTorch"]
    assert said == "JAX 0.10.2 for CPUs is installed instead of for GPUs"


def test_smoke_tests_keep_what_can_run(dgx: Loaded, rehearsal_of: Rehearsal) -> None:
    acceptance = dgx.cluster.acceptance
    assert acceptance is not None
    names = tuple(dict.fromkeys(test.name for test in acceptance.tests))
    assert rehearsal_of(dgx).cluster.acceptance is not None

    def left(**needs: object) -> tuple[tuple[str, ...], str]:
        first = acceptance.tests[0]
        program = dataclasses.replace(first.program, **needs)  # type: ignore[arg-type]
        tests = tuple(
            dataclasses.replace(test, program=program) if test.name == first.name else test for test in acceptance.tests
        )
        changed = dataclasses.replace(dgx.cluster, acceptance=dataclasses.replace(acceptance, tests=tests))
        cluster, said = rehearsed(changed, lab_facts(dgx, None), RULES)
        assert cluster.acceptance is not None
        kept = tuple(dict.fromkeys(test.name for test in cluster.acceptance.tests))
        return kept, " ".join(one.sentence for one in said)

    assert left()[0] == names
    kept, said = left(gpus="real")
    assert kept == names[1:] and f"left out, because they need real GPUs: {names[0]}" in said
    kept, said = left(min_nodes=30)
    assert kept == names[1:] and f"the smoke tests {names[0]}, which take more nodes" in said


def test_nodes_that_share_a_machine_are_not_held_to_speeds(dgx: Loaded) -> None:
    acceptance = dgx.cluster.acceptance
    assert acceptance is not None
    copy = next(test for test in acceptance.tests if test.name == "memory_copy")
    measures = (*copy.program.measures, Measure("checked_bytes", "B"), Measure("step_s", "s"))
    kept = (Threshold("checked_bytes", "at_least", 1), Threshold("copy_gb_per_s", "at_least_of_median", 0.1))
    lines = (*copy.program.lines, *kept, Threshold("step_s", "at_most", 2))
    copy = dataclasses.replace(copy, program=dataclasses.replace(copy.program, measures=measures, lines=lines))
    changed = dataclasses.replace(dgx.cluster, acceptance=dataclasses.replace(acceptance, tests=(copy,)))
    cluster, said = rehearsed(changed, lab_facts(dgx, None), RULES)
    assert cluster.acceptance is not None
    assert [test.program.lines for test in cluster.acceptance.tests] == [kept]
    (speeds,) = (one.sentence for one in said if one.name == "speeds")
    assert speeds.endswith(": no limit applies to copy_gb_per_s of memory_copy, step_s of memory_copy")


def test_nodes_that_share_cores_are_held_to_twice_a_ratio_of_speeds(dgx: Loaded) -> None:
    """Beside other work of the machine, healthy nodes of a rehearsal had 1.15 of the first quarter's time."""
    acceptance = dgx.cluster.acceptance
    assert acceptance is not None
    program = dataclasses.replace(
        acceptance.tests[0].program,
        measures=(Measure("slowdown", "1", "lower"), Measure("steps", "1", shown="count")),
        lines=(Threshold("slowdown", "at_most", 1.05), Threshold("steps", "at_most", 9)),
    )
    test = dataclasses.replace(acceptance.tests[0], program=program)
    changed = dataclasses.replace(dgx.cluster, acceptance=dataclasses.replace(acceptance, tests=(test,)))
    cluster, said = rehearsed(changed, lab_facts(dgx, None), RULES)
    assert cluster.acceptance is not None
    lines = cluster.acceptance.tests[0].program.lines
    assert lines == (Threshold("slowdown", "at_most", 2.1), Threshold("steps", "at_most", 9))
    (speeds,) = (entry.sentence for entry in said if entry.name == "speeds")
    assert speeds == f"the nodes share this machine's cores: slowdown of {test.name} may be 2 times as much"


def test_instances_of_cut_gpus_are_devices_too_and_nothing_cuts_them(rehearsal_of: Rehearsal) -> None:
    """So a lab's slurmd opens for each instance what the site's would."""
    site = rehearsal_of(load(ROOT / "tests/unit/roles/blueprints/mig.yaml"), "b01")
    gpus, desired = site.cluster.by_name["b01"].gpus, goal(site, make=False).desired
    assert isinstance(gpus, StandInGpus) and len(gpus.gres) == 9 and len(gpus.links) == 4 + 2 * 8
    roles = {node.role: node for node in desired.nodes["b01"]}
    assert "gpu_fake" in roles and "nvidia_mig" not in roles
    (made,) = (desired.texts[one.text] for one in roles["gpu_fake"].of(File) if "tmpfiles.d" in one.path)
    assert re.findall(r"^c (\S+) ", made, re.MULTILINE) == [*gpus.devices, *gpus.links]
    assert "nvidia_mig" in str(site.stand_ins)


def test_a_directory_that_stands_in_has_the_people_whom_the_blueprint_names(rehearsal_of: Rehearsal) -> None:
    site = rehearsal_of(load(ROOT / "blueprints" / "campus.yaml", judged=True))
    (said,) = (one.sentence for one in site.stand_ins if one.name == "services outside")
    assert said.endswith(
        "; the directory has the people of accounts and reservations: lena, maria, ravi, student1, tomas"
    )
    desired = goal(site, make=False).desired
    roles = {node.role: node for node in desired.nodes["head01"]}
    code = roles["directory_server"].opaque
    assert code is not None
    inputs = code.inputs
    assert [*inputs["directory_people"]] == ["lena", "maria", "ravi", "student1", "tomas"]
    assert ([*inputs["directory_groups"]], inputs["directory_number"]) == (["hpc"], 60001)
    (conf,) = (desired.texts[one.text] for one in roles["sssd"].of(File) if one.path == "/etc/sssd/sssd.conf")
    assert "ldap_schema = rfc2307\n" in conf and "simple_allow_groups = hpc\n" in conf


def test_quotas_and_homes_that_a_lab_lacks_are_named(rehearsal_of: Rehearsal) -> None:
    site = rehearsal_of(load(ROOT / "blueprints" / "campus.yaml", judged=True))
    (storage,) = (one for one in site.stand_ins if one.name == "storage")
    assert storage.short == "shared storage, quotas"
    assert storage.sentence.endswith(
        "; without the quotas of /disks, /homes, /projects; homes are on each node's own disk"
    )


@pytest.mark.parametrize(
    ("receiver", "names", "outside"),
    [
        ('{slack_channel: "#ops"}', "slack_channel", "slack"),
        ("{pagerduty: true}", "pagerduty", "pagerduty"),
        ('{webhooks: ["https://chat.example.org/hook"]}', "webhooks", "chat.example.org"),
        ("{mail: [a@example.org], mail_server: 'mail.example.org:587'}", "mail", "example.org"),
        (
            "{mail: [a@example.org], mail_server: 'mail.example.org:587', mail_user: x}",
            "mail, mail_user",
            "example.org",
        ),
    ],
)
def test_a_rehearsal_sends_alerts_to_nobody_and_needs_no_secret_for_it(
    receiver: str, names: str, outside: str, rehearsal_of: Rehearsal
) -> None:
    path = ROOT / "blueprints" / "campus.yaml"
    text = re.sub(r"  alertmanager: \{.*", f"  alertmanager: {receiver}", path.read_text())
    real = load(path, None, judged=True, instead={path: text})
    site = rehearsal_of(real)
    (said,) = (one.sentence for one in site.stand_ins if one.name == "what reaches outside")
    assert f"alertmanager has no {names}, and instead alertmanager.journal: true" in said
    assert "what reaches outside" in not_rehearsed(site.stand_ins, "")
    found = goal(site, make=False)
    (role,) = (role for role in found.desired.nodes["head01"] if role.role == "alertmanager")
    assert not [file.path for file in role.of(File) if file.secret is not None]
    (config,) = (found.desired.texts[one.text] for one in role.of(File) if one.path.endswith("/alertmanager.yml"))
    assert 'url: "http://127.0.0.1:9094/"' in config and outside not in config
    declared = site.cluster.rehearsed_variables["alertmanager"]
    kinds = {name for name, value in real.cluster.variables["alertmanager"].items() if isinstance(value, bool | tuple)}
    assert kinds | {"slack_channel", "mail_user"} == declared.keys()  # a new kind of receiver is rehearsed, too


def test_a_site_without_receivers_is_rehearsed_as_it_is(rehearsal_of: Rehearsal) -> None:
    path = ROOT / "blueprints" / "campus.yaml"
    text = re.sub(r"  alertmanager: \{.*", "  alertmanager: {repeat_h: 3}", path.read_text())
    site = rehearsal_of(load(path, None, judged=True, instead={path: text}))
    assert "what reaches outside" not in {one.name for one in site.stand_ins}
