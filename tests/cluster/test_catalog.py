from __future__ import annotations

from hpcforge.blueprint.values import counted
from hpcforge.catalog import load_catalog

CATALOG = load_catalog()


KINDS = (
    CATALOG.servers, CATALOG.gpus, CATALOG.cpus, CATALOG.nics, CATALOG.drives, CATALOG.pdus, CATALOG.ups, CATALOG.racks
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


def test_wheels_are_for_the_python_they_are_listed_under() -> None:
    for build in CATALOG.pytorch:
        assert build.wheels[0].file.startswith(f"torch-{build.version}+{build.device}-")
        python = f"cp{build.python.replace('.', '')}"
        for wheel in build.wheels:
            tags = wheel.file.removesuffix(".whl").split("-")[-3:]
            assert tags[0] in (python, "py3")
            assert tags[2] == "any" or build.arch in tags[2]
            assert tags[2] == "any" or f"manylinux_{build.libc.replace('.', '_')}" in tags[2]


def test_builds_are_chosen_by_python_and_libc() -> None:
    debian_12, debian_13 = CATALOG.system("debian", "12"), CATALOG.system("debian", "13")
    assert debian_12 and debian_13
    assert CATALOG.pytorch_build("2.13.0", "cpu", debian_12)
    assert CATALOG.pytorch_build("2.13.0", "cpu", debian_13) is None
    assert CATALOG.pytorch_build("2.13.0", "cpu", debian_12.model_copy(update={"libc": "2.27"})) is None
    assert CATALOG.pytorch_build("2.13.0", "cuda", debian_12) is None
