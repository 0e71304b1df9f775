"""Which network interfaces a machine can boot from."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.metal.bmc.read_machine import mac_address
from tests.support.fake_bmc import SYSTEM, FakeBmc, collection
from tests.unit.metal.bmc.test_read_machine import CHASSIS, NICS, Resources, linked, members, read, with_chassis

ADAPTERS = f"{CHASSIS}/1/NetworkAdapters"


@pytest.mark.parametrize(
    ("value", "mac"),
    [
        ("3C:EC:EF:00:00:0A", "3c:ec:ef:00:00:0a"),
        ("3c-ec-ef-00-00-0a", "3c:ec:ef:00:00:0a"),
        ("3cecef00000a", "3c:ec:ef:00:00:0a"),
        ("3cec.ef00.000A", "3c:ec:ef:00:00:0a"),
        ("00:00:00:00:00:00", None),
        ("ff:ff:ff:ff:ff:ff", None),
        ("FFFF.FFFF.FFFF", None),
        ("01:00:5e:00:00:01", None),
        ("33:33:00:00:00:01", None),
        ("3c:ec-ef:00:00:0a", None),
        ("3c:ec:ef:00:00", None),
        ("80:00:02:08:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:9e:1a:2c", None),  # of IP over InfiniBand
        ("3c:ec:ef:ff:fe:00:00:0a", None),
        ("N/A", None),
        ("", None),
    ],
)
def test_only_an_address_of_one_ethernet_interface_is_one(value: str, mac: str | None) -> None:
    assert mac_address(value) == mac


def test_what_is_no_address_boots_nothing(tmp_path: Path) -> None:
    fake = FakeBmc(macs=("ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "0290.0000.2905"))
    assert read(tmp_path, fake).macs == ("02:90:00:00:29:05",)


# Dell's FlexAddress and HPE's Virtual Connect give an interface another address, which is then the current one.
@pytest.mark.parametrize(
    ("current", "own", "mac"),
    [
        ("02:90:00:00:00:01", "3c:ec:ef:00:00:01", "02:90:00:00:00:01"),
        ("3c:ec:ef:00:00:02", "3c:ec:ef:00:00:01", "3c:ec:ef:00:00:02"),
        ("00:00:00:00:00:00", "3c:ec:ef:00:00:01", "3c:ec:ef:00:00:01"),
        (None, "3c:ec:ef:00:00:01", "3c:ec:ef:00:00:01"),
    ],
)
def test_the_current_address_boots(tmp_path: Path, current: str | None, own: str, mac: str) -> None:
    fake = FakeBmc()
    nic = {"MACAddress": current, "PermanentMACAddress": own}
    fake.resources |= members(NICS, a=nic, b={"MACAddress": "3c:ec:ef:00:00:99"})
    assert read(tmp_path, fake).macs == (mac, "3c:ec:ef:00:00:99")


# Interfaces to the controller as Lenovo, Supermicro, DMTF's public-rackmount1 and AMI have them, none of which boots.
@pytest.mark.parametrize(
    "link_to_manager",
    [
        {"Id": "ToManager"},
        {"Name": "Host Ethernet Interface"},
        {"Name": "Manager Ethernet Interface", "SpeedMbps": 100},
        {"Description": "Host Network Interface"},
        {"Links": {"HostInterface": linked("/redfish/v1/Managers/1/HostInterfaces/1")}},
        {"UefiDevicePath": "PciRoot(0x0)/Pci(0x14,0x0)/USB(0xA,0x0)/MAC(3C,0x0)"},
        {"Id": "usb0"},
        {"Id": "hostusb0"},
        {"Id": "7", "MACAddress": "7e:d3:0a:00:00:99"},  # administered locally
        {"EthernetInterfaceType": "Virtual"},
    ],
)
def test_an_interface_to_the_controller_never_boots(tmp_path: Path, link_to_manager: dict[str, object]) -> None:
    fake = FakeBmc()
    own = {"Id": "NIC1", "MACAddress": "3c:ec:ef:00:00:01", "LinkStatus": None}
    fake.resources |= members(
        NICS, a={"MACAddress": "3c:ec:ef:00:00:99", "LinkStatus": "LinkUp", **link_to_manager}, b=own
    )
    machine = read(tmp_path, fake)
    assert (machine.macs, machine.linked) == (("3c:ec:ef:00:00:01",), ())


def test_boot_options_name_interfaces_where_no_list_does(tmp_path: Path) -> None:
    fake, options = FakeBmc(), f"{SYSTEM}/BootOptions"  # as a GB200
    fake.resources[SYSTEM] = {**fake.system(), "EthernetInterfaces": None, "Boot": {"BootOptions": linked(options)}}
    pci = "PciRoot(0x5)/Pci(0x6,0x0)/MAC(D0F405000004,0x1)"
    paths = [
        f"{pci}/IPv4(0.0.0.0)",
        f"{pci}/IPv6(0)",
        "PciRoot(0x5)/USB(0x4,0x0)/MAC(EEA3AB000003,0x1)",
        "HD(1,GPT)",
        None,
    ]
    fake.resources |= members(options, **{str(number): {"UefiDevicePath": path} for number, path in enumerate(paths)})
    assert read(tmp_path, fake).macs == ("d0:f4:05:00:00:04",)


def port(link: str, *macs: str) -> dict[str, object]:
    return {"LinkStatus": link, "Ethernet": {"AssociatedMACAddresses": [*macs]}}


# Lenovo XCC has an empty list of interfaces (makes.yaml); NetworkPort is DSP2046's form before Port.
@pytest.mark.parametrize("interfaces", [collection(), None])
@pytest.mark.parametrize(
    ("kind", "ports"),
    [
        (
            "Ports",
            {"1": port("LinkUp", "3C:EC:EF:00:00:01", "3c:ec:ef:00:01:01"), "2": port("LinkDown", "3cecef000002")},
        ),
        (
            "NetworkPorts",
            {
                "1": {"LinkStatus": "Up", "AssociatedNetworkAddresses": ["3cecef000001"]},
                "2": {"LinkStatus": "Down", "AssociatedNetworkAddresses": ["3c-ec-ef-00-00-02"]},
                "3": {"LinkStatus": "Up", "AssociatedNetworkAddresses": ["10:00:00:10:9b:00:00:01"]},  # Fibre Channel
                "4": {"AssociatedNetworkAddresses": None},
            },
        ),
    ],
)
def test_ports_of_network_adapters_stand_in_for_interfaces(
    tmp_path: Path, interfaces: Resources | None, kind: str, ports: Resources
) -> None:
    fake = with_chassis(FakeBmc(), **{"1": {"NetworkAdapters": linked(ADAPTERS)}})
    fake.resources |= {NICS: interfaces, **members(ADAPTERS, a={kind: linked(f"{ADAPTERS}/a/{kind}")})}
    fake.resources |= members(f"{ADAPTERS}/a/{kind}", **ports)
    machine = read(tmp_path, fake)
    assert (machine.macs, machine.linked) == (("3c:ec:ef:00:00:01", "3c:ec:ef:00:00:02"), ("3c:ec:ef:00:00:01",))
    assert not machine.more_macs


def test_adapters_are_not_read_where_interfaces_are_listed(tmp_path: Path) -> None:
    fake = with_chassis(FakeBmc(gpus=1), **{"1": {"NetworkAdapters": linked(ADAPTERS)}})
    assert read(tmp_path, fake).macs == fake.macs
    assert not [request for request in fake.asked if ADAPTERS in request]


def test_a_port_that_cannot_be_read_leaves_the_list_open(tmp_path: Path) -> None:
    fake = with_chassis(FakeBmc(), **{"1": {"NetworkAdapters": linked(ADAPTERS)}})
    fake.resources |= {NICS: collection(), **members(ADAPTERS, a={"Ports": linked(f"{ADAPTERS}/a/Ports")})}
    fake.resources |= members(f"{ADAPTERS}/a/Ports", **{"1": port("LinkUp", "3c:ec:ef:00:00:01"), "2": None})
    machine = read(tmp_path, fake)
    assert (machine.macs, machine.more_macs) == (("3c:ec:ef:00:00:01",), True)
