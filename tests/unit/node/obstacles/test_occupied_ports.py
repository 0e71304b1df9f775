"""Ports that other programs have: of this process, and of processes as proc(5) shows them."""

import os
import socket
from contextlib import closing

import pytest

from hpcforge.node import obstacles, receipt
from hpcforge.node.obstacles import occupied_ports

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ROW = "   0: {}:{:04X} {}:0000 {} 00000000:00000000 00:00000000 00000000   110        0 {} 1 0000000000000000\n"
NOWHERE, EVERYWHERE_6 = "00000000", "0" * 32


def role(port, protocol="tcp", address="", unit="own.service"):
    listens = [{"port": port, "protocol": protocol, "address": address}]
    return {"role": "dns", "listens": listens, "units": [{"name": unit}]}


def inspected(*roles, units=()):
    had = {"units": {key: {} for key in units}}
    return obstacles.Inspection(roles, {}, receipt.EMPTY._replace(roles={"earlier": had}))


@pytest.fixture
def proc(tmp_path):
    """Write what listens, and the process 812 that has sockets open, as in /proc; the conflicts with roles."""

    def search(wanted, rows, cgroup="/system.slice/named.service", units=(), pid="812"):
        (tmp_path / "net").mkdir()
        for table in ("tcp", "tcp6", "udp", "udp6"):
            lines = [
                ROW.format(ip, port, NOWHERE, state, 4026 + at)
                for at, (of, ip, port, state) in enumerate(rows)
                if of == table
            ]
            (tmp_path / "net" / table).write_text(HEADER + "".join(lines))
        folder = tmp_path / pid / "fd"
        folder.mkdir(parents=True)
        for at in range(len(rows)):
            (folder / str(at)).symlink_to(f"socket:[{4026 + at}]")
        (folder.parent / "comm").write_text("named\n")
        (folder.parent / "cgroup").write_text(f"0::{cgroup}\n")
        return list(occupied_ports.search(inspected(wanted, units=units), tmp_path))

    return search


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
@pytest.mark.parametrize("address", ["", "127.0.0.1"])
def test_what_listens_on_this_machine_is_named_by_its_process(kind, address):
    with closing(socket.socket(socket.AF_INET, kind)) as other:
        other.bind(("127.0.0.1", 0))
        protocol = "udp"
        if kind == socket.SOCK_STREAM:
            other.listen()
            protocol = "tcp"
        port = other.getsockname()[1]
        [conflict] = occupied_ports.search(inspected(role(port, protocol, address)))
        assert (conflict.kind, conflict.name) == ("port", str(port))
        assert f"process {os.getpid()})" in conflict.why
        assert conflict.why.endswith(f" listens on 127.0.0.1:{port} ({protocol})")
        assert list(occupied_ports.search(inspected(role(port, protocol, "127.0.0.2")))) == []
    assert list(occupied_ports.search(inspected(role(port, protocol)))) == []


def test_a_service_is_named_once_with_all_its_sockets_and_disabled(proc):
    rows = [("udp", "0A00010A", 53, "07"), ("udp", "0100007F", 53, "07"), ("udp", "3500007F", 53, "07")]
    wanted = role(53, "udp", "10.1.0.10")
    wanted["listens"] += role(53, "udp", "127.0.0.1")["listens"]
    assert proc(wanted, rows) == [
        (
            "dns",
            "port",
            "53",
            "named.service (named, process 812) listens on 10.1.0.10:53 (udp), 127.0.0.1:53 (udp)",
            ("systemctl disable --now named.service",),
        )
    ]


@pytest.mark.parametrize(
    ("table", "address", "place"),
    [
        ("tcp", NOWHERE, "0.0.0.0:53"),
        ("tcp6", EVERYWHERE_6, "[::]:53"),
        ("tcp6", "0000000000000000FFFF00000A00010A", "10.1.0.10:53"),
    ],
)
def test_what_listens_everywhere_has_each_address(proc, table, address, place):
    [conflict] = proc(role(53, address="10.1.0.10"), [(table, address, 53, "0A")])
    assert conflict.why.endswith(f"listens on {place} (tcp)")


@pytest.mark.parametrize(("units", "own"), [({}, True), ({"other.service": {}}, False)])
def test_a_daemon_that_a_step_of_the_role_started_is_no_obstacle_later(proc, monkeypatch, units, own):
    """The unit of such a daemon is not known: Ansible's role has it."""
    earlier = receipt.EMPTY._replace(roles={"dns": {"units": units}})
    wanted = role(53, address="10.1.0.10")
    monkeypatch.setitem(globals(), "inspected", lambda *roles, units=(): obstacles.Inspection(roles, {}, earlier))
    assert (proc(wanted, [("tcp", "0A00010A", 53, "0A")]) == []) is own


@pytest.mark.parametrize(
    ("table", "address", "port", "state"),
    [
        ("tcp", "3500007F", 53, "0A"),  # systemd-resolved's 127.0.0.53
        ("tcp6", "00000000000000000000000001000000", 53, "0A"),  # ::1
        ("tcp", "0A00010A", 53, "01"),  # a connection
        ("tcp", "0A00010A", 5353, "0A"),
        ("udp", "0A00010A", 53, "07"),
    ],
)
def test_another_address_protocol_or_port_is_no_obstacle(proc, table, address, port, state):
    assert proc(role(53, address="10.1.0.10"), [(table, address, port, state)]) == []


@pytest.mark.parametrize(
    ("cgroup", "units"),
    [
        ("/system.slice/own.service", ()),
        ("/system.slice/own.service/worker", ()),
        ("/site.slice/own-earlier.service", ["own-earlier.service"]),
    ],
)
def test_a_unit_of_a_role_is_no_obstacle(proc, cgroup, units):
    assert proc(role(53), [("tcp", NOWHERE, 53, "0A")], cgroup, units) == []


@pytest.mark.parametrize(
    ("cgroup", "why", "command"),
    [
        ("/user.slice/user-0.slice/session-3.scope", "named (process 812) listens", "kill 812"),
        ("/user.slice/user-0.slice/user@0.service/app.slice/x.service", "named (process 812) listens", "kill 812"),
        (
            f"/system.slice/docker-{'0123456789abcdef' * 4}.scope",
            "named (process 812) in container 0123456789ab listens",
            "docker update --restart=no 0123456789ab && docker stop 0123456789ab",
        ),
    ],
)
def test_a_program_that_no_service_started_is_named_with_what_ends_it(proc, cgroup, why, command):
    [conflict] = proc(role(53), [("tcp", NOWHERE, 53, "0A")], cgroup)
    assert conflict.why.startswith(why)
    assert conflict.commands == (command,)
