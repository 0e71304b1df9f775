"""What a machine is, by its controller; odd parts are left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.metal.bmc import BmcError, Login
from hpcforge.metal.bmc import read_machine as reader
from hpcforge.metal.bmc.read_machine import read_machine
from hpcforge.metal.bmc.redfish import Redfish
from hpcforge.metal.machine_matching import Machine
from tests.support.fake_bmc import PASSWORD, ROOT, SYSTEM, USER, FakeBmc, Reply, collection, serving
from tests.unit.metal.bmc.test_redfish import bmc

CHASSIS, DEVICES = f"{ROOT}/Chassis", f"{ROOT}/Chassis/1/PCIeDevices"
NICS = f"{SYSTEM}/EthernetInterfaces"
Resources = dict[str, object]


def test_all_that_is_asked_for(tmp_path: Path) -> None:
    fake = FakeBmc("AB12", ("02:00:00:00:00:01", "02:00:00:00:00:02"), 512, gpus=2)
    with bmc(tmp_path, fake) as controller:
        found = read_machine(controller, "c0ffee")
    assert (found.serial, found.macs, found.memory_gib, found.sockets) == ("AB12", fake.macs, 512, 2)
    assert found.gpus == ("NVIDIA H100", "NVIDIA H100")
    assert (found.maker, found.model, found.certificate) == ("hpcforge tests", "Test 1U", "c0ffee")


def test_a_controller_has_a_limit_for_all_that_it_is_asked(tmp_path: Path) -> None:
    with serving(tmp_path, [FakeBmc()]) as at:
        controller = Redfish(Login(at.addresses[0], USER, PASSWORD, at.port, at.certificate), limit_s=0.0)
        with pytest.raises(BmcError, match="more than 0 s") as raised:
            read_machine(controller, None)
    assert raised.value.reason == "unreachable"


def test_odd_values_are_left_out(tmp_path: Path) -> None:
    fake = FakeBmc("A\x1b[2JB" + "9" * 500, ("02-00-00-00-00-01", "no mac", "00:00:00:00:00:00"), float("-inf"))
    with bmc(tmp_path, fake) as controller:
        found = read_machine(controller, None)
    assert found.macs == ("02:00:00:00:00:01",)
    assert found.memory_gib is None
    assert found.serial.startswith("A[2JB") and len(found.serial) <= 64


def linked(path: str) -> dict[str, str]:
    return {"@odata.id": path}


def root(fake: FakeBmc, *more: str) -> dict[str, object]:
    """A service root with chassis and these lists."""
    return {**fake.get(ROOT), "Chassis": linked(CHASSIS), **{name: linked(f"{ROOT}/{name}") for name in more}}


def members(path: str, **resources: object) -> Resources:
    """A collection and its members by name."""
    listed = {f"{path}/{name}": resource for name, resource in resources.items()}
    return {path: collection(*listed), **listed}


def with_chassis(fake: FakeBmc, **chassis: dict[str, object]) -> FakeBmc:
    fake.resources |= {ROOT: root(fake), **members(CHASSIS, **chassis)}
    return fake


def read(folder: Path, fake: FakeBmc) -> Machine:
    with bmc(folder, fake) as controller:
        return read_machine(controller, None)


# The forms of NVIDIA's DGX H100 and GB200 (github.com/NVIDIA/libredfish): GPUs are processors of a second system.
def test_gpus_of_a_baseboard_that_is_a_system_of_its_own(tmp_path: Path) -> None:
    fake, board = FakeBmc(does=("several-systems",)), f"{ROOT}/Systems/HGX_0/Processors"
    gpu = {"ProcessorType": "GPU", "Model": "H100 80GB HBM3", "Status": {"State": "Enabled"}}
    absent = {**gpu, "Status": {"State": "Absent"}}
    fake.resources = {
        f"{ROOT}/Systems/HGX_0": {"Name": "HGX_0", "Processors": linked(board), "Boot": {"BootOrder": []}},
        **members(board, a=gpu, b={"ProcessorType": "GPU", "Model": None}, c=absent, d={"ProcessorType": "FPGA"}),
    }
    assert read(tmp_path, fake).gpus == ("H100 80GB HBM3", "GPU")


ACCELERATOR = {"ProcessorType": "Accelerator", "Status": {"State": "Enabled"}}


# ProcessorType as DSP2046 lists it: OpenBMC had GPUs as accelerators first (github.com/ibm-openbmc/dev/issues/280).
@pytest.mark.parametrize(
    ("processor", "models"),
    [
        ({"Manufacturer": "AMD", "Model": "AMD Instinct MI300X"}, ("AMD Instinct MI300X",)),
        ({"Model": "MI355X-O"}, ("MI355X-O",)),
        ({"Manufacturer": "Intel", "Model": "HL-325L", "Name": "Gaudi3 OAM"}, ("HL-325L",)),
        ({"Manufacturer": "NVIDIA Corporation", "Model": "H200 141GB"}, ("H200 141GB",)),
        ({"ProcessorType": "OEM", "Model": "NVIDIA B200"}, ("NVIDIA B200",)),
        ({"Model": "Instinct MI300X", "Status": {"State": "Absent"}}, ()),
        ({"ProcessorType": "FPGA", "Model": "Alveo U280"}, ()),
        ({"ProcessorType": "CPU", "Model": "AMD Instinct MI300A"}, ()),
    ],
)
def test_gpus_that_are_listed_as_accelerators(tmp_path: Path, processor: Resources, models: tuple[str, ...]) -> None:
    fake = FakeBmc(on=True)
    fake.resources |= members(f"{SYSTEM}/Processors", a={**ACCELERATOR, **processor})
    machine = read(tmp_path, fake)
    assert (machine.gpus, machine.notes) == (models, ())


def test_an_accelerator_that_is_no_gpu_is_named(tmp_path: Path) -> None:
    fake, other = FakeBmc(on=True), {**ACCELERATOR, "Model": "BlueField-3", "Manufacturer": "NVIDIA Corporation"}
    fake.resources |= members(f"{SYSTEM}/Processors", a=other, b=other, c={**ACCELERATOR, "Model": None})
    machine = read(tmp_path, fake)
    assert machine.gpus == ()
    assert machine.notes == ("accelerators that do not count as GPUs: 2 x BlueField-3, 1 x no model",)


def test_a_summary_that_counts_gpus_as_processors_is_corrected(tmp_path: Path) -> None:
    fake = FakeBmc(gpus=8, does=("processors-with-gpus",))
    with bmc(tmp_path, fake) as controller:
        assert read_machine(controller, None).sockets == 2
        assert "processors-with-gpus" in controller.quirks
        fake.replies[f"{SYSTEM}/Processors/1"] = Reply(500)  # a list that is not whole corrects nothing
        assert read_machine(controller, None).sockets == 10


# Supermicro SYS-821GE has names alone; a DGX H100's own chassis PCI vendor and class alone, beside a console.
@pytest.mark.parametrize(
    ("devices", "functions", "models"),
    [
        ({"GPU1": {"Id": "GPU1", "Model": "H100"}, "NIC1": {"Id": "NIC1", "Description": "NIC device"}}, {}, ("H100",)),
        (
            {"a": {"Model": None}, "b": {}, "c": {}, "d": {}},
            {"a": ("0x10DE", "DisplayController"), "b": ("0x1a03", "DisplayController"), "c": ("0x10de", "Bridge"),
             "d": ("0x1002", "ProcessingAccelerators")},
            ("GPU", "GPU"),
        ),
        ({"GPU1": {"Id": "GPU1", "Status": {"State": "Absent"}}, "b": {"Name": "GPUDirect"}}, {}, ()),
    ],
)  # fmt: skip
def test_gpus_among_the_pcie_devices_of_a_chassis(
    tmp_path: Path, devices: Resources, functions: dict[str, tuple[str, str]], models: tuple[str, ...]
) -> None:
    fake = with_chassis(FakeBmc(on=True), **{"1": {"PCIeDevices": linked(DEVICES)}})
    devices = dict(devices)
    for name, (vendor, kind) in functions.items():
        path = f"{DEVICES}/{name}/PCIeFunctions"
        fake.resources |= members(path, **{"0": {"VendorId": vendor, "DeviceClass": kind}})
        devices[name] = {**devices[name], "PCIeFunctions": linked(path)}  # type: ignore[dict-item]
    fake.resources |= members(DEVICES, **devices)
    assert read(tmp_path, fake).gpus == models


def test_a_search_for_gpus_ends_and_the_rest_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PART_S", 0.0)
    fake = with_chassis(FakeBmc("SN5"), **{"1": {"PCIeDevices": linked(DEVICES)}})
    fake.resources |= members(DEVICES, GPU1={"Id": "GPU1"})
    machine = read(tmp_path, fake)
    assert (machine.serial, machine.gpus) == ("SN5", None)
    assert "GPUs: to read them takes more than 0 s" in machine.notes


def test_a_list_that_is_not_whole_counts_nothing(tmp_path: Path) -> None:
    fake = FakeBmc(gpus=4, macs=("3c:ec:ef:00:00:01", "3c:ec:ef:00:00:02"))
    for path in (f"{SYSTEM}/Processors/3", f"{NICS}/1"):
        fake.replies[path] = Reply(500)
    machine = read(tmp_path, fake)
    assert (machine.gpus, machine.macs, machine.more_macs) == (None, ("3c:ec:ef:00:00:01",), True)
    assert len(machine.notes) == 2


@pytest.mark.parametrize(
    "own", ["", "To be filled by O.E.M.", "Default string", "0000000", "N/A", "System Serial Number", None]
)
def test_a_serial_number_falls_back_to_the_chassis(tmp_path: Path, own: str | None) -> None:
    fake = FakeBmc()
    system = {
        **fake.system(),
        "SerialNumber": own,
        "Manufacturer": None,
        "Model": "",
        "Links": {"Chassis": [linked(f"{CHASSIS}/B")]},
    }
    fake.resources[SYSTEM] = system
    with_chassis(
        fake,
        B={"ChassisType": "Component", "SerialNumber": "BOARD1", "Model": "Board"},
        R={"ChassisType": "Component", "SerialNumber": "RISER1"},
        S={"ChassisType": "Shelf", "SerialNumber": "SHELF1", "Model": "GB200 NVL", "Manufacturer": "NVIDIA"},
    )
    machine = read(tmp_path, fake)
    assert (machine.serial, machine.maker, machine.model) == ("SHELF1", "NVIDIA", "GB200 NVL")
    fake.resources[f"{CHASSIS}/S"] = {"ChassisType": "Shelf", "SerialNumber": "N/A"}
    assert read(tmp_path, fake).serial == "BOARD1"


@pytest.mark.parametrize(
    ("on", "memory", "sockets", "notes"),
    [
        (False, 0, 0, ("memory and processors: not told while it is off",)),
        (False, 0, 2, ("memory: not told while it is off",)),
        (False, None, None, ("memory and processors: not told while it is off",)),
        (False, 64, 2, ()),
        (True, 0, 2, ("memory: not told",)),
        (True, None, None, ("memory and processors: not told",)),
        (True, "512 GB", "2", ("memory and processors: not told",)),
        (True, 524288, 2, ("memory: 524288 GiB is more than a machine has", "memory: not told")),
    ],
)
def test_nothing_is_no_fact(tmp_path: Path, on: bool, memory: object, sockets: object, notes: tuple[str]) -> None:
    fake = FakeBmc(on=on)
    parts = {"MemorySummary": {"TotalSystemMemoryGiB": memory}, "ProcessorSummary": {"Count": sockets}, "Memory": None}
    fake.resources[SYSTEM] = {**fake.system(), **parts}
    machine = read(tmp_path, fake)
    assert (machine.memory_gib, machine.sockets) == (64 if memory == 64 else None, 2 if sockets == 2 else None)
    assert (machine.notes, machine.equipment) == (notes, "")
    assert machine.gpus == (() if on else None)


@pytest.mark.parametrize("serial", [None, "N/A", 12345610])
def test_what_would_tell_a_machine_from_others_is_named_where_it_lacks(tmp_path: Path, serial: object) -> None:
    fake = FakeBmc(macs=("ff:ff:ff:ff:ff:ff",))
    fake.resources[SYSTEM] = {**fake.system(), "SerialNumber": serial}
    machine = read(tmp_path, fake)
    assert (machine.serial, machine.macs) == ("", ())
    assert machine.notes == ("serial number: not reported", "MAC addresses: not reported")


def test_memory_in_decimal_is_the_sum_of_the_dimms(tmp_path: Path) -> None:
    fake = FakeBmc(memory_gib=512, does=("decimal-memory",))
    with bmc(tmp_path, fake) as controller:
        assert read_machine(controller, None).memory_gib == 512
        assert "decimal-memory" in controller.quirks
        fake.replies[f"{SYSTEM}/Memory/3"] = Reply(500)  # a list that is not whole corrects nothing
        assert read_machine(controller, None).memory_gib == pytest.approx(476.837, abs=0.001)


DIMM = {"CapacityMiB": 65536, "MemoryDeviceType": "DDR5", "Status": {"State": "Enabled"}}


# Of a DIMM that is missing or mapped out, of persistent memory and of a GPU's, the system has nothing.
@pytest.mark.parametrize(
    ("summary", "others", "memory_gib"),
    [
        (None, [], 128),
        ({"TotalSystemMemoryGiB": None}, [DIMM], 192),
        ({"TotalSystemMemoryGiB": "128 GB"}, [{**DIMM, "Status": {"State": "Absent"}}], 128),
        ({"TotalSystemMemoryGiB": 0}, [{**DIMM, "Status": {"State": "Disabled"}}], 128),
        ({"TotalSystemMemoryGiB": 131072}, [{**DIMM, "CapacityMiB": None}], 128),
        (None, [{**DIMM, "MemoryType": "IntelOptane"}, {**DIMM, "MemoryDeviceType": "HBM3"}], 128),
        ({"TotalSystemMemoryGiB": 120}, [], 120),  # the firmware keeps some, and a whole number is believed
        ({"TotalSystemMemoryGiB": 119.2}, [], 128),
        ({"TotalSystemMemoryGiB": 127.5}, [], 127.5),
        ({"TotalSystemMemoryGiB": 59.6}, [], 59.6),  # half of its DIMMs are not in use
    ],
)
def test_memory_is_that_of_the_dimms_where_the_summary_has_none(
    tmp_path: Path, summary: object, others: list[Resources], memory_gib: float
) -> None:
    fake = FakeBmc(on=True)
    fake.resources[SYSTEM] = {**fake.system(), "MemorySummary": summary}
    dimms = {str(number): dimm for number, dimm in enumerate([DIMM, DIMM, *others])}
    fake.resources |= members(f"{SYSTEM}/Memory", **dimms)
    assert read(tmp_path, fake).memory_gib == memory_gib


def test_dimms_are_not_read_where_the_summary_may_be_right(tmp_path: Path) -> None:
    fake = FakeBmc(memory_gib=512)
    assert read(tmp_path, fake).memory_gib == 512
    assert not [request for request in fake.asked if "/Memory" in request]


WHOLE = {"MemorySummary": {"TotalSystemMemoryGiB": 32}, "ProcessorSummary": {"Count": 1}}


# As NVIDIA's BlueField-3 and GB200 switch tray answer (libredfish); a shelf and a cooling unit as DSP2046 has them.
@pytest.mark.parametrize(
    ("system", "chassis", "lists", "equipment"),
    [
        ({"Name": "Bluefield", "Model": "BlueField-3 SmartNIC Main Card"}, {}, (), "DPU"),
        ({"SystemType": "DPU", "MemorySummary": {"TotalSystemMemoryGiB": 32}}, {}, (), "DPU"),
        ({"Model": "N5110_LD"}, {"MGX_NVSwitch_0": {"Id": "MGX_NVSwitch_0"}}, (), "NVSwitch tray"),
        # NVIDIA's P3809 is on trays and on servers (github.com/dsx-ai-factory/libredfish/pull/3).
        ({"Model": "P4978", **WHOLE}, {"MGX_NVSwitch_0": {"Id": "MGX_NVSwitch_0"}}, (), "NVSwitch tray"),
        ({"Model": "DGXH100", **WHOLE}, {"HGX_NVSwitch_0": {"Id": "HGX_NVSwitch_0"}}, (), ""),
        ({"SystemType": "Virtual", **WHOLE}, {}, (), "virtual system"),
        ({"SystemType": "OS", **WHOLE}, {}, (), "virtual system"),
        ({"SystemType": "Composed", "Model": "OS Virtual", **WHOLE}, {}, (), ""),
        ({"Model": "X"}, {}, (), "no server"),
        (None, {"1": {"ChassisType": "Shelf"}}, ("PowerEquipment",), "power shelf"),
        (None, {}, ("ThermalEquipment",), "cooling unit"),
        (None, {"1": {"Name": "Chassis", "Model": "CDU-1"}}, (), "cooling unit"),
        (None, {}, (), "no server"),
    ],
)
def test_a_controller_of_no_server_is_named_by_what_it_is(
    tmp_path: Path,
    system: Resources | None,
    chassis: dict[str, dict[str, object]],
    lists: tuple[str, ...],
    equipment: str,
) -> None:
    fake = FakeBmc(on=True)
    none = {"MemorySummary": {"TotalSystemMemoryGiB": 0}, "ProcessorSummary": {"Count": 0}, "Processors": None}
    none["Memory"] = None
    fake.resources = {SYSTEM: {**fake.system(), "Model": "", **none, **(system or {})}}
    with_chassis(fake, **chassis)
    fake.resources[ROOT] = root(fake, *lists)
    if system is None:
        fake.resources[ROOT].pop("Systems")
    assert read(tmp_path, fake).equipment == equipment


def test_a_server_that_is_off_is_no_equipment(tmp_path: Path) -> None:
    fake = FakeBmc()
    none = {"MemorySummary": {"TotalSystemMemoryGiB": 0}, "ProcessorSummary": {"Count": 0}}
    fake.resources[SYSTEM] = {**fake.system(), **none}
    with_chassis(fake, HGX_NVSwitch_0={"Id": "HGX_NVSwitch_0"}, Riser_BlueField={"Id": "Riser_BlueField"})
    assert read(tmp_path, fake).equipment == ""
