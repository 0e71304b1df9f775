"""Every server in every template, and every name of a GPU in every number, is a blueprint that validates."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.catalog import load_catalog
from hpcforge.cluster import Loaded, load
from hpcforge.starter.draft import OF_MACHINES, Answers, draft, templates
from hpcforge.starter.hardware import chassis_for, inherited, machine_hardware, server_hardware
from hpcforge.starter.machines import SiteFile, SiteMachine, StarterError

CATALOG = load_catalog()
TEMPLATES = templates()
FACTS = ("sockets", "cores_per_socket", "threads_per_core", "memory_gib")
# Types of GPUs in gres.conf and in job scripts of public repositories, names that drivers have (NVML, with _ for blanks
# as AutoDetect writes them), and words that name a generation or nothing. A test of each number is in one blueprint.
NAMES = (
    "", "gpu", "tesla", "ampere", "volta", "titanx", "a100", "tesla_a100", "nvidia_a100", "a100-sxm4-80gb", "a100_80gb",
    "nvidia_a100-pcie-40gb", "nvidia_a100_80gb_pcie", "a100x", "h100", "H800", "nvidia_h100_pcie", "nvidia_h100_nvl",
    "nvidia_h100_80gb_hbm3", "h200", "nvidia_h200_nvl", "v100", "v100s", "tesla_v100-sxm2-16gb", "V100-SXM3", "t4",
    "rtx6000", "quadro_rtx_6000", "rtxa5000", "a6000", "nvidia_rtx_a6000", "nvidia_a40", "a30", "l4", "l40", "l40s",
    "rtx4090", "geforce_rtx_3090", "NVIDIA RTX 6000 Ada Generation", "2080ti", "p100", "k80", "mi100", "mi210", "mi250",
    "mi250x", "amd_instinct_mi250x", "mi300x", "mi300a", "gfx90a", "gh200", "nvidia_gh200_480gb", "gb200", "b200",
    "nvidia_b200", "x" * 80, "../x y", "null", "on", "8", "1e5", "0x1f",
)  # fmt: skip


def loaded(folder: Path, texts: tuple[str, str]) -> Loaded:
    instead = dict(zip((folder / "first.yaml", folder / "first.inventory.yaml"), texts, strict=True))
    return load(folder / "first.yaml", judged=True, instead=instead)  # raises what is wrong


@pytest.mark.parametrize("template", [name for name in TEMPLATES if name != OF_MACHINES])
@pytest.mark.parametrize("server", [name for name in CATALOG.servers if CATALOG.servers[name].nvlink_domain is None])
def test_every_server_in_every_template_is_a_blueprint_without_a_complaint(
    template: str, server: str, tmp_path: Path
) -> None:
    chosen = TEMPLATES[template]
    answers = Answers("first", "first.internal", "ops", "10.20.0.0/22", chosen.workers, server)
    texts = draft(chosen, answers, "first.inventory.yaml")
    site = loaded(tmp_path, texts)
    assert [entry.message for entry in site.diagnostics if "CABLE-002" not in entry.message] == []
    unknown = {fact for fact in FACTS if getattr(CATALOG.servers[server], fact) is None}
    guessed = {line.split(":")[0].strip() for line in texts[0].splitlines() if "# guess" in line}
    assert unknown <= guessed
    takes_gpus = (
        CATALOG.servers[server].gpus or CATALOG.servers[server].gpu_form_factors or CATALOG.servers[server].gpus_max
    )
    assert bool(takes_gpus) == any(node.gpus for node in site.cluster.nodes)


@pytest.mark.parametrize("template", [name for name in TEMPLATES if TEMPLATES[name].hardware])
def test_a_processor_that_a_template_names_fits_its_chassis(template: str) -> None:
    for entry in TEMPLATES[template].hardware.values():
        server = inherited(entry, CATALOG)
        assert server.cpu
        cpu = CATALOG.cpus[server.cpu]
        assert (cpu.socket, cpu.cores, cpu.threads_per_core) == (
            server.cpu_socket, server.cores_per_socket, server.threads_per_core,
        )  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_a_gpu_is_a_blueprint_that_validates(name: str, tmp_path: Path) -> None:
    sizes = ((2, 56, 2, 2014), (1, 16, 1, 64), (None, None, None, None))
    machines = [
        SiteMachine(f"g{count}{index}", None, ("worker",), *size, gpu=name or None, gpus=count, guesses=())
        for count in (*range(1, 9), 16)
        for index, size in enumerate(sizes)
    ]
    answers = Answers("first", "first.internal", "ops", "10.20.0.0/22", 0, "")
    site = loaded(tmp_path, draft(TEMPLATES[OF_MACHINES], answers, "first.inventory.yaml", SiteFile(tuple(machines))))
    assert [entry.message for entry in site.diagnostics] == []
    assert {node.name: node.gpus.count for node in site.cluster.nodes if node.gpus} == {
        machine.name: machine.gpus for machine in machines
    }
    liquid = {node.gpus.model for node in site.cluster.nodes if node.gpus} & {"a100-80-station"}
    assert liquid == set()


@pytest.mark.parametrize(
    ("model", "count", "chassis"),
    [
        ("a100-80", 4, "supermicro-4124go-nart"),
        ("a100-80-station", 4, "dgx-station-a100"),  # cooled by liquid
        ("l40s", 8, "supermicro-421ge-tnrt"),
        ("l40s", 14, None),  # more than it has slots
        ("v100-sxm2", 4, None),
        ("mi300x", 4, "supermicro-8125gs-tnmr2"),
    ],
)
def test_a_chassis_takes_form_factor_cooling_and_number(model: str, count: int, chassis: str | None) -> None:
    assert chassis_for(CATALOG.gpus[model], count, CATALOG) == chassis


@pytest.mark.parametrize(
    ("gpu", "size", "server"),
    [
        ("h100", (2, 56, 2, 2014), "dgx-h100"),  # firmware keeps some memory
        ("h100", (2, 56, 1, 2014), None),  # one thread of each core
        ("h100", (2, 56, 2, 1855), None),
        ("h100", (2, 56, 2, 2100), None),  # more than the server has
        ("h100", (2, 56, None, None), "dgx-h100"),
        ("a100", (2, 64, 1, 976), None),
        ("a100-sxm4-40gb", (2, 64, 1, 976), None),
    ],
)
def test_a_server_of_the_catalog_has_the_numbers_of_the_file(
    gpu: str, size: tuple[int | None, ...], server: str | None
) -> None:
    """What the file states is in the blueprint: a worker with less than Slurm is told stays drained."""
    hardware = machine_hardware(SiteMachine("g1", None, ("worker",), *size, gpu=gpu, gpus=8, guesses=()), CATALOG)
    if server:
        assert (hardware.name, hardware.entry) == (server, "")
    else:
        for fact, value in zip(FACTS, size, strict=True):
            assert f"{fact}: {value}" in hardware.entry


def test_a_number_of_threads_that_is_a_guess_is_compared_with_no_server() -> None:
    machine = SiteMachine("g1", None, ("worker",), 2, 56, 1, 2014, gpu="h100", gpus=8, guesses=("threads",))
    assert machine_hardware(machine, CATALOG).name == "dgx-h100"


def test_where_no_chassis_fits_the_line_has_it() -> None:
    machine = SiteMachine("g1", gpu="v100-sxm2", gpus=4, guesses=())
    hardware = machine_hardware(machine, CATALOG)
    assert "like" not in hardware.entry
    assert "the catalog has no chassis for these GPUs" in hardware.guesses


def test_gpus_of_kinds_that_no_one_driver_runs_have_no_driver_in_the_blueprint(tmp_path: Path) -> None:
    machines = [SiteMachine(f"g{index}", gpu=gpu, gpus=2) for index, gpu in enumerate(("v100-pcie", "b200", "mi300x"))]
    answers = Answers("first", "first.internal", "ops", "10.20.0.0/22", 0, "")
    text, inventory = draft(TEMPLATES[OF_MACHINES], answers, "first.inventory.yaml", SiteFile(tuple(machines)))
    assert "preinstalled: {" not in text
    assert "# no driver here: name that of the nodes" in text
    assert loaded(tmp_path, (text, inventory)).cluster.nodes


@pytest.mark.parametrize(("fact", "value"), [("cores_per_socket", 900), ("gpus", 17), ("memory_gib", 70_000)])
def test_numbers_that_no_node_has_name_the_machine(fact: str, value: int) -> None:
    machine = SiteMachine("g07", **{fact: value})  # type: ignore[arg-type]
    with pytest.raises(StarterError, match=f"g07: .* is {value}, and a blueprint takes"):
        machine_hardware(machine, CATALOG)


def test_adapters_are_added_where_the_ports_of_a_server_do_not_carry_the_fabric() -> None:
    hardware, server, ports = server_hardware("supermicro-421ge-tnrt", {}, TEMPLATES["roce"].fabric, CATALOG)
    assert ports is not None
    assert (ports.links, ports.adapters, server.memory_gib) == (2, "2 x connectx-7-200g", 256)
    assert "nics: [2 x connectx-7-200g]   # guess" in hardware.entry
    _, _, own = server_hardware("dgx-a100", {}, TEMPLATES["nvlink"].fabric, CATALOG)
    assert own is not None
    assert (own.links, own.rate_gbps, own.switch, own.adapters) == (8, 200, "qm8700", "")


@pytest.mark.parametrize("gpus", [0, 2])
def test_a_machine_of_little_memory_is_a_virtual_one_and_no_rule_refuses_it(gpus: int, tmp_path: Path) -> None:
    machines = tuple(
        SiteMachine(name, f"10.3.0.{number}", (function,), 1, 2, 1, 4, "l40s" if gpus else None, gpus, ())
        for number, (name, function) in enumerate([("ctl", "head"), ("w1", "worker")], 10)
    )
    answers = Answers("a", "a.b", "ops", "10.3.0.0/24", 0, "")
    texts = draft(TEMPLATES[OF_MACHINES], answers, "first.inventory.yaml", SiteFile(machines))
    assert "like: generic-vm" in texts[0]
    assert "# guess: virtual machine" in texts[0]
    assert not [entry for entry in loaded(tmp_path, texts).diagnostics if entry.severity == "error"]
