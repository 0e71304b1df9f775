from __future__ import annotations

from collections.abc import Mapping

import pytest
from packaging.utils import parse_wheel_filename

from hpcforge.blueprint.sections.hardware import GUESS, CatalogEntry
from hpcforge.blueprint.values import counted
from hpcforge.catalog import ansible_wheel, load_catalog

CATALOG = load_catalog()


KINDS: tuple[Mapping[str, CatalogEntry], ...] = (
    CATALOG.servers, CATALOG.gpus, CATALOG.cpus, CATALOG.nics, CATALOG.drives, CATALOG.pdus, CATALOG.ups, CATALOG.racks,
    CATALOG.cables, CATALOG.switches,
)  # fmt: skip
NO_FACTS = {"description", "like", "sources", "vendor", "machine", "pcie_switched"}


def test_every_known_fact_of_hardware_has_a_source() -> None:
    for kind in KINDS:
        for name, entry in kind.items():
            for fact, value in entry.model_dump(exclude=NO_FACTS).items():
                known = fact in entry.sources or "*" in entry.sources
                assert value in (None, ()) or known, f"{name}: {fact}"


def test_every_entry_says_what_it_is() -> None:
    assert [name for kind in KINDS for name, entry in kind.items() if not entry.description] == []


def test_parts_of_servers_are_in_the_catalog() -> None:
    for name, server in CATALOG.servers.items():
        assert server.cpu is None or server.cpu in CATALOG.cpus, name
        for text, kind in [(t, CATALOG.nics) for t in server.nics] + [(t, CATALOG.drives) for t in server.nvme]:
            assert counted(text)[1] in kind, f"{name}: {text}"


def test_default_gpus_are_in_the_catalog() -> None:
    assert {server.gpus.model for server in CATALOG.servers.values() if server.gpus} <= set(CATALOG.gpus)


# Published lines and best measured values of one GPU: BF16 matmul in TFLOPS, memory in TB/s (stas00/ml-engineering;
# NVIDIA/DCGM's diagnostic, by SKU).
LINES: dict[str, dict[str, float]] = {
    "a100-80": {"bf16_dense_peak_tflops": 271, "memory_peak_tb_per_s": 1.173},
    "h100-sxm": {"bf16_dense_peak_tflops": 795, "memory_peak_tb_per_s": 1.905},
    "h200-sxm": {"bf16_dense_peak_tflops": 795, "memory_peak_tb_per_s": 2.333},
    "b200-sxm": {"bf16_dense_peak_tflops": 1745},
}


@pytest.mark.parametrize("name", LINES)
def test_what_is_measured_is_near_the_peak(name: str) -> None:
    for fact, line in LINES[name].items():
        assert 0.45 <= line / getattr(CATALOG.gpus[name], fact) <= 1.1, f"{name}: {fact}"


def test_a_server_takes_more_than_its_gpus_and_processors() -> None:
    for name, server in CATALOG.servers.items():
        gpu = CATALOG.gpus[server.gpus.model] if server.gpus else None
        cpu = CATALOG.cpus[server.cpu] if server.cpu else None
        gpus_w = server.gpus.count * gpu.tdp_w if server.gpus and gpu and gpu.tdp_w else 0
        cpus_w = server.sockets * cpu.tdp_w if server.sockets and cpu and cpu.tdp_w else 0
        assert server.max_w is None or gpus_w + cpus_w < server.max_w, name


def test_the_supplies_that_are_needed_carry_the_server_and_one_less_does_not() -> None:
    for name, server in CATALOG.servers.items():
        if server.psu and server.psu.needed and server.psu.rated_w and server.max_w:
            assert server.psu.count and server.psu.needed <= server.psu.count, name
            assert (server.psu.needed - 1) * server.psu.rated_w < server.max_w, name
            assert server.max_w <= server.psu.needed * server.psu.rated_w, name


def test_the_gpus_that_a_server_comes_with_fit_it() -> None:
    for name, server in CATALOG.servers.items():
        if server.gpus is None:
            continue
        gpu = CATALOG.gpus[server.gpus.model]
        assert server.gpus_max is None or server.gpus.count <= server.gpus_max, name
        assert server.gpu_form_factors is None or gpu.form_factor in server.gpu_form_factors, name
        assert server.gpu_cooling is None or gpu.cooling in server.gpu_cooling, name


def test_a_server_has_the_cores_of_its_processor() -> None:
    for name, server in CATALOG.servers.items():
        if server.cpu:
            cpu = CATALOG.cpus[server.cpu]
            assert (server.cores_per_socket, server.threads_per_core) == (cpu.cores, cpu.threads_per_core), name


def test_assumptions_are_in_models_that_nobody_sells() -> None:
    assumed = {
        name
        for kind in KINDS
        for name, entry in kind.items()
        if any(source.startswith("assumption of this project: ") for source in entry.sources.values())
    }
    generic = {"generic-1u", "generic-2u", "u2-nvme-3840", "u2-nvme-7680", "u2-nvme-15360", "pdu-400v-63a"}
    generic |= {"generic-48p-10g", "generic-32p-400g"}
    assert assumed == generic
    for name in ("generic-1u", "generic-2u"):
        sources = CATALOG.servers[name].sources.values()
        assert all(source.startswith("assumption of this project: ") for source in sources), name


GUESSED = {
    "h200-sxm": {"boost_mhz"}, "v100-sxm3": {"boost_mhz"}, "b200-sxm": {"boost_mhz"},
    "b300-sxm": {"boost_mhz", "tdp_w", "cooling", "pcie_lanes", "pcie_generation", "nvlinks"},
    "gb200": {"memory_peak_tb_per_s", "tdp_w"}, "rtxpro6000-server": {"boost_mhz", "driver_names"}, "grace": {"tdp_w"},
    "dell-r760xa": {"gpu_cooling"}, "dell-r760xa-l40s": {"gpu_cooling", "max_w"}, "dell-xe9680-h100": {"max_w"},
    "dell-xe9680-h200": {"max_w"}, "dell-xe9680-mi300x": {"max_w"}, "hpe-xd670": {"max_w"},
    "lenovo-sr675-v3-l40s": {"max_w"}, "lenovo-sr680a-v3-h200": {"max_w"}, "supermicro-421ge-tnrt-l40s": {"max_w"},
    "supermicro-4125gs-tnrt-l40s": {"max_w"}, "supermicro-8125gs-tnmr2-mi325x": {"max_w"}, "gb200-nvl72": {"limit_kg"},
    "pdu-400v-32a": {"amps"}, "apc-ap8886-415v": {"volts"}, "arista-7060x6-64pe": {"max_w", "mtu_max"},
    "arista-7050sx3-48yc8": {"mtu_max"}, "arista-7050dx4-32s": {"mtu_max"}, "dell-s5248f-on": {"mtu_max"},
    "dell-z9332f-on": {"mtu_max"}, "dell-z9864f-on": {"mtu_max"},
}  # fmt: skip


def test_numbers_that_are_not_published_are_called_a_guess_with_the_reason() -> None:
    found = {
        name: {fact for fact, source in entry.sources.items() if source.startswith(GUESS)}
        for kind in KINDS
        for name, entry in kind.items()
    }
    assert {name: facts for name, facts in found.items() if facts} == GUESSED


def test_every_gpu_has_a_clock_and_those_of_nvidia_a_compute_capability() -> None:
    """By the table of https://developer.nvidia.com/cuda-gpus, and of the older ones beside it."""
    of_architecture = {"volta": "7.0", "turing": "7.5", "ampere": "8.0", "ada": "8.9", "hopper": "9.0"}
    for name, gpu in CATALOG.gpus.items():
        assert (gpu.boost_mhz is None) == (name == "fake"), name
        assert gpu.base_mhz is None or (gpu.boost_mhz and gpu.base_mhz < gpu.boost_mhz), name
        assert (gpu.compute_capability is not None) == (gpu.vendor == "nvidia"), name
        if gpu.architecture in of_architecture:
            assert gpu.compute_capability == of_architecture[gpu.architecture], name
    blackwell = {"b200-sxm": "10.0", "gb200": "10.0", "b300-sxm": "10.3", "rtxpro6000-server": "12.0"}
    assert {name: CATALOG.gpus[name].compute_capability for name in blackwell} == blackwell


def test_makers_can_be_chosen_from() -> None:
    def makers(rate: float) -> set[str]:
        return {
            (switch.description or "").split()[0]
            for switch in CATALOG.switches.values()
            if "ethernet" in (switch.protocols or ()) and any(ports.rate_gbps == rate for ports in switch.ports or ())
        } - {"An"}

    found = {rate: makers(rate) for rate in (25, 100, 400, 800)}
    assert [rate for rate, names in found.items() if len(names) < 3] == [], found
    pdus = [pdu.volts for pdu in CATALOG.pdus.values()]
    assert [volts for volts in (208, 230, 400, 415) if pdus.count(volts) < 2] == []
    assert {(400, 32), (415, 32)} <= {(pdu.volts, pdu.amps) for pdu in CATALOG.pdus.values()}


def test_racks_pdus_and_ups_are_plausible() -> None:
    for name, rack in CATALOG.racks.items():
        assert not (rack.mounting_depth_mm and rack.depth_mm) or rack.mounting_depth_mm < rack.depth_mm, name
        assert not (rack.weight_kg and rack.limit_kg) or rack.weight_kg < rack.limit_kg, name
    for name, pdu in CATALOG.pdus.items():
        assert (pdu.phases == 3) == (pdu.wiring is not None), name
    for name, ups in CATALOG.ups.items():
        assert not (ups.capacity_w and ups.capacity_va) or ups.capacity_w <= ups.capacity_va, name


def test_cables_reach_farther_in_the_order_they_are_chosen() -> None:
    order = ("twisted-pair", "dac", "aoc", "optics")
    by_rate: dict[float, list[tuple[int, float]]] = {}
    for name, cable in CATALOG.cables.items():
        assert cable.kind and cable.rate_gbps and cable.plugs, name
        if cable.kind == "adapter":
            assert cable.socket, name
            continue
        assert cable.reach_m and cable.lengths_m, name
        assert list(cable.lengths_m) == sorted(set(cable.lengths_m)), name
        assert (cable.kind == "optics") == (cable.fibre is not None), name
        by_rate.setdefault(cable.rate_gbps, []).append((order.index(cable.kind), cable.reach_m))
    assert set(by_rate) >= {1, 10, 25, 100, 200, 400, 800}
    for rate, cables in by_rate.items():
        chosen = [reach for kind, reach in sorted(cables) if kind]  # twisted pair serves ports of its own
        assert chosen == sorted(chosen), rate
    reach = {name: CATALOG.cables[name].reach_m for name in ("dac-400g", "aoc-400g")}
    assert reach == {"dac-400g": 3, "aoc-400g": 30}


def test_switches_are_plausible() -> None:
    for name, switch in CATALOG.switches.items():
        assert switch.protocols, name
        assert switch.ports, name
        for ports in switch.ports:
            assert ports.count % ports.per_cage == 0, name
            assert ports.rate_gbps in (1, 10, 25, 40, 50, 100, 200, 400, 800, 1600), name
        assert switch.max_w is None or switch.max_w < 10_000, name
        assert not (switch.psu and switch.psu.needed and switch.psu.count) or switch.psu.needed <= switch.psu.count, (
            name
        )


def test_switch_models_have_the_ports_that_makers_say() -> None:
    ports = {name: [(p.count, p.rate_gbps) for p in switch.ports or ()] for name, switch in CATALOG.switches.items()}
    assert ports["qm9700"] == ports["qm9790"] == [(64, 400)]
    assert ports["qm8700"] == ports["qm8790"] == [(40, 200)]
    assert ports["q3400"] == [(144, 800)]
    assert ports["sn2201"] == [(48, 1), (4, 100)]
    assert ports["sn4600"] == [(64, 200)]
    assert ports["sn5600"] == [(64, 800)]
    assert ports["sn2410"] == ports["arista-7050sx3-48yc8"] == [(48, 25), (8, 100)]
    assert ports["sn3420"] == [(48, 25), (12, 100)]
    assert ports["omni-path-100-48"] == [(48, 100)]


def test_what_a_builder_looks_for_is_there() -> None:
    servers = "dgx-a100 dgx-h100 dgx-h200 dgx-b200 dgx-station-a100 lambda-hyperplane-8-a100 supermicro-421ge-tnrt"
    servers += " supermicro-821ge-tnhr generic-1u generic-2u generic-vm rehearsal-node"
    servers += " dell-r760xa dell-xe9680-h200 hpe-dl380a-gen11 hpe-xd670 lenovo-sr675-v3 lenovo-sr680a-v3"
    servers += " supermicro-421ge-tnrt-l40s supermicro-4125gs-tnrt-l40s gb200-nvl72-tray"
    assert set(servers.split()) <= set(CATALOG.servers)
    gpus = "v100-sxm2 t4 a100-40 a100-40-pcie a100-80 h100-sxm h100-pcie h200-sxm b200-sxm b300-sxm gb200 l4 l40s"
    gpus += " rtxpro6000-server mi300x mi325x fake"
    assert set(gpus.split()) <= set(CATALOG.gpus)
    assert {"pdu-415v-32a", "pdu-400v-63a", "pdu-208v-60a", "pdu-230v-32a"} <= set(CATALOG.pdus)
    assert {rack.rack_units for rack in CATALOG.racks.values()} >= {42, 48, 52}
    assert len(CATALOG.ups) >= 2


def test_wheels_are_for_the_python_they_are_listed_under() -> None:
    for build in CATALOG.pytorch:
        suffix = "+cpu" if build.device == "cpu" else ""  # PyPI's are those for CUDA
        assert build.wheels[0].file.startswith(f"torch-{build.version}{suffix}-")
        assert (build.cuda is None) == (build.device == "cpu")
        python = f"cp{build.python.replace('.', '')}"
        for wheel in build.wheels:
            tags = wheel.file.removesuffix(".whl").split("-")[-3:]
            assert tags[0] in (python, "py3")
            assert tags[2] == "any" or build.arch in tags[2]
            assert tags[2] == "any" or min(map(_glibc, tags[2].split("."))) <= _number(build.libc)
        assert len({wheel.file.split("-")[0] for wheel in build.wheels}) == len(build.wheels)


def test_the_cuda_build_brings_its_runtime_and_is_the_same_for_every_python() -> None:
    of_cuda = [build for build in CATALOG.pytorch if build.device == "cuda"]
    assert {build.python for build in of_cuda} == {"3.11", "3.13"}
    for build in of_cuda:
        names = {wheel.file.split("-")[0]: wheel.file.split("-")[1] for wheel in build.wheels}
        assert _number(names["nvidia_cuda_runtime_cu12"])[:2] == _number(build.cuda or "")
        assert {"nvidia_nccl_cu12", "nvidia_cublas_cu12", "nvidia_cudnn_cu12", "triton"} <= set(names)
    anywhere = [{wheel for wheel in build.wheels if "-py3-none-" in wheel.file} for build in of_cuda]
    assert {wheel.file.split("-")[0] for wheel in anywhere[0] ^ anywhere[1]} == {"setuptools"}  # asked for from 3.12


def _glibc(platform: str) -> tuple[int, ...]:
    """The glibc that a manylinux tag stands for, as in PEP 600."""
    legacy = {"manylinux2010_x86_64": (2, 12), "manylinux2014_x86_64": (2, 17)}
    return legacy.get(platform) or tuple(map(int, platform.split("_")[1:3]))


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_builds_are_chosen_by_python_and_libc() -> None:
    debian_12, debian_13 = CATALOG.distributions["debian", "12"], CATALOG.distributions["debian", "13"]
    assert CATALOG.pytorch_build("2.13.0", "cpu", debian_12)
    assert CATALOG.pytorch_build("2.13.0", "cpu", debian_13) is None
    assert CATALOG.pytorch_build("2.13.0", "cpu", debian_12.model_copy(update={"libc": "2.27"})) is None
    assert CATALOG.pytorch_build("2.13.0", "cuda", debian_12) is None
    for system, python in ((debian_12, "cp311"), (debian_13, "cp313")):
        build = CATALOG.pytorch_build("2.10.0", "cuda", system)
        assert build and f"-{python}-" in build.wheels[0].file
    assert [build.version for build in CATALOG.pytorch_builds("cpu", debian_12)] == ["2.13.0"]
    assert CATALOG.pytorch_builds("rocm", debian_12) == ()


def test_the_wheel_of_collections_runs_anywhere() -> None:
    name, _version, _build, tags = parse_wheel_filename(ansible_wheel().wheel)
    assert name == "ansible"
    assert {str(tag) for tag in tags} == {"py3-none-any"}
