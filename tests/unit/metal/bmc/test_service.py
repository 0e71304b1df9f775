"""Requests to a service that redirects, refuses, or is not ready, and where its resources are."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from hpcforge.metal.bmc import BmcError, Login
from hpcforge.metal.bmc.quirk_table import quirks
from hpcforge.metal.bmc.read_machine import read_machine, read_service
from hpcforge.metal.bmc.redfish import Redfish
from hpcforge.metal.bmc.service import RedfishService, before
from tests.support.fake_bmc import PASSWORD, ROOT, SYSTEM, USER, FakeBmc, Reply, collection, serving
from tests.unit.metal.bmc.test_redfish import bmc

INTERFACES = f"{SYSTEM}/EthernetInterfaces"


def refusal(status: int, **error: object) -> Reply:
    return Reply(status, json.dumps({"error": error}).encode())


def extended(message_id: str, message: str = "") -> dict[str, object]:
    return {
        "message": "A general error has occurred.",
        "@Message.ExtendedInfo": [{"MessageId": message_id, "Message": message}],
    }


def test_systems_are_where_the_service_root_says(tmp_path: Path) -> None:
    fake = FakeBmc()
    fake.resources = {
        ROOT: {"@odata.type": "#ServiceRoot.v1_5_0.ServiceRoot", "Systems": {"@odata.id": f"{ROOT}/Nodes/"}},
        f"{ROOT}/Nodes": collection(SYSTEM),
        f"{ROOT}/Systems": None,
    }
    with bmc(tmp_path, fake) as machine:
        assert read_service(machine) == ""
        assert machine.power() == "off"


def test_a_service_root_is_asked_without_a_login(tmp_path: Path) -> None:
    fake = FakeBmc()
    with serving(tmp_path, [fake]) as at, pytest.raises(BmcError, match="refuses user admin"):
        Redfish(Login(at.addresses[0], USER, "wrong", at.port, at.certificate)).power()
    assert fake.asked == [f"GET {ROOT}/", f"GET {ROOT}/Systems"]
    assert len(fake.logins) == 1  # a second one could lock the account


def test_a_space_in_a_path_is_encoded(tmp_path: Path) -> None:
    fake = FakeBmc()
    fake.resources = {
        INTERFACES: collection(f"{INTERFACES}/NIC 1"),
        f"{INTERFACES}/NIC%201": {"MACAddress": fake.macs[0]},
    }
    with bmc(tmp_path, fake) as machine:
        assert read_machine(machine, None).macs == fake.macs


def test_all_pages_of_a_list_are_read(tmp_path: Path) -> None:
    fake = FakeBmc(macs=("02:00:00:00:00:01", "02:00:00:00:00:02"))
    second = f"{INTERFACES}?$skip=1"
    fake.resources = {
        INTERFACES: {**collection(f"{INTERFACES}/0"), "Members@odata.nextLink": second},
        second: collection(f"{INTERFACES}/1"),
    }
    with bmc(tmp_path, fake) as machine:
        assert read_machine(machine, None).macs == fake.macs
        fake.resources[second] = {**collection(f"{INTERFACES}/1"), "Members@odata.nextLink": second}  # without an end
        assert len(list(machine.members(INTERFACES))) == 256


@pytest.mark.parametrize("location", ["{path}/", "https://{host}:{port}{path}/"])
def test_a_slash_at_the_end_is_followed(tmp_path: Path, location: str) -> None:
    fake = FakeBmc()
    with serving(tmp_path, [fake]) as at:
        for path in (f"{ROOT}/Systems", SYSTEM):
            to = location.format(path=path, host=at.addresses[0], port=at.port)
            fake.replies[path] = Reply(308, headers={"Location": to})
        machine = Redfish(Login(at.addresses[0], USER, PASSWORD, at.port, at.certificate))
        with pytest.raises(BmcError, match=f"redirects {ROOT}/Systems in a circle"):
            machine.power()
        fake.replies, fake.does = {}, ("redirects",)
        assert machine.power() == "off"
        assert "redirects" in machine.quirks
    assert f"GET {SYSTEM}/" in fake.asked


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("https://127.77.0.2:{port}/redfish/v1/Systems/", r"to another host \(127.77.0.2:{port}\): not followed"),
        ("https://127.77.0.1:1/redfish/v1/Systems/", "to another host"),
        ("http://127.77.0.1/redfish/v1/Systems/", "to another host"),
        ("//127.77.0.2/redfish/v1/Systems/", "to another host"),
        ("/login.html", "to /login.html: not followed"),
        ("/redfish/v1/Systems/?next=x", "not followed"),
        ("https://[x", "to no address"),
    ],
)
def test_no_other_redirect_is_followed_and_no_password_leaves(tmp_path: Path, location: str, why: str) -> None:
    fake, other = FakeBmc(), FakeBmc()
    with serving(tmp_path, [fake, other]) as at:
        location, why = location.replace("{port}", str(at.port)), why.replace("{port}", str(at.port))
        fake.replies[f"{ROOT}/Systems"] = Reply(301, headers={"Location": location})
        machine = Redfish(Login(at.addresses[0], USER, PASSWORD, at.port, at.certificate))
        with pytest.raises(BmcError, match=why):
            machine.power()
    assert other.asked == []


# The forms of Supermicro (OemLicenseNotPassed), HPE iLO (LicenseKeyRequired) and Dell iDRAC (LIC501).
@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (
            refusal(403, Message="General", **extended("SMC.1.0.OemLicenseNotPassed", "The licenses DCMS were needed")),
            "DCMS",
        ),
        (refusal(400, **extended("iLO.2.14.LicenseKeyRequired")), "LicenseKeyRequired"),
        (
            refusal(403, **extended("IDRAC.2.8.LIC501", "A required license is missing or expired.")),
            "is missing or expired",
        ),
    ],
)
def test_a_missing_licence_is_named_with_its_feature_and_the_rest_is_read(
    tmp_path: Path, reply: Reply, why: str
) -> None:
    fake = FakeBmc("SN9", gpus=1, replies={INTERFACES: reply})
    with bmc(tmp_path, fake) as machine:
        found = read_machine(machine, None)
    assert (found.serial, found.memory_gib, found.gpus, found.macs) == ("SN9", 64, ("NVIDIA H100",), ())
    (note,) = found.notes
    assert note.startswith("needs a licence: EthernetInterfaces: ") and why in note


@pytest.mark.parametrize("status", [401, 403])
def test_another_refusal_ends_the_asking(tmp_path: Path, status: int) -> None:
    fake = FakeBmc(
        replies={f"{INTERFACES}/0": refusal(status, message="no license to be here" if status == 401 else "no")}
    )
    with bmc(tmp_path, fake) as machine:
        with pytest.raises(BmcError, match=f"refuses user admin .HTTP {status}.") as raised:
            read_machine(machine, None)
        assert raised.value.reason == "login"
        asked = len(fake.asked)
        for ask in (machine.power, machine.boot, lambda: machine.reset("on")):
            with pytest.raises(BmcError, match="refuses user admin"):
                ask()
    assert len(fake.asked) == asked


# The forms of Redfish DSP8011 (Base.InsufficientPrivilege, by id and by text).
@pytest.mark.parametrize(
    "error",
    [
        extended("Base.1.8.InsufficientPrivilege", "There are not enough rights."),
        {"message": "There are insufficient privileges: insufficient privilege for the account."},
    ],
)
def test_a_missing_privilege_is_no_refused_login(tmp_path: Path, error: dict[str, object]) -> None:
    fake = FakeBmc(macs=("02:00:00:00:00:01", "02:00:00:00:00:02"))
    fake.replies[f"{INTERFACES}/0"] = refusal(403, **error)
    with bmc(tmp_path, fake) as machine:
        found = read_machine(machine, None)
        assert "refused-login" not in machine.quirks
        with pytest.raises(BmcError, match="lacks a privilege") as raised:
            machine.get(f"{INTERFACES}/0")
    assert found.macs == ("02:00:00:00:00:02",)
    assert (raised.value.reason, "role Operator" in raised.value.hint) == ("answer", True)


def test_the_text_of_a_refusal_is_shown(tmp_path: Path) -> None:
    fake = FakeBmc(
        replies={f"{INTERFACES}/0": refusal(401, **extended("Base.1.8.NoValidSession", "No valid session."))}
    )
    with bmc(tmp_path, fake) as machine:
        why = r"it accepted this login before, and now refuses user admin \(HTTP 401\): No valid session\."
        with pytest.raises(BmcError, match=why) as raised:
            read_machine(machine, None)
        assert "try again later" in raised.value.hint
    fake = FakeBmc(does=("refused-login",))
    with bmc(tmp_path, fake) as machine, pytest.raises(BmcError, match=r"refuses user admin \(HTTP 401\): who .*you"):
        machine.power()
    limit = refusal(503, **extended("IDRAC.2.8.RAC0218", "The maximum number of user sessions is reached."))
    fake = FakeBmc(replies={SYSTEM: Reply(503, limit.raw, {"Retry-After": "3600"})})
    with bmc(tmp_path, fake) as machine, pytest.raises(BmcError, match="before 3600 s: The maximum number of user"):
        machine.power()


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    fake = FakeBmc(macs=("02:00:00:00:00:01", "02:00:00:00:00:02"))
    fake.replies[f"{INTERFACES}/0"] = refusal(500, message="the sensor bus hangs")
    with bmc(tmp_path, fake) as machine:
        found = read_machine(machine, None)
    assert found.macs == ("02:00:00:00:00:02",)
    assert f"HTTP 500 for {INTERFACES}/0: the sensor bus hangs" in found.notes


def test_a_part_whose_connection_is_closed_costs_that_part_alone(tmp_path: Path) -> None:
    fake = FakeBmc(macs=("02:00:00:00:00:01", "02:00:00:00:00:02"), replies={f"{INTERFACES}/0": Reply(0)})
    with bmc(tmp_path, fake) as machine:
        found = read_machine(machine, None)
    assert found.macs == ("02:00:00:00:00:02",)
    assert "it closed the connection without a whole answer" in found.notes


def test_a_time_to_come_back_is_heeded_within_the_limit(tmp_path: Path) -> None:
    table = {**quirks(), "unavailable": quirks()["unavailable"].model_copy(update={"wait_s": 5.0, "every_s": 60.0})}
    fake = FakeBmc()
    with serving(tmp_path, [fake]) as at:
        access = Login(at.addresses[0], USER, PASSWORD, at.port, at.certificate)
        for by_date in (False, True):
            soon = format_datetime(datetime.now(UTC) + timedelta(seconds=3), usegmt=True)
            fake.replies[SYSTEM] = Reply(503, headers={"Retry-After": soon if by_date else "1"})
            service, began_s = RedfishService(access, table), time.monotonic()
            fake.clears.add(SYSTEM)
            assert service.get(SYSTEM).data["PowerState"] == "Off"
            assert time.monotonic() - began_s < 5
        for retry_after, why in (("3600", "not ready, and not before 3600 s"), ("soon", f"HTTP 503 for {SYSTEM}")):
            fake.replies[SYSTEM] = Reply(503, headers={"Retry-After": retry_after})
            service, began_s = RedfishService(access, table), time.monotonic()
            with pytest.raises(BmcError, match=why):
                service.get(SYSTEM)
            assert time.monotonic() - began_s < 5  # it is not waited for


NOT_READY = b'{"error": {"code": "Base.1.0.GeneralError", "message": "Resource is not ready"}}'


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(200, NOT_READY), "HTTP 200 for {path}: Resource is not ready"),
        (Reply(200, b'{"error": {"code": "x"}}'), "HTTP 200 for {path}: no resource"),
        (Reply(204), "HTTP 204 for {path}: no resource"),
        (Reply(200, b"[]"), "{path} is empty"),
        (Reply(200, b"{}"), "{path} is empty"),
    ],
)
def test_a_success_without_the_resource_is_none(tmp_path: Path, reply: Reply, why: str) -> None:
    fake = FakeBmc("SN9", replies={SYSTEM: reply})
    with bmc(tmp_path, fake) as machine, pytest.raises(BmcError, match=why.format(path=SYSTEM)) as raised:
        read_machine(machine, None)
    assert raised.value.reason == "answer"


def test_a_part_without_its_resource_is_named(tmp_path: Path) -> None:
    fake = FakeBmc("SN9", macs=("02:00:00:00:00:01", "02:00:00:00:00:02"))
    fake.replies[f"{INTERFACES}/0"] = Reply(200, NOT_READY)
    with bmc(tmp_path, fake) as machine:
        found = read_machine(machine, None)
    assert (found.macs, found.more_macs) == (("02:00:00:00:00:02",), True)
    assert f"HTTP 200 for {INTERFACES}/0: Resource is not ready" in found.notes


def test_messages_beside_a_resource_are_no_error(tmp_path: Path) -> None:
    fake = FakeBmc("SN9")
    fake.resources[SYSTEM] = {**fake.system(), "@Message.ExtendedInfo": [{"Message": "deprecated"}]}
    with bmc(tmp_path, fake) as machine:
        assert read_machine(machine, None).serial == "SN9"


def test_a_list_of_another_form_is_read_or_named(tmp_path: Path) -> None:
    fake = FakeBmc()
    fake.resources[INTERFACES] = {"Members": {"@odata.id": f"{INTERFACES}/0"}}
    with bmc(tmp_path, fake) as machine:
        assert read_machine(machine, None).macs == fake.macs
    fake.resources[INTERFACES] = {"Members": [None, {"MACAddress": "02:00:00:00:00:09"}]}
    with bmc(tmp_path, fake) as machine:
        found = read_machine(machine, None)
    assert (found.macs, found.more_macs) == ((), False)
    assert f"{INTERFACES} has members without a link: not read" in found.notes


def test_resources_are_yielded_up_to_a_time() -> None:
    rows = [{"Id": "1"}, {"Id": "2"}]
    assert list(before(time.monotonic() + 60, rows)) == rows
    assert list(before(time.monotonic(), rows)) == []
