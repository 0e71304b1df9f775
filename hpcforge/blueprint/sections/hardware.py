"""Properties of hardware: the same words in the catalog and under `hardware:` and `parts:` of a blueprint.

Every fact may be unknown: leave it out, or write null. Units are in the names. `sources` says where each fact is
published (`*`: all of the others); in the catalog every known fact has one. `like:` starts from another entry.

Where NetBox's devicetype-library has a field, the fact is that field: `u_height` is rack_units, `weight` weight_kg,
`airflow` airflow, `power-ports[].type` psu.inlet (iec-60320-c20 is c20), `maximum_draw` max_w,
`power-outlets[].type` outlets, `interfaces[]` ports, `module-bays` of the kind GPU gpus_max; a rack type's
`max_weight` is limit_kg and its `mounting_depth` mounting_depth_mm.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler
from pydantic_core import core_schema

from hpcforge.blueprint import values as v
from hpcforge.blueprint.section import Section
from hpcforge.blueprint.sections.gpus import MigProfile, MigShape

GUESS = "guess: "  # prefix of the source of an unpublished number; its reason follows
FormFactor = Literal["sxm2", "sxm3", "sxm4", "sxm5", "sxm6", "oam", "pcie", "superchip"]
GpuCooling = Literal["passive", "active", "liquid"]  # passive: cooled by the chassis's fans
Inlet = Literal["c14", "c16", "c20", "c22", "busbar"]  # IEC 60320, except the busbar
Outlet = Literal["c13", "c15", "c19", "c21", "c13-c19"]  # c13-c19: takes either plug
Airflow = Literal["front-to-rear", "rear-to-front", "side-to-rear", "passive", "mixed"]
CableKind = Literal["twisted-pair", "dac", "aoc", "optics", "adapter"]  # optics: two transceivers and fibre
Phases = Annotated[Literal[1, 3], BeforeValidator(v.whole)]
_Watts = Annotated[v.Number, Field(ge=0, le=1_000_000)]
_Kilograms = Annotated[v.Number, Field(ge=0, le=10_000)]
_Millimetres = Annotated[v.Number, Field(ge=1, le=5_000)]
_Lanes = Annotated[v.Whole, Field(ge=1, le=1_024)]
_Count = Annotated[v.Whole, Field(ge=0, le=1_024)]
_Volts = Annotated[v.Number, Field(ge=1, le=1_000)]
_Generation = Annotated[v.Whole, Field(ge=1, le=9)]


class CatalogEntry(Section):
    """One model of something; facts that are not known are None."""

    description: v.Sentence | None = Field(None, description="What it is, in a sentence.")
    like: v.ModelName | None = Field(None, description="The model to start from; the values here replace its own.")
    sources: dict[v.Fact, v.Sentence] = Field({}, description="The source of each value, by its name; *: all others.")

    table: ClassVar[str]  # table of the catalog with models of this kind

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Say whose names `like` may have."""
        made = handler(schema)
        handler.resolve_ref_schema(made)["properties"]["like"] |= v.of_catalog(cls.table)
        return made


class GpusSection(Section):
    """The GPUs of one node."""

    model: Annotated[v.ModelName, v.OfCatalog("gpus")] = Field(
        description="GPU model in the catalog; fake: character devices that cannot compute."
    )
    count: v.Whole = Field(ge=1, le=16, description="GPUs in one node.")


class Supplies(Section):
    """The power supplies of one machine, all alike; each has one inlet, and they share the load equally."""

    count: v.Whole | None = Field(None, ge=1, le=32, description="Supplies fitted.")
    needed: v.Whole | None = Field(None, ge=1, le=32, description="Supplies that carry the machine at full load.")
    rated_w: _Watts | None = Field(None, description="Rated output of one supply, W.")
    efficiency: v.Number | None = Field(None, ge=0.5, le=1, description="Output divided by input at full load.")
    inlet: Inlet | None = Field(None, description="Inlet of each supply, IEC 60320.")
    volts_min: _Volts | None = Field(None, description="Lowest input voltage at which it gives its rated output, V.")
    volts_max: _Volts | None = Field(None, description="Highest input voltage, V.")


class Slots(Section):
    """PCIe slots that are alike."""

    count: v.Whole = Field(ge=1, le=64, description="Slots of this kind.")
    lanes: _Lanes = Field(description="PCIe lanes wired to each.")
    generation: _Generation | None = Field(None, description="PCIe generation.")


class Ports(Section):
    """Network ports that are alike."""

    count: v.Whole = Field(ge=1, le=256, description="Ports of this kind.")
    rate_gbps: v.Number = Field(ge=0.1, le=3_200, description="Rate of each port, Gb/s.")
    kind: Literal["ethernet", "infiniband", "either"] | None = Field(None, description="Link protocols of the ports.")
    connector: v.ModelName | None = Field(None, description="Cage or socket: rj45, sfp28, qsfp112, osfp.")


class Raid(Section):
    """Groups of drives that are alike, in each of which as many may fail as there are for parity."""

    data: v.Whole = Field(ge=1, le=256, description="Data drives of a group; 1: mirrors.")
    parity: v.Whole = Field(ge=0, le=8, description="Parity drives of a group: the number of drives that may fail.")
    groups: v.Whole | None = Field(
        None,
        ge=1,
        le=1_024,
        description="Number of groups; the other drives are spares or hold the system. Default: as many as fit.",
    )


class Server(CatalogEntry):
    """A server model."""

    table: ClassVar[str] = "servers"

    machine: Literal["metal", "virtual", "rehearsal"] = Field(
        "metal", description="What it is; virtual machines and rehearsals have no rack, power or cooling."
    )
    sockets: v.Whole | None = Field(None, ge=1, le=16, description="Processor sockets.")
    cores_per_socket: v.Whole | None = Field(None, ge=1, le=512, description="Cores in one socket.")
    threads_per_core: v.Whole | None = Field(None, ge=1, le=8, description="Hardware threads in one core.")
    memory_gib: v.Whole | None = Field(None, ge=1, le=65_536, description="Memory, GiB.")
    gpus: GpusSection | None = Field(None, description="Built-in GPUs.")
    gpus_max: _Count | None = Field(None, description="Highest number of GPUs in the chassis; 0: none.")
    gpu_form_factors: tuple[FormFactor, ...] | None = Field(None, description="Supported GPU form factors.")
    gpu_cooling: tuple[GpuCooling, ...] | None = Field(None, description="Supported cooling of GPUs.")
    nvswitch: v.Truth | None = Field(
        None, description="NVSwitches connect its GPUs, so it needs NVIDIA's Fabric Manager."
    )
    nvlink_domain: Literal["rack"] | None = Field(
        None, description="rack: NVLink connects the GPUs of all such nodes of a rack, which Slurm can have as a block."
    )
    cpu: Annotated[v.ModelName, v.OfCatalog("cpus")] | None = Field(None, description="Processor model in the catalog.")
    cpu_socket: v.ModelName | None = Field(None, description="Type of its processor sockets: sp3, sp5, lga4677.")
    rack_units: v.Whole | None = Field(None, ge=0, le=60, description="Height in rack units; 0: on the floor.")
    depth_mm: _Millimetres | None = Field(None, description="Depth of the chassis without cables, mm.")
    weight_kg: _Kilograms | None = Field(None, description="Weight as fitted, without packaging, kg.")
    max_w: _Watts | None = Field(None, description="Maximum power at its inlets, with all built-in parts, W.")
    other_w: _Watts | None = Field(
        None, description="Maximum power of board, memory and fans together, used where max_w is unknown, W."
    )
    psu: Supplies | None = Field(None, description="Power supplies.")
    cooling: Literal["air", "liquid"] | None = Field(None, description="How it is cooled.")
    airflow: Airflow | None = Field(None, description="Direction of airflow.")
    inlet_max_c: v.Number | None = Field(None, ge=0, le=100, description="Warmest air at its inlet, degrees Celsius.")
    pcie_slots: tuple[Slots, ...] | None = Field(None, description="PCIe slots for cards, GPUs included; []: none.")
    pcie_switched: v.Truth = Field(False, description="Cards share the lanes of the processors through PCIe switches.")
    ports: tuple[Ports, ...] | None = Field(
        None, description="Built-in network ports, without the BMC's and outside pcie_slots."
    )
    bmc_ports: _Count | None = Field(None, description="Ports of the management controller.")
    nics: Annotated[tuple[v.Counted, ...], v.ShortForm()] = Field(
        (), description="Adapters in pcie_slots: a count and a model in the catalog, or a rate, as in 2 x 200G."
    )
    nvme: Annotated[tuple[v.Counted, ...], v.ShortForm()] = Field(
        (), description="Drives: a count and a model in the catalog, or a size, as in 24 x 15.36TB."
    )
    raid: Raid | None = Field(None, description="RAID groups of a file server's drives.")


class Gpu(CatalogEntry):
    """A GPU model; vendor none: a rehearsal's stand-in."""

    table: ClassVar[str] = "gpus"

    vendor: Literal["none", "nvidia", "amd"] | None = Field(None, description="Who makes it.")
    architecture: Literal["volta", "turing", "ampere", "ada", "hopper", "blackwell", "cdna2", "cdna3"] | None = Field(
        None, description="The vendor's name of its architecture, which decides the supported drivers and libraries."
    )
    driver_names: tuple[v.Sentence, ...] | None = Field(
        None,
        description="Its name in the driver (NVML, nvidia-smi; for AMD the instruction set, gfx942); a list where "
        "the name changed.",
    )
    compute_capability: v.Version | None = Field(None, description="CUDA's compute capability, such as 9.0.")
    base_mhz: v.Number | None = Field(None, ge=1, le=10_000, description="Clock of its cores that it always has, MHz.")
    boost_mhz: v.Number | None = Field(None, ge=1, le=10_000, description="Highest clock of its cores, MHz.")
    memory_gb: v.Number | None = Field(None, ge=1, le=4_096, description="Memory as marketed, GB.")
    memory_peak_tb_per_s: v.Number | None = Field(None, ge=0, le=100, description="Peak memory bandwidth, TB/s.")
    bf16_dense_peak_tflops: v.Number | None = Field(
        None, ge=0, le=100_000, description="Peak BF16 rate without sparsity, TFLOPS."
    )
    bf16_measured_tflops: v.Number | None = Field(
        None, ge=0, le=100_000, description="Measured BF16 rate of a product of matrices, TFLOPS."
    )
    tdp_w: _Watts | None = Field(None, description="Maximum power, W.")
    form_factor: FormFactor | None = Field(None, description="Its form factor.")
    cooling: GpuCooling | None = Field(None, description="Its cooling; passive: the chassis's fans cool it.")
    pcie_lanes: _Lanes | None = Field(None, description="PCIe lanes to the host.")
    pcie_generation: _Generation | None = Field(None, description="PCIe generation.")
    slots_wide: v.Whole | None = Field(None, ge=1, le=4, description="Slots that a card occupies.")
    nvlink_gb_per_s: v.Number | None = Field(
        None, ge=0, le=100_000, description="All NVLinks of one GPU together, in one direction, GB/s."
    )
    nvlinks: v.Whole | None = Field(None, ge=1, le=36, description="Number of NVLinks of one GPU.")
    nvlink_reduces: v.Truth | None = Field(
        None, description="Its NVSwitches reduce data in the network (NVLink SHARP)."
    )
    mig: dict[MigProfile, MigShape] | None = Field(
        None, description="MIG profiles that it supports; none: it has no MIG."
    )


class Cpu(CatalogEntry):
    """A processor model."""

    table: ClassVar[str] = "cpus"

    socket: v.ModelName | None = Field(None, description="Type of socket that it fits: sp3, sp5, lga4677.")
    cores: v.Whole | None = Field(None, ge=1, le=512, description="Cores.")
    threads_per_core: v.Whole | None = Field(None, ge=1, le=8, description="Hardware threads in one core.")
    tdp_w: _Watts | None = Field(None, description="Maximum power, W.")
    pcie_lanes: _Lanes | None = Field(None, description="PCIe lanes of one processor in a machine with all sockets.")
    pcie_generation: _Generation | None = Field(None, description="PCIe generation.")
    memory_channels: v.Whole | None = Field(None, ge=1, le=64, description="Memory channels.")


class Nic(CatalogEntry):
    """A network adapter model."""

    table: ClassVar[str] = "nics"

    ports: tuple[Ports, ...] | None = Field(None, description="Network ports.")
    max_w: _Watts | None = Field(
        None, description="Maximum power, with transceivers where the source includes them, W."
    )
    pcie_lanes: _Lanes | None = Field(None, description="PCIe lanes.")
    pcie_generation: _Generation | None = Field(None, description="PCIe generation.")


class Drive(CatalogEntry):
    """A drive model."""

    table: ClassVar[str] = "drives"

    kind: Literal["nvme", "sata", "sas"] | None = Field(None, description="How it is attached.")
    capacity_gb: v.Number | None = Field(None, ge=1, le=1_000_000, description="Capacity, decimal gigabytes.")
    form_factor: v.ModelName | None = Field(None, description="Form factor: u.2, m.2-2280, e3.s.")
    read_gb_per_s: v.Number | None = Field(None, ge=0.001, le=1_000, description="Large reads, GB/s.")
    write_gb_per_s: v.Number | None = Field(
        None, ge=0.001, le=1_000, description="Sustained sequential write rate, GB/s."
    )
    max_w: _Watts | None = Field(None, description="Maximum power, W.")


class Pdu(CatalogEntry):
    """A rack power distribution unit. Breaker derating is a value of the site, never part of this."""

    table: ClassVar[str] = "pdus"

    volts: _Volts | None = Field(None, description="Input voltage: line to line of three phases, else of the one, V.")
    amps: v.Number | None = Field(None, ge=1, le=1_000, description="Rating of its input per line, before derating, A.")
    phases: Phases | None = Field(None, description="Phases, 1 or 3.")
    wiring: Literal["wye", "delta"] | None = Field(
        None, description="Outlets between line and neutral (wye), or between two lines (delta); three phases only."
    )
    plug: v.Sentence | None = Field(None, description="Input plug, as the maker calls it.")
    outlets: dict[Outlet, Annotated[v.Whole, Field(ge=1, le=128)]] | None = Field(
        None, description="Outlets by kind, IEC 60320."
    )
    rack_units: v.Whole | None = Field(None, ge=0, le=10, description="Height in rack units; 0: it stands upright.")
    weight_kg: _Kilograms | None = Field(None, description="Weight, kg.")


class RunTime(Section):
    """A point of a published run-time curve."""

    load_w: _Watts = Field(description="Load, W.")
    minutes: v.Number = Field(ge=0, le=10_000, description="Run time, minutes.")


class Ups(CatalogEntry):
    """An uninterruptible power supply."""

    table: ClassVar[str] = "ups"

    capacity_va: v.Number | None = Field(None, ge=1, le=10_000_000, description="Rated apparent power, VA.")
    capacity_w: v.Number | None = Field(None, ge=1, le=10_000_000, description="Rated power, W.")
    battery_wh: v.Number | None = Field(None, ge=1, le=100_000_000, description="Usable energy of its battery, Wh.")
    run_times: tuple[RunTime, ...] | None = Field(None, description="Published run times, by load.")
    efficiency: v.Number | None = Field(None, ge=0.5, le=1, description="Output divided by input or battery energy.")
    phases: Phases | None = Field(None, description="Phases, 1 or 3.")
    rack_units: v.Whole | None = Field(None, ge=0, le=60, description="Height in rack units; 0: on the floor.")
    weight_kg: _Kilograms | None = Field(None, description="Weight, kg.")


class RackModel(CatalogEntry):
    """A rack model."""

    table: ClassVar[str] = "racks"

    rack_units: v.Whole | None = Field(None, ge=1, le=60, description="Rack units to mount in.")
    depth_mm: _Millimetres | None = Field(None, description="Outer depth, mm.")
    width_mm: _Millimetres | None = Field(None, description="Outer width, mm.")
    mounting_depth_mm: _Millimetres | None = Field(None, description="Deepest machine that fits inside, mm.")
    limit_kg: _Kilograms | None = Field(None, description="Static load limit, kg.")
    weight_kg: _Kilograms | None = Field(None, description="Weight of the empty rack, kg.")
    pdu_mounts: _Count | None = Field(None, description="Places for upright PDUs.")


class CableModel(CatalogEntry):
    """A kind of cable at one rate."""

    table: ClassVar[str] = "cables"

    kind: CableKind | None = Field(
        None,
        description="What it is; optics: fibre, with a transceiver at each end; adapter: no cable, but takes a plug "
        "that a cage does not.",
    )
    rate_gbps: v.Number | None = Field(None, ge=0.1, le=3_200, description="Link rate, Gb/s.")
    protocols: tuple[Literal["infiniband", "ethernet", "omni-path"], ...] | None = Field(
        None, description="Supported protocols; roce is Ethernet. Default: all at its rate."
    )
    plugs: tuple[v.ModelName, ...] | None = Field(
        None, description="Plugs that it is sold with, one at each end, as `connector` of ports. Default: not checked."
    )
    socket: v.ModelName | None = Field(None, description="Cage inside an adapter, as `connector` of ports.")
    reach_m: v.Number | None = Field(None, ge=0.1, le=100_000, description="Maximum length, m.")
    lengths_m: tuple[Annotated[v.Number, Field(ge=0.1, le=100_000)], ...] | None = Field(
        None, description="Available lengths, m."
    )
    fibre: Literal["multimode", "single-mode"] | None = Field(None, description="Fibre between two transceivers.")
    end_w: _Watts | None = Field(
        None, description="Maximum power of one plug or transceiver, W; included in a machine's max_w."
    )


class SwitchPorts(Section):
    """Ports of a switch that are alike, in the order in which they are numbered."""

    count: v.Whole = Field(ge=1, le=1_024, description="Ports, as the switch counts them.")
    rate_gbps: v.Number = Field(ge=0.1, le=3_200, description="Highest rate of each port, Gb/s.")
    connector: v.ModelName | None = Field(None, description="Cage or socket: rj45, qsfp56, osfp.")
    per_cage: v.Whole = Field(1, ge=1, le=8, description="Ports behind one cage: 2 where transceivers are twin-port.")
    breakouts: tuple[Annotated[Literal[2, 4, 8], BeforeValidator(v.whole)], ...] | None = Field(
        None, description="Numbers of ports that one port can be split into; []: none."
    )


class Switch(CatalogEntry):
    """A switch model."""

    table: ClassVar[str] = "switches"

    protocols: tuple[Literal["infiniband", "ethernet", "omni-path"], ...] | None = Field(
        None, description="Its link protocols; roce is Ethernet."
    )
    ports: tuple[SwitchPorts, ...] | None = Field(None, description="Ports for data, the lowest numbers first.")
    mtu_max: v.Whole | None = Field(None, ge=576, le=65_520, description="Largest packet (MTU) that it carries, bytes.")
    managed: v.Truth | None = Field(
        None, description="It has a management processor, on which a subnet manager can run."
    )
    rack_units: v.Whole | None = Field(None, ge=1, le=60, description="Height in rack units.")
    depth_mm: _Millimetres | None = Field(None, description="Depth of the chassis without cables, mm.")
    weight_kg: _Kilograms | None = Field(None, description="Weight, kg.")
    max_w: _Watts | None = Field(None, description="Maximum power at its inlets, with active cables, W.")
    psu: Supplies | None = Field(None, description="Power supplies.")
    airflow: Airflow | None = Field(None, description="Direction of airflow.")


class Parts(Section):
    """Additions to the catalog that are not servers."""

    gpus: dict[v.ModelName, Gpu] = Field({}, description="GPU models.")
    cpus: dict[v.ModelName, Cpu] = Field({}, description="Processor models.")
    nics: dict[v.ModelName, Nic] = Field({}, description="Network adapter models.")
    drives: dict[v.ModelName, Drive] = Field({}, description="Drive models.")
    pdus: dict[v.ModelName, Pdu] = Field({}, description="PDU models.")
    ups: dict[v.ModelName, Ups] = Field({}, description="UPS models.")
    racks: dict[v.ModelName, RackModel] = Field({}, description="Rack models.")
    cables: dict[v.ModelName, CableModel] = Field({}, description="Kinds of cables.")
    switches: dict[v.ModelName, Switch] = Field({}, description="Switch models.")


AnEntry = TypeVar("AnEntry", bound=CatalogEntry)
ASection = TypeVar("ASection", bound=Section)


def inherit(entry: AnEntry, parent: AnEntry) -> AnEntry:
    """Return the parent's facts with those of the entry in their place, section by section; sources go along."""
    merged = _over(entry, parent, skip={"like", "sources", "description"})
    own = set(entry.model_fields_set) - {"like", "sources"}
    inherited = {fact: _source(parent, fact) for fact in type(parent).model_fields if fact not in own}
    overriding = {fact: _source(entry, fact) for fact in own}
    sources = {fact: source for fact, source in {**inherited, **overriding}.items() if source}
    return merged.model_copy(update={"sources": sources, "like": entry.like, "description": entry.description})


def _source(entry: CatalogEntry, fact: str) -> str | None:
    return entry.sources.get(fact) or entry.sources.get("*")


def _over(child: ASection, parent: ASection, skip: set[str]) -> ASection:
    update: dict[str, Any] = {}
    for name in child.model_fields_set - skip:
        new, old = getattr(child, name), getattr(parent, name)
        update[name] = _over(new, old, set()) if isinstance(new, Supplies) and isinstance(old, Supplies) else new
    return parent.model_copy(update=update)
