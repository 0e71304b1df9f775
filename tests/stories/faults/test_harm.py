"""A head and a node in wrong hands, on the nodes of a lab."""

from __future__ import annotations

import hashlib
import json
import os
import shutil

import pytest

from tests.stories.faults.conftest import Site

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

KEPT = "/var/lib/hpcforge"


def sealed(document: dict[str, object]) -> str:
    rest = {key: value for key, value in document.items() if key != "checksum"}
    return json.dumps({**rest, "checksum": hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()})


def put(site: Site, node: str, name: str, text: str) -> None:
    site.inside(node, f"cat > {KEPT}/{name} <<'END'\n{text}\nEND")


def test_a_machine_that_the_head_invents_is_not_entered_until_a_person_says_so(site: Site) -> None:
    """The head says that the other node, under a name of the head's choice, has left: it would be emptied."""
    site.apply()
    kept = site.inside("n01", f"cat {KEPT}/roster.json")
    evil = json.loads(kept)
    evil["nodes"]["n09"] = evil["nodes"]["n02"]
    put(site, "n01", "roster.json", sealed(evil))
    done = site.run("plan")
    assert done.returncode == 5
    assert "only the node list on n01 says which machine it is: at " in done.stdout
    assert "SHA256:" in done.stdout
    assert "hpcforge trust BLUEPRINT n09" in done.stdout
    done = site.apply(code=5)
    assert "n09: leaving FAILED: only the node list on n01" in done.stderr
    assert " left " not in done.stdout
    site.inside("n02", "test -e /etc/faults/client.conf")
    assert "n09" not in (site.folder / "state/hpcforge/faults/roster.json").read_text()
    assert site.run("trust", "n02").returncode == 3  # a node of the blueprint
    assert site.run("trust", "n08").returncode == 3  # nobody's
    assert site.run("trust", "n09").returncode == 3  # the question needs a terminal
    told = site.run("trust", "n09", "--yes")
    assert told.returncode == 0
    assert "SHA256:" in told.stderr
    done = site.run("plan")  # had a person been deceived, too: a machine of the blueprint is not emptied
    assert done.returncode == 3
    assert "n09 leaves, and n02 has the same address or host key" in done.stderr
    put(site, "n01", "roster.json", kept.strip())
    shutil.rmtree(site.folder / "state")


def test_one_receipt_neither_stops_nor_numbers_the_others(site: Site) -> None:
    site.apply()
    receipt = site.inside("n02", f"cat {KEPT}/receipt.json")
    number = json.loads(receipt)["run"]["number"]
    for change in ({"hpcforge": "9999"}, {"run": {**json.loads(receipt)["run"], "number": 900_000_000}}):
        put(site, "n02", "receipt.json", sealed({**json.loads(receipt), **change}))
        line = site.revise("ground", "ground.conf.j2")
        done = site.apply(code=4)
        assert "n02 is unreachable and left out: its record " in done.stdout + done.stderr
        assert line in site.inside("n01", "cat /etc/faults/ground.conf")
        seen = json.loads(site.inside("n01", f"cat {KEPT}/receipt.json"))["run"]["number"]
        assert number < seen < number + 10
    put(site, "n02", "receipt.json", receipt)
    site.apply()
