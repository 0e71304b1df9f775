"""What a site's own installer is told of a node, as a whole."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster, Service, SystemDisk
from hpcforge.cluster.people import User, number_of
from hpcforge.metal.installer_disks import disk_lines
from hpcforge.metal.installer_files import Format, InstallerChoices, files_of
from tests.support.fake_bmc import Serving
from tests.support.metal_site import metal_site

CHOICES = InstallerChoices("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJpoPS4bXRaMe6tTySXaOHYpzDJSvNFcFZLYYhJcYgBN")
PRESEED = """\
# w1 of metal. Written by hpcforge export. It confirms no disk: the installer asks.
# A file that comes over the network comes after these questions. Put this on the kernel's command line:
#   netcfg/disable_autoconfig=true netcfg/get_ipaddress=10.78.0.11 netcfg/get_netmask=255.255.255.0 \
netcfg/get_gateway=10.78.0.254 netcfg/get_hostname=w1 netcfg/get_domain=metal.example.org
d-i netcfg/disable_autoconfig boolean true
d-i netcfg/get_ipaddress string 10.78.0.11
d-i netcfg/get_netmask string 255.255.255.0
d-i netcfg/get_gateway string 10.78.0.254
d-i netcfg/get_nameservers string
d-i netcfg/get_hostname string w1
d-i netcfg/get_domain string metal.example.org
d-i netcfg/confirm_static boolean true
d-i mirror/country string manual
d-i mirror/protocol string http
d-i mirror/http/hostname string deb.debian.org
d-i mirror/http/directory string /debian
d-i mirror/http/proxy string
d-i passwd/root-login boolean false
d-i passwd/user-fullname string ops
d-i passwd/username string ops
d-i passwd/user-password-crypted password !
d-i clock-setup/utc boolean true
d-i time/zone string Etc/UTC
tasksel tasksel/first multiselect
d-i pkgsel/include string openssh-server python3 sudo
popularity-contest popularity-contest/participate boolean false
d-i finish-install/reboot_in_progress note
d-i preseed/late_command string \\
  mkdir -p -m 0700 /target/home/ops/.ssh && \\
  echo 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJpoPS4bXRaMe6tTySXaOHYpzDJSvNFcFZLYYhJcYgBN' \
> /target/home/ops/.ssh/authorized_keys && \\
  chmod 0600 /target/home/ops/.ssh/authorized_keys && \\
  in-target chown -R ops: /home/ops/.ssh && \\
  echo 'ops ALL=(ALL) NOPASSWD: ALL' > /target/etc/sudoers.d/hpcforge-first && \\
  chmod 0440 /target/etc/sudoers.d/hpcforge-first
"""
USER_DATA = """\
#cloud-config
hostname: w1
fqdn: w1.metal.example.org
users:
- name: ops
  ssh_authorized_keys:
  - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJpoPS4bXRaMe6tTySXaOHYpzDJSvNFcFZLYYhJcYgBN
  shell: /bin/bash
  lock_passwd: true
  sudo: ALL=(ALL) NOPASSWD:ALL
disable_root: true
ssh_pwauth: false
apt:
  primary:
  - arches:
    - default
    uri: http://deb.debian.org/debian
  security:
  - arches:
    - default
    uri: http://deb.debian.org/debian-security
package_update: true
packages:
- openssh-server
- python3
- sudo
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    site = metal_site(tmp_path, Serving(("127.0.0.1", "127.0.0.2", "127.0.0.3"), 443, "a" * 64))
    return load(site.blueprint).cluster


def files(cluster: Cluster, name: str, kind: Format, choices: InstallerChoices = CHOICES) -> dict[str, str]:
    network = replace(cluster.network, gateway="10.78.0.254")
    return files_of(cluster, cluster.by_name[name], network, kind, choices)


def test_preseed_as_debconf_reads_it(cluster: Cluster, tmp_path: Path) -> None:
    found = files(cluster, "w1", "preseed")
    assert found == {"w1.cfg": PRESEED}
    check(found["w1.cfg"], tmp_path)


def check(text: str, folder: Path) -> None:
    """Have debconf read a preseed file, where this machine has it."""
    if shutil.which("debconf-set-selections"):
        (folder / "w1.cfg").write_text(text)
        done = subprocess.run(
            ["debconf-set-selections", "--checkonly", str(folder / "w1.cfg")], capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("service", "given", "servers"),
    [
        (Service(), (), ""),
        (Service(on=("head",)), (), ""),  # it does not run yet
        (Service(on=("head",), options={"forward": ("192.0.2.2", "192.0.2.3")}), (), "192.0.2.2 192.0.2.3"),
        (Service(external=("192.0.2.53",)), (), "192.0.2.53"),
        (Service(external=("192.0.2.53",)), ("10.0.0.53",), "10.0.0.53"),
    ],
)
def test_the_installer_asks_the_sites_name_servers(
    cluster: Cluster, tmp_path: Path, service: Service, given: tuple[str, ...], servers: str
) -> None:
    site = replace(cluster, services={**cluster.services, "dns": service})
    text = files(site, "w1", "preseed", replace(CHOICES, dns=given))["w1.cfg"]
    assert f"d-i netcfg/get_nameservers string {servers}".rstrip() in text.splitlines()
    first = servers.split()[:1]
    assert [word for word in text.split() if word.startswith("netcfg/get_nameservers=")] == [
        f"netcfg/get_nameservers={address}" for address in first
    ]
    check(text, tmp_path)
    network = yaml.safe_load(files(site, "w1", "cloud-init", replace(CHOICES, dns=given))["w1/network-config"])
    assert network["ethernets"]["first"].get("nameservers", {}).get("addresses", []) == servers.split()


def test_the_declared_disks_are_in_the_preseed_file(cluster: Cluster, tmp_path: Path) -> None:
    disk = SystemDisk(2, {"/var": 40})
    mirrored = replace(cluster.by_name["w1"], system_disk=disk)
    found = files_of(cluster, mirrored, cluster.network, "preseed", CHOICES)["w1.cfg"]
    assert "".join(f"{line}\n" for line in disk_lines(disk)) in found
    check(found, tmp_path)


def test_cloud_init_configures_the_interface_with_the_mac_address_and_no_other(cluster: Cluster) -> None:
    found = files(cluster, "w1", "cloud-init", replace(CHOICES, dns=("10.0.0.53",)))
    assert found["w1/user-data"] == USER_DATA
    assert yaml.safe_load(found["w1/meta-data"]) == {"instance-id": "metal-w1", "local-hostname": "w1"}
    assert yaml.safe_load(found["w1/network-config"]) == {
        "version": 2,
        "ethernets": {
            "first": {
                "match": {"macaddress": "02:00:00:00:00:03"},
                "addresses": ["10.78.0.11/24"],
                "routes": [{"to": "0.0.0.0/0", "via": "10.78.0.254"}],
                "nameservers": {"addresses": ["10.0.0.53"]},
            }
        },
    }
    assert set(files(cluster, "w2", "cloud-init")) == {"w2/user-data", "w2/meta-data"}  # its MAC is not known


def test_a_site_that_logs_in_as_root_gets_no_other_account(cluster: Cluster) -> None:
    by_root = replace(cluster, access=replace(cluster.access, user="root"))
    text = files(by_root, "w1", "preseed")["w1.cfg"]
    assert "passwd/root-login boolean true" in text and "sudoers.d" not in text and "/target/root/.ssh" in text
    said = yaml.safe_load(files(by_root, "w1", "cloud-init")["w1/user-data"])
    assert said["users"] == [{"name": "root", "ssh_authorized_keys": [CHOICES.key]}] and said["disable_root"] is False


def test_the_login_account_gets_the_blueprints_number(cluster: Cluster) -> None:
    numbered = replace(cluster, users=(User(cluster.access.user, 1900, True, ()),))
    assert "d-i passwd/user-uid string 1900\n" in files(numbered, "w1", "preseed")["w1.cfg"]
    [account] = yaml.safe_load(files(numbered, "w1", "cloud-init")["w1/user-data"])["users"]
    assert account["uid"] == "1900"  # text: cloud-init 21 gave useradd no number that is none
    assert number_of(numbered.users, cluster.access.user) == 1900
    assert number_of(numbered.users, "eve") is None
