"""What is written down is damaged, out of date, or claimed by two."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.stories.faults.conftest import Site

pytestmark = pytest.mark.lab

RECEIPT = "/var/lib/hpcforge/receipt.json"

_HARM = {
    "truncated": f"truncate -s 100 {RECEIPT}",
    "flipped": f"""python3 - <<'END'
data = bytearray(open("{RECEIPT}", "rb").read())
data[len(data) // 2] ^= 1
open("{RECEIPT}", "wb").write(data)
END""",
    "empty": f": > {RECEIPT}",
}


@pytest.mark.parametrize("harm", _HARM)
def test_a_damaged_receipt_is_said_and_made_anew(site: Site, harm: str) -> None:
    site.apply()
    wanted = site.state()
    site.inside("n02", _HARM[harm])
    planned = site.run("plan")
    assert "n02" in planned.stderr + planned.stdout
    assert "receipt" in planned.stderr + planned.stdout, "not a word about the receipt"
    site.apply()
    assert site.state() == wanted
    owned = json.loads(site.inside("n02", f"cat {RECEIPT}"))
    assert "client" in json.dumps(owned), "the receipt does not say again what is ours"
    assert site.run("plan").returncode == 0


def test_a_receipt_of_a_newer_hpcforge_is_left_alone(site: Site) -> None:
    site.apply()
    before = site.inside("n02", f"cat {RECEIPT}")
    site.inside("n02", f"""sed -i 's/"schema": *2/"schema": 99/' {RECEIPT}; grep -q '"schema": *99' {RECEIPT}""")
    newer = site.inside("n02", f"cat {RECEIPT}")
    line = site.revise("ground", "ground.conf.j2")
    done = site.run("apply", "--yes")
    assert done.returncode in (1, 5)
    assert "newer" in done.stderr + done.stdout
    assert site.inside("n02", f"cat {RECEIPT}") == newer
    assert line not in site.inside("n02", "cat /etc/faults/ground.conf")
    site.inside("n02", f"cat > {RECEIPT} <<'END'\n{before}\nEND")
    site.apply()


@contextmanager
def operator_host(site: Site, name: str, last: int) -> Iterator[list[str]]:
    """A network and host name of its own on the lab's bridge: another machine, as far as the nodes can tell."""
    space, port = f"{site.lab.tag}-{name}", f"{site.lab.tag}{name}"
    address = f"{site.lab.cidr.rpartition('.')[0]}.{last}/24"
    try:
        subprocess.run(["ip", "netns", "add", space], check=True)
        subprocess.run(["ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space], check=True)
        subprocess.run(["ip", "link", "set", port, "master", site.lab.bridge, "up"], check=True)
        for words in (
            ["addr", "add", address, "dev", "eth0"],
            ["link", "set", "eth0", "up"],
            ["link", "set", "lo", "up"],
        ):
            subprocess.run(["ip", "-n", space, *words], check=True)
        yield ["ip", "netns", "exec", space, "unshare", "--uts", "sh", "-c", f'hostname {name}; exec "$@"', "sh"]
    finally:
        subprocess.run(["ip", "netns", "del", space], check=False)
        subprocess.run(["ip", "link", "del", port], check=False, stderr=subprocess.DEVNULL)


def test_the_second_of_two_applies_is_told_who_is_at_work(site: Site) -> None:
    site.fresh()
    site.hold_dpkg("n02")
    with operator_host(site, "alpha", 201) as alpha, operator_host(site, "beta", 202) as beta:
        first = site.start(within=alpha)
        first.until("progress", node="n02")
        patient = site.start("--lock-timeout", "300", within=beta)
        second = site.run("apply", "--yes", within=beta)
        assert second.returncode == 6, second.stderr
        assert "@alpha" in second.stderr
        assert "--lock-timeout" in second.stderr
        end = time.monotonic() + 60
        while "@alpha" not in patient.said():
            assert time.monotonic() < end, "it did not say whom it waits for"
            time.sleep(0.1)
        site.release_dpkg("n02")
        assert first.end() == 0, first.said()
        assert patient.end() == 0, patient.said()
        assert "Nothing to do on 2 nodes" in patient.said()
    assert site.inside("n02", "grep -c ' install tree:' /var/log/dpkg.log") == "1\n"


def test_a_dead_holder_on_this_host_holds_nobody_up(site: Site) -> None:
    site.fresh()
    run = site.start()
    run.until("changed", node="n01", kind="account")
    run.send(signal.SIGKILL)
    run.end()
    site.apply()


def test_an_edited_plan_is_refused(site: Site) -> None:
    site.apply()
    line = site.revise("ground", "ground.conf.j2")
    plan = site.folder / "edited.plan"
    assert site.run("plan", "-o", str(plan)).returncode == 2
    whole = plan.read_bytes()
    assert line.encode() in whole
    for harmed in (whole.replace(line.encode(), line.replace("revision", "rewision").encode()), whole[:-20], b""):
        plan.write_bytes(harmed)
        done = site.run("apply", "--yes", "--plan", str(plan))
        assert done.returncode in (1, 3)
        assert "plan" in done.stderr
        assert "Traceback" not in done.stderr
        assert line not in site.inside("n01", "cat /etc/faults/ground.conf")
    plan.write_bytes(whole)
    done = site.run("apply", "--yes", "--plan", str(plan))
    assert done.returncode == 0, done.stderr
    assert line in site.inside("n01", "cat /etc/faults/ground.conf")


def test_a_node_that_moved_since_the_plan_is_skipped_and_named(site: Site) -> None:
    site.apply()
    line = site.revise("ground", "ground.conf.j2")
    plan = site.folder / "stale.plan"
    assert site.run("plan", "-o", str(plan)).returncode == 2
    site.inside("n02", "echo moved >> /etc/faults/ground.conf")
    refused = site.run("apply", "--yes", "--strict", "--plan", str(plan))
    assert refused.returncode in (1, 3)
    assert "n02" in refused.stderr
    assert line not in site.inside("n01", "cat /etc/faults/ground.conf")
    done = site.run("apply", "--yes", "--plan", str(plan))
    assert done.returncode == 2, done.stderr
    assert "n02 is left out" in done.stderr
    assert line in site.inside("n01", "cat /etc/faults/ground.conf")
    assert line not in site.inside("n02", "cat /etc/faults/ground.conf")
    site.apply()
