from __future__ import annotations

from hpcforge.catalog import load_catalog

CATALOG = load_catalog()


def test_every_known_fact_of_hardware_has_a_source() -> None:
    for kind in (CATALOG.servers, CATALOG.gpus):
        for name, entry in kind.items():
            facts = entry.model_dump(exclude={"description", "sources", "vendor"})
            for fact, value in facts.items():
                known = fact in entry.sources or "*" in entry.sources
                assert value is None or known, f"{name}: {fact}"


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
