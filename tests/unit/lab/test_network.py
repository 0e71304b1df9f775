"""What a host forwards from a lab's bridge, on a network namespace that forwards for others."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes interfaces in a network namespace")

# A host that forwards, a lab's bridge with a node on it, and a listener on another network of the host. Prints what
# of the node's datagrams came: to the other network, and to the host itself.
SCRIPT = """
import socket, subprocess, sys
from pathlib import Path
from hpcforge.lab import network
from hpcforge.lab.state import Lab

def ip(words):
    subprocess.run(["ip", *words.split()], check=True)

def receives(namespace, address):
    with subprocess.Popen([*namespace, sys.executable, "-c", LISTEN], stdout=subprocess.PIPE, text=True) as listener:
        listener.stdout.readline()
        for _ in range(3):
            subprocess.run([*NODE, sys.executable, "-c", SEND, address], check=True)
        return listener.stdout.readline().strip()

LISTEN = '''
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
    listener.bind(("0.0.0.0", 9)); listener.settimeout(2); print("ready", flush=True)
    try: print(listener.recv(9).decode())
    except TimeoutError: print("nothing")
'''
SEND = '''
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender: sender.sendto(b"came", (sys.argv[1], 9))
'''
NODE, OTHER = ["ip", "netns", "exec", "node"], ["ip", "netns", "exec", "other"]
for version in ("ipv4", "ipv6"):
    Path(f"/proc/sys/net/{version}/conf/all/forwarding").write_text("1")
lab = Lab("t", "nspawn", "hf0000", "10.77.0.0/24", "10.77.0.1", 0, "", "ops", "12", "", "all", (), (), 0)
network.ensure_bridges(lab)
ip("link set lo up")
ip("link add other type bridge")
ip("address add 192.0.2.1/24 dev other")
ip("link set other up")
for number, (name, bridge, address) in enumerate((("node", "hf0000", "10.77.0.10"), ("other", "other", "192.0.2.10"))):
    ip(f"netns add {name}")
    ip(f"link add v{number} type veth peer name e0 netns {name}")
    ip(f"link set v{number} master {bridge} up")
    ip(f"-n {name} address add {address}/24 dev e0")
    ip(f"-n {name} link set e0 up")
    ip(f"-n {name} route add default via {address.rpartition('.')[0]}.1")
print(receives(OTHER, "192.0.2.10"), receives([], "10.77.0.1"))
print(*(Path(f"/proc/sys/net/{version}/conf/hf0000/forwarding").read_text().strip() for version in ("ipv4", "ipv6")))
"""


def test_nodes_reach_the_host_and_no_other_network_of_it() -> None:
    private = 'mount -t tmpfs run /run && exec "$@"'
    command = ["unshare", "--net", "--mount", "sh", "-c", private, "sh", sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["nothing came", "0 0"], done.stderr
