"""The driver and the PyTorch that a first blueprint names are ones that its GPUs run with."""

from __future__ import annotations

import pytest

from hpcforge.catalog import load_catalog
from hpcforge.starter.draft import installed_driver, present_driver, pytorch_version
from hpcforge.starter.hardware import HardwareChoice, server_hardware

CATALOG = load_catalog()
SYSTEM = ("debian", "12")


def hardware(*servers: str) -> list[HardwareChoice]:
    return [server_hardware(server, {}, None, CATALOG)[0] for server in servers]


@pytest.mark.parametrize(
    ("server", "present", "installed", "pytorch"),
    [
        (
            "dgx-station-a100",
            '{driver: "535.261.03"}',
            '{driver: "535.261.03", modules: open}',
            "2.10.0",
        ),
        ("dgx-h100", '{driver: "535.261.03", fabric_manager: matched}', None, "2.10.0"),  # Debian has no Fabric Manager
        ("dgx-b200", '{driver: "570.172.08", modules: open, fabric_manager: matched}', None, "2.10.0"),
        ("supermicro-8125gs-tnmr2", None, None, None),
        ("generic-1u", None, None, "2.13.0"),
    ],
)
def test_the_oldest_driver_that_goes_with_the_gpus(
    server: str, present: str | None, installed: str | None, pytorch: str | None
) -> None:
    nodes = hardware(server)
    assert present_driver(nodes, SYSTEM, CATALOG) == present
    assert installed_driver(nodes, SYSTEM, CATALOG) == installed
    assert pytorch_version(nodes, SYSTEM, CATALOG) == pytorch


def test_volta_and_blackwell_have_no_driver_in_common() -> None:
    assert present_driver(hardware("lambda-hyperplane-16"), SYSTEM, CATALOG)
    assert present_driver(hardware("lambda-hyperplane-16", "dgx-b200"), SYSTEM, CATALOG) is None
