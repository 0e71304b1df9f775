"""What a machine is, by its controller; odd parts are left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.power import BmcError, Login
from hpcforge.power.read_machine import read_machine
from hpcforge.power.redfish import Redfish
from tests.support.fake_bmc import PASSWORD, USER, FakeBmc, serving
from tests.unit.power.test_redfish import bmc


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
