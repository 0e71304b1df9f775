"""What a machine that boots from the network is served, byte for byte: DHCP, TFTP and HTTP by the real servers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcforge.locks import HeldError
from hpcforge.metal.netboot import Records, services
from hpcforge.metal.netboot.configurations import BootHost, BootNetwork
from hpcforge.metal.netboot.decide import Record
from hpcforge.metal.netboot.server import Boots, identity
from tests.support.pxe_client import Client, dhcp_server

pytestmark = pytest.mark.lab

SERVER, MACHINE, OTHER, STRANGER = "10.79.7.1", "10.79.7.11", "10.79.7.12", "10.79.7.99"
MACS = {MACHINE: "02:00:00:79:07:0b", OTHER: "02:00:00:79:07:0c"}
HERE, THERE, SPACE = "hf-metal", "hf-metal-c", "hf-metal"
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJpoPS4bXRaMe6tTySXaOHYpzDJSvNFcFZLYYhJcYgBN"
CONTENT = {
    name: os.urandom(size) for name, size in {"vmlinuz": 70_001, "initrd.img": 513, "root.ext4": 3_000_001}.items()
}


# 30,000 machines that the inventory does not know ask for an address.
FLOOD = """
import socket
from hpcforge.metal.netboot.services import discover_frame
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind(({interface!r}, 0))
for number in range(30_000):
    machine = bytes((2, 0x99)) + number.to_bytes(4, "big")
    raw.send(discover_frame(machine, number, machine))
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def client(address: str) -> Client:
    return Client(SPACE, THERE, SERVER, address)


@pytest.fixture(scope="module")
def records() -> Iterator[Records]:
    """The records of a server that serves while the module runs."""
    # nginx's workers are an ordinary user; pytest closes its own folders to others whenever another pytest starts
    folder = Path(tempfile.mkdtemp(prefix="hpcforge-metal-", dir="/run"))
    folder.chmod(0o755)
    image = folder / "image"
    image.mkdir()
    for name, content in CONTENT.items():
        (image / name).write_bytes(content)
    place = folder / "served"
    records = Records(place)
    hosts = {mac: BootHost(f"w{address[-1]}", mac, address) for address, mac in MACS.items()}
    identities = {"w1": identity("w1", {"user": "ops"}), "w2": ""}
    files = {"vmlinuz": "a" * 64, "root.ext4": "c" * 64}
    boots = Boots(records, hosts, identities, f"http://{SERVER}:8080", "image", 3 << 20, files)
    ip("netns", "add", SPACE)
    try:
        ip("link", "add", HERE, "type", "veth", "peer", "name", THERE, "netns", SPACE)
        ip("address", "add", f"{SERVER}/24", "dev", HERE)
        ip("link", "set", HERE, "up")
        for address in (MACHINE, OTHER, STRANGER):
            ip("-n", SPACE, "address", "add", f"{address}/24", "dev", THERE)
        ip("-n", SPACE, "link", "set", THERE, "up")
        network = BootNetwork(HERE, SERVER, "10.79.7.0/24", f"http://{SERVER}:8080/machine/boot.ipxe", str(place))
        with services.serving(services.Served(network, 8080, boots, place, image, b"installer")) as check:
            services.started(check)
            yield records
            check()
    finally:
        ip("netns", "del", SPACE)
        subprocess.run(["ip", "link", "del", HERE], check=False, capture_output=True)
        shutil.rmtree(folder)


def wanted(records: Records) -> None:
    records.change("w1", lambda _: Record("w1", "wanted", time.time() + 600, "image", mac=MACS[MACHINE]))


def script(of: Client, mac: str) -> tuple[int, str]:
    status, text = of.http(f"/machine/boot.ipxe?mac={mac}&platform=pcbios")
    return status, text.decode()


def test_firmware_gets_its_address_and_its_first_file(records: Records) -> None:
    machine = client(MACHINE)
    for architecture, file in ((0, "undionly.kpxe"), (7, "ipxe.efi"), (9, "ipxe.efi")):
        found = machine.dhcp(MACS[MACHINE], architecture)
        assert found == {"address": MACHINE, "server": SERVER, "file": file}
    found = machine.dhcp(MACS[OTHER], 7, "ipxe")
    assert found["address"] == OTHER
    assert found["file"] == f"http://{SERVER}:8080/machine/boot.ipxe?mac=${{netX/mac}}&platform=${{platform}}"
    assert machine.dhcp("02:00:00:79:07:ff") is None  # the inventory does not know it
    for name in ("undionly.kpxe", "ipxe.efi"):
        assert machine.tftp(name) == (services.IPXE / name).read_bytes()
    machine.tftp("../records.json", code=1)


def test_files_are_served_byte_for_byte_and_no_others(records: Records) -> None:
    machine = client(STRANGER)
    for name, content in CONTENT.items():
        assert machine.http(f"/files/{name}") == (200, content)
    assert machine.http("/files/installer.img") == (200, b"installer")
    for path in ("/", "/files/", "/files/records.json", "/files/../records.json", "/files/%2e%2e/served/records.json",
                 "/records.json", "/machine/", "/machine/begin", "/files/vmlinuz/"):  # fmt: skip
        assert machine.http(path, "--path-as-is")[0] in (400, 404), path
    assert machine.http("/files/vmlinuz", "-X", "DELETE")[0] in (403, 405)


def test_an_installation_is_served_once_and_to_its_machine_alone(records: Records) -> None:
    machine, other, stranger = client(MACHINE), client(OTHER), client(STRANGER)
    assert "sanboot" in script(machine, MACS[MACHINE])[1]  # it was not asked for
    wanted(records)
    assert script(stranger, MACS[MACHINE])[0] == 403
    assert script(other, MACS[MACHINE])[0] == 403
    assert machine.http("/machine/boot.ipxe?mac=x", "-H", "X-Real-IP: 10.79.7.11")[0] == 403
    assert stranger.http(f"/machine/boot.ipxe?mac={MACS[MACHINE]}", "-H", f"X-Real-IP: {MACHINE}")[0] == 403
    status, text = script(machine, MACS[MACHINE])
    assert status == 200 and text.startswith("#!ipxe\n")
    token = re.findall("hpcforge.token=(\\S+)", text)[0]
    disks = json.dumps([{"name": "vda", "serial": "S1", "bytes": 10**10, "blank": True, "marker": ""}])
    assert stranger.post("begin", token, disks)[0] == 403
    assert stranger.post("end", token, HOST_KEY)[0] == 403
    status, plan = machine.post("begin", token, disks)
    assert status == 200 and plan.startswith(b"disks='vda'\nimage_sha256=" + b"c" * 64)
    assert machine.post("begin", "x" * 100_000, disks)[0] in (400, 403)
    assert machine.http("/machine/end", "-H", f"X-Token: {token}", "--data-binary", "k" * 100_000)[0] == 413
    assert machine.post("end", token, HOST_KEY)[0] == 200
    assert records.read()["w1"].host_keys == (HOST_KEY,)
    assert machine.post("end", token, HOST_KEY)[0] == 403
    assert "sanboot" in script(machine, MACS[MACHINE])[1]


def test_a_foreign_dhcp_server_is_named_and_nothing_is_served(records: Records, tmp_path: Path) -> None:
    """It runs where machines are, and gives addresses to all."""
    addresses = "dhcp-range=10.79.7.200,10.79.7.220,1h\n"
    with dhcp_server(SPACE, THERE, addresses, tmp_path) as check:
        until = time.monotonic() + 30
        while not (found := services.others(HERE, (SERVER,), wait_s=1.5)):
            check()
            assert time.monotonic() < until
        assert found in ((MACHINE,), (OTHER,), (STRANGER,))
        network = BootNetwork(HERE, SERVER, "10.79.7.0/24", "http://x", str(tmp_path))
        boots = Boots(records, {}, {}, "http://x", "image", 1, {})
        served = services.Served(network, 8081, boots, tmp_path / "served", tmp_path, b"")
        said = f"another DHCP server answers on {HERE}: {found[0]}"
        with pytest.raises(services.NetbootError, match=said), services.serving(served):
            pass
        assert not (tmp_path / "served").exists()
    macs = list(MACS.values())
    ask = f"from hpcforge.metal.netboot import services; print(services.others({THERE!r}, (), {macs}, 2.0))"
    assert SERVER in client(MACHINE).run(sys.executable, "-c", ask).decode()  # as another host would see ours
    assert services.others(HERE, (SERVER,), macs, wait_s=1.0) == ()


def test_a_second_server_on_the_host_leaves_the_first_as_it_is(records: Records) -> None:
    wanted(records)
    network = BootNetwork(HERE, SERVER, "10.79.7.0/24", "http://x", str(records.path.parent))
    boots = Boots(records, {}, {}, "http://x", "image", 1, {})
    second = services.Served(network, 8080, boots, records.path.parent, records.path.parent, b"other")
    message = f"served is served to machines that boot by .*, process {os.getpid()}, since "
    with pytest.raises(HeldError, match=message), services.serving(second):
        pass
    assert "kernel" in script(client(MACHINE), MACS[MACHINE])[1]
    assert client(MACHINE).http("/files/installer.img") == (200, b"installer")


def test_dnsmasq_is_no_root_and_a_flood_of_strangers_fills_no_log(records: Records) -> None:
    pid = int((records.path.parent / "dhcp" / "dnsmasq.pid").read_text())
    assert Path(f"/proc/{pid}").stat().st_uid != 0
    older, rounds = records.path.parent / "dnsmasq.log.1", 0
    while not older.exists():
        client(MACHINE).run(sys.executable, "-c", FLOOD.format(interface=THERE))
        rounds += 1
        assert rounds < 50, "more than the log may have was not printed"
    assert client(MACHINE).dhcp(MACS[MACHINE], 0)["address"] == MACHINE  # it still answers
    assert sum(log.stat().st_size for log in older.parent.glob("dnsmasq.log*")) < 3 << 20


def test_power_that_is_lost_while_installing_ends_it(records: Records) -> None:
    machine = client(MACHINE)
    wanted(records)
    token = re.findall("hpcforge.token=(\\S+)", script(machine, MACS[MACHINE])[1])[0]
    disks = json.dumps([{"name": "vda", "serial": "S1", "bytes": 10**10, "blank": True, "marker": ""}])
    assert machine.post("begin", token, disks)[0] == 200
    assert "sanboot" in script(machine, MACS[MACHINE])[1]
    assert "power was lost" in records.read()["w1"].why
    assert machine.post("end", token, HOST_KEY)[0] == 403


def test_a_lost_server_installs_nothing(records: Records) -> None:
    wanted(records)
    assert "kernel" in script(client(MACHINE), MACS[MACHINE])[1]
    records.path.unlink()
    assert "sanboot" in script(client(MACHINE), MACS[MACHINE])[1]
