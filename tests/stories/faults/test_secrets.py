"""Secrets that a role has inside a file: they are in that file, and nowhere else that this looks."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from hpcforge.secrets.secrets import read_secrets
from tests.stories.faults.conftest import NODES, REPOSITORY, ROLES, Site

pytestmark = pytest.mark.lab

ROLE = """\
description: A service with a password that hpcforge makes and a licence that the site provides.
on: "true"
secrets:
  db_password: {description: of the database, length: 32}
  licence: {description: what the vendor gave, provided: true}
files:
  - {path: /etc/app/app.conf, scope: node, mode: "0640"}
"""
TEMPLATE = "host {{ node.name }}\npassword = {{ secret('db_password') }}\nlicence = \"{{ secret('licence') }}\"\n"
LICENCE = "rosebud"  # weak enough to be found by a plain digest
SAYS_NO = ROLE.replace('mode: "0640"', 'mode: "0640", verify: [sh, -c, "cat $0; exit 1", "{file}"]')
# hpcforge with a mistake of its own at the place where the values are at hand.
BROKEN = """\
import sys
from pathlib import Path
from tests.support.with_roles import instead
instead(Path(sys.argv.pop(1)))
from hpcforge.__main__ import main
from hpcforge.secrets.secret_files import Contents

def put(self, file, found):
    content = self.content(file)
    raise RuntimeError("a mistake of hpcforge's own")

Contents.put = put
main()
"""


def give_role(site: Site, text: str, template: str = TEMPLATE) -> None:
    """Have this one role and no other."""
    for name in ROLES:
        if (site.roles / name).exists():
            subprocess.run(["rm", "-r", str(site.roles / name)], check=True)
    (site.roles / "app/files/etc/app").mkdir(parents=True, exist_ok=True)
    (site.roles / "app/role.yaml").write_text(text)
    (site.roles / "app/files/etc/app/app.conf.j2").write_text(template)


def secrets(site: Site, verb: str, *more: str, value: str = "") -> subprocess.CompletedProcess[str]:
    """`hpcforge secrets`, with a value on its standard input."""
    start = site._words(("secrets",))[:-2]
    argv = [*start, "secrets", verb, str(site.blueprint), *more]
    done = subprocess.run(argv, env=site._environment({}), input=value, capture_output=True, text=True, check=False)
    print(f"$ hpcforge secrets {verb} {more}\n{done.stderr}{done.stdout}")
    return done


class Watched(threading.Thread):
    """Arguments and environment of every process of this machine, its nodes' too, for as long as this is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[bytes] = set()
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.02):
            for path in Path("/proc").glob("[0-9]*"):
                for name in ("cmdline", "environ"):
                    try:
                        self.seen.add((path / name).read_bytes())
                    except OSError:
                        continue  # it has ended

    def __enter__(self) -> Watched:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()


def forms(value: bytes) -> Iterable[bytes]:
    """A value as it stands, and as it may be written."""
    digest = hashlib.sha256(value)
    return (
        value,
        base64.b64encode(value).rstrip(b"="),
        value.hex().encode(),
        digest.hexdigest().encode(),
        digest.digest(),
    )


def assert_nowhere(values: Iterable[bytes], places: dict[str, bytes]) -> None:
    """None of the values is in any of the places, in any form."""
    found = [where for where, data in places.items() for value in values for form in forms(value) if form in data]
    assert not found


def left_on(site: Site, node: str) -> dict[str, bytes]:
    """All that hpcforge and the system's logs keep on a node, but for originals, which only root can read."""
    script = "tar c --ignore-failed-read /var/lib/hpcforge /run/hpcforge /var/log /tmp 2>/dev/null | base64 -w0"
    places = {f"{node}: journal": site.inside(node, "journalctl --no-pager -o export | cat -v").encode()}
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(site.inside(node, script)))) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None and "/originals/" not in member.name:
                places[f"{node}: {member.name}"] = file.read()
    assert any(where.endswith("receipt.json") for where in places)
    return places


def test_a_secret_is_in_its_file_and_nowhere_else(site: Site) -> None:
    give_role(site, ROLE)
    refused = site.run("plan")
    assert refused.returncode == 3
    assert "secret licence is not set: role app wants it in /etc/app/app.conf" in refused.stderr
    assert f"secrets set {site.blueprint} licence" in refused.stderr
    assert secrets(site, "set", "licence", value=f"{LICENCE}\n").returncode == 0
    plan_file = site.folder / "site.plan"
    with Watched() as watched:
        planned = site.run("plan", "--new-files", "-o", str(plan_file))
        as_json = site.run("plan", "--json")
        run = site.start("--plan", str(plan_file))
        assert run.end(400) == 0, run.said()
    assert "+password = (secret)" in planned.stdout
    kept = read_secrets(site.folder / "site.age", site.folder / "age.key")
    first = kept["db_password"]
    for node in NODES:
        there = f'host {node}\npassword = {first.decode()}\nlicence = "{LICENCE}"\n'
        assert site.inside(node, "cat /etc/app/app.conf; stat -c %a /etc/app/app.conf") == f"{there}640\n"
    assert site.run("plan").returncode == 0

    assert secrets(site, "rotate", "db_password").returncode == 0
    again = site.run("plan")
    assert "app  n[01-02]  (input changed" in again.stdout
    assert "      secret db_password changed\n" in again.stdout
    give_role(site, ROLE, TEMPLATE.replace("licence =", "license ="))
    both = site.run("plan")
    assert '      -(not shown)\n      +license = "(secret)"\n' in both.stdout

    give_role(site, SAYS_NO)
    told = site.run("apply", "--yes")
    assert told.returncode == 5
    assert "rejects the new content" in told.stdout + told.stderr
    fault = subprocess.run(
        [sys.executable, "-c", BROKEN, str(site.roles), "apply", str(site.blueprint), "--yes"],
        cwd=REPOSITORY, env=site._environment({}), stdin=subprocess.DEVNULL, capture_output=True, check=False,
        timeout=300,
    )  # fmt: skip
    assert b"a mistake of hpcforge's own" in fault.stderr
    give_role(site, ROLE)
    assert site.apply().returncode == 0
    second = read_secrets(site.folder / "site.age", site.folder / "age.key")["db_password"]
    assert second != first
    assert second.decode() in site.inside("n02", "cat /etc/app/app.conf")
    give_role(site, ROLE, "nothing secret any more\n")
    plain = site.run("plan")
    assert "held a secret" in plain.stdout

    texts = {
        "plan": planned.stdout + planned.stderr + again.stdout + both.stdout + plain.stdout,
        "plan --json": as_json.stdout,
        "plan file": plan_file.read_text(),
        "events": json.dumps(run.events) + run.said(),
        "refused by verify": told.stdout + told.stderr,
        "list": secrets(site, "list").stdout + secrets(site, "list", "--json").stdout,
    }
    places = {where: text.encode() for where, text in texts.items()}
    places |= {"traceback": fault.stdout + fault.stderr, "processes": b"\n".join(watched.seen)}
    places |= {str(path): path.read_bytes() for path in (site.folder / "state").rglob("*") if path.is_file()}
    for node in NODES:
        places |= left_on(site, node)
    assert_nowhere([first, second, LICENCE.encode()], places)
