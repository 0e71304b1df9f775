"""Ports of loopback that answer, refuse and are silent, by the program as it is sent to nodes."""

from __future__ import annotations

import socket
import subprocess
import threading

from hpcforge.programs.port_probe import unanswered
from hpcforge.run.worker_ports import failures, probe


def test_a_port_that_listens_answers_and_a_closed_one_refuses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        good, bad = (f"127.0.0.1:{each.getsockname()[1]}" for each in (server, other))
        other.close()
        done = subprocess.run(probe([good, bad, "no address:1"]), capture_output=True, text=True, check=True)
    assert failures(done.stdout)[bad] == "connection refused"
    assert good not in done.stdout
    assert "no address:1 " in done.stdout


def test_a_full_backlog_is_silence() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        target = f"127.0.0.1:{server.getsockname()[1]}"
        fill = [socket.socket() for _ in range(4)]
        for each in fill:
            each.setblocking(False)
            each.connect_ex(server.getsockname())
        assert unanswered([target], 0.2) == {target: "no answer within 0.2 s"}
        for each in fill:
            each.close()


def test_a_time_server_answers_a_request() -> None:
    requests = list[bytes]()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, socket.socket(type=socket.SOCK_DGRAM) as mute:
        for each in (server, mute):
            each.bind(("127.0.0.1", 0))
            each.settimeout(10)

        def answer() -> None:
            request, address = server.recvfrom(100)
            requests.append(request)
            server.sendto(b"x", address)

        thread = threading.Thread(target=answer)
        thread.start()
        good, bad = (f"127.0.0.1:{each.getsockname()[1]}/udp" for each in (server, mute))
        assert unanswered([good, bad], 1.0) == {bad: "no answer within 1 s"}
        thread.join()
    assert (requests[0][0], len(requests[0])) == (0x1B, 48)
