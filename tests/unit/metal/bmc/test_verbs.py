"""A verb ends when the machine is seen in the state that was asked for, and a success that is none is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.metal.bmc import BmcError, Boot
from hpcforge.metal.bmc.verbs import Wish
from tests.support.fake_bmc import SYSTEM, FakeBmc
from tests.unit.metal.bmc.test_redfish import PATIENT, bmc, done


def test_power_goes_on_and_off_and_is_seen(tmp_path: Path) -> None:
    fake = FakeBmc()
    with bmc(tmp_path, fake) as machine:
        assert done(machine, Wish("status")).power == "off"
        assert done(machine, Wish("on")).power == "on"
        assert done(machine, Wish("on")).power == "on"
        assert done(machine, Wish("cycle")).power == "on"
        assert done(machine, Wish("off", hard=True)).power == "off"
    assert fake.resets == ["On", "GracefulShutdown", "On", "ForceOff"]  # nothing where it is so already


def test_a_machine_that_does_not_shut_down_is_named_and_not_forced(tmp_path: Path) -> None:
    fake = FakeBmc(on=True, shuts_down=False)
    with bmc(tmp_path, fake) as machine, pytest.raises(BmcError, match="is still on") as raised:
        done(machine, Wish("off", limit_s=0.2))
    assert fake.resets == ["GracefulShutdown"]
    assert "--hard" in raised.value.hint


def test_a_success_that_never_becomes_true_is_a_failure(tmp_path: Path) -> None:
    with bmc(tmp_path, FakeBmc(does=("never-any-effect",))) as machine:
        why = "answers with success, and is still off after 2 requests"
        with pytest.raises(BmcError, match=why):
            done(machine, Wish("on", limit_s=0.3))
    with bmc(tmp_path, FakeBmc(does=("forgets-the-override",))) as machine:
        why = "accepted the request to boot from network, but its next boot reads none"
        with pytest.raises(BmcError, match=why):
            done(machine, Wish("boot-once"))


@pytest.mark.parametrize("state", [None, 1, "", "Paused", ["On"]])
def test_a_power_state_that_no_protocol_has_is_no_success(tmp_path: Path, state: object) -> None:
    fake = FakeBmc()
    fake.resources[SYSTEM] = {**fake.system(), "PowerState": state}
    with bmc(tmp_path, fake) as machine, pytest.raises(BmcError, match="reports no power state") as raised:
        done(machine, Wish("status"))
    assert raised.value.reason == "answer"


LISTS = ("PushPowerButton", "ForceOff", "GracefulShutdown", "Nmi")  # and no way to switch it on


@pytest.mark.parametrize("wish", [Wish("cycle", hard=True), Wish("cycle"), Wish("off", hard=True, then_on=True)])
def test_what_cannot_be_switched_on_again_is_not_switched_off(tmp_path: Path, wish: Wish) -> None:
    fake = FakeBmc(on=True, types=LISTS)
    with bmc(tmp_path, fake) as machine:
        with pytest.raises(BmcError, match="no reset of type On or ForceOn") as raised:
            done(machine, wish)
        assert (fake.on, fake.resets, raised.value.power) == (True, [], "on")
        assert done(machine, Wish("off", hard=True)).power == "off"


@pytest.mark.parametrize("lost", ["closes-after-changes", "cuts-off-changes", "answers-changes-with-html"])
def test_a_change_whose_answer_is_lost_is_judged_by_the_state(tmp_path: Path, lost: str) -> None:
    fake = FakeBmc(does=(lost, "late-override"))
    with bmc(tmp_path, fake) as machine:
        assert done(machine, Wish("boot-once"), PATIENT).boot == Boot("network", once=True)
        assert done(machine, Wish("on")).power == "on"
    assert (len(fake.patches), fake.resets) == (1, ["On"])


@pytest.mark.parametrize("lost", ["closes-after-changes", "answers-changes-with-504"])
def test_a_request_whose_answer_is_lost_is_never_sent_twice(tmp_path: Path, lost: str) -> None:
    fake = FakeBmc(does=(lost, "never-any-effect"))
    why = "HTTP 504" if lost.endswith("504") else "closed the connection without a whole answer"
    with bmc(tmp_path, fake) as machine, pytest.raises(BmcError, match=why) as raised:
        done(machine, Wish("on", limit_s=0.2))
    assert (fake.resets, raised.value.power) == (["On"], "off")


def test_a_failure_has_the_power_state_that_was_read(tmp_path: Path) -> None:
    for fake, wish in (
        (FakeBmc(on=True, shuts_down=False), Wish("off", limit_s=0.1)),
        (FakeBmc(on=True, does=("forgets-the-override",)), Wish("boot-once")),
    ):
        with bmc(tmp_path, fake) as machine, pytest.raises(BmcError) as raised:
            done(machine, wish)
        assert raised.value.power == "on"
