"""Beside a site's own DHCP server: that gives addresses, and ours names boot files, to a fake client's firmware."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hpcforge.metal.netboot import Records, services
from hpcforge.metal.netboot.configurations import BootHost, BootNetwork
from hpcforge.metal.netboot.decide import Record
from hpcforge.metal.netboot.server import Boots, identity
from tests.support.pxe_client import Client, dhcp_server

pytestmark = pytest.mark.lab

SERVER, SITES, MACHINE = "10.79.9.1", "10.79.9.2", "10.79.9.11"
MAC, STRANGER = "02:00:00:79:09:0b", "02:00:00:79:09:ff"
BRIDGE, FIRMWARE, OWN = "hf-proxy", "hf-proxy-c", "hf-proxy-d"  # the latter two are namespaces, and their links
SCRIPT = f"http://{SERVER}:8080/machine/boot.ipxe?mac=${{netX/mac}}&platform=${{platform}}"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextmanager
def network() -> Iterator[None]:
    """This host, a machine and the site's server on one bridge."""
    try:
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("address", "add", f"{SERVER}/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        for space, address in ((FIRMWARE, MACHINE), (OWN, SITES)):
            ip("netns", "add", space)
            ip("link", "add", space, "type", "veth", "peer", "name", "net", "netns", space)
            ip("link", "set", space, "master", BRIDGE, "up")
            ip("-n", space, "address", "add", f"{address}/24", "dev", "net")
            ip("-n", space, "link", "set", "net", "up")
        yield
    finally:
        for space in (FIRMWARE, OWN):
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", BRIDGE], check=False, capture_output=True)


@contextmanager
def sites_own(folder: Path) -> Iterator[None]:
    """The site's DHCP server, which knows nothing of network boot."""
    addresses = f"dhcp-range=10.79.9.200,10.79.9.220,1h\ndhcp-host={MAC},{MACHINE}\n"
    with dhcp_server(OWN, "net", addresses, folder) as check:
        until = time.monotonic() + 30
        while services.others(BRIDGE, (), wait_s=1.5) != (SITES,):
            check()
            assert time.monotonic() < until
        yield


@pytest.fixture(scope="module")
def records() -> Iterator[Records]:
    """The records of a server that serves beside the site's while the module runs."""
    folder = Path(tempfile.mkdtemp(prefix="hpcforge-proxy-", dir="/run"))  # nginx's workers are an ordinary user
    folder.chmod(0o755)
    try:
        place = folder / "served"
        records = Records(place)
        url = f"http://{SERVER}:8080"
        host = BootHost("w1", MAC, MACHINE)
        boots = Boots(records, {MAC: host}, {"w1": identity("w1", {})}, url, "image", 3 << 20, {"root.ext4": "c" * 64})
        boot = BootNetwork(BRIDGE, SERVER, "10.79.9.0/24", f"{url}/machine/boot.ipxe", str(place), proxy=True)
        served = services.Served(boot, 8080, boots, place, folder, b"installer")
        with network(), sites_own(folder), services.serving(served) as check:
            services.started(check)
            yield records
            check()
    finally:
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)


@pytest.fixture
def machine() -> Client:
    return Client(FIRMWARE, "net", SERVER, MACHINE)


@pytest.mark.parametrize(("architecture", "file"), [(0, "undionly.kpxe"), (7, "ipxe.efi"), (9, "ipxe.efi")])
def test_the_address_is_the_sites_and_the_files_are_ours(
    records: Records, machine: Client, architecture: int, file: str
) -> None:
    first = machine.dhcp(MAC, architecture, how="proxied")
    assert first == {"address": MACHINE, "server": SERVER, "file": file}
    assert machine.tftp(file) == (services.IPXE / file).read_bytes()
    then = machine.dhcp(MAC, architecture, "ipxe", how="proxied")
    assert then == {"address": MACHINE, "server": SERVER, "file": SCRIPT}


@pytest.mark.parametrize("architecture", [0, 7])
def test_a_stranger_gets_an_address_and_no_file(records: Records, machine: Client, architecture: int) -> None:
    found = machine.dhcp(STRANGER, architecture, how="proxied")
    assert found["address"].startswith("10.79.9.2") and found["file"] is None


def test_an_installation_is_served_to_the_address_that_the_site_gave(records: Records, machine: Client) -> None:
    asked = f"/machine/boot.ipxe?mac={MAC}&platform=pcbios"
    assert b"sanboot" in machine.http(asked)[1]
    records.change("w1", lambda _: Record("w1", "wanted", time.time() + 600, "image", mac=MAC))
    status, text = machine.http(asked)
    assert status == 200 and re.search(rb"hpcforge.token=\S+", text)
