"""deploy.py and Ansible roles on real nodes."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcforge import bundled
from hpcforge.downloads.collections import unpack
from hpcforge.engines import Engines
from hpcforge.engines.tasks import Ansible, Deploy, Event
from hpcforge.plan.desired import Artifact, Collection
from tests.stories.engines.conftest import Nodes, finish

pytestmark = pytest.mark.lab

DEPLOY = """
    from io import StringIO

    from pyinfra import host
    from pyinfra.operations import files, server

    text = files.put(name="Write greeting", src=StringIO(host.data.greeting + "\\n"), dest=host.data.dest, mode="600")
    files.put(name="Own file", src="own.txt", dest="/etc/engines-own.txt")
    files.put(name="Artifact", src=f"{host.data.artifacts}/wheel.whl", dest="/etc/engines-wheel")
    if text.did_change():
        server.shell(name="Count", commands=["echo $(whoami) >> /root/engines-count"])
    if host.data.breaks:
        server.shell(name="Break", commands=["echo on purpose >&2; exit 3"])
        server.shell(name="Never", commands=["touch /root/engines-never"])
"""
NAMES = ("n1", "n2", "n3", "n4")
ROLE = """
    - name: Write text
      ansible.builtin.copy:
        content: "{{ text }}\\n"
        dest: /etc/engines-text
        mode: "0644"
    - name: Write deep
      ansible.builtin.copy:
        content: "{{ deep | to_json }}"
        dest: /etc/engines-deep
        mode: "0644"
    - name: Break
      ansible.builtin.shell: echo on purpose >&2; exit 3
      when: breaks
"""


@pytest.fixture
def deploy(tmp_path: Path) -> Path:
    folder = tmp_path / "greeting"
    folder.mkdir()
    (folder / "deploy.py").write_text(textwrap.dedent(DEPLOY))
    (folder / "own.txt").write_text("own\n")
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / "wheel.whl").write_bytes(bytes(range(256)) * 100)
    return folder / "deploy.py"


@pytest.fixture
def role(tmp_path: Path) -> Path:
    folder = tmp_path / "site-motd"
    (folder / "tasks").mkdir(parents=True)
    (folder / "tasks" / "main.yml").write_text(textwrap.dedent(ROLE))
    return folder


def _named(events: list[Event], kind: str) -> list[str]:
    return [event.data["name"] for event in events if event.kind == kind]


def _inputs(node: str, **more: Any) -> dict[str, Any]:
    return {"greeting": f"{{{{ 7 * 6 }}}} {node}", "dest": "/etc/engines-greeting", "breaks": False, **more}


def test_operations_act_on_each_node_at_once_and_the_second_time_not_at_all(
    engines: Engines, nodes: Nodes, deploy: Path
) -> None:
    before = {node: nodes.inside(node, "ls -d /tmp/hpcforge-* 2>/dev/null || true") for node in ("n1", "n2")}
    for names in (["Write greeting", "Own file", "Artifact", "Count"], []):
        seen = finish(engines, *(Deploy(node, node, deploy, _inputs(node), 60.0) for node in ("n1", "n2")))
        for node, events in seen.items():
            assert events[-1].data["ok"], events[-1].data
            assert (_named(events, "changed"), events[-1].data["changed"]) == (names, bool(names))
            assert {event.data["role"] for event in events[:-1]} == {"greeting"}
            text = nodes.inside(node, "cat /etc/engines-greeting /etc/engines-own.txt /root/engines-count")
            assert text == f"{{{{ 7 * 6 }}}} {node}\nown\nroot\n"
            assert nodes.inside(node, "stat -c %a /etc/engines-greeting") == "600\n"
            assert nodes.inside(node, "ls -d /tmp/hpcforge-* 2>/dev/null || true") == before[node]


def test_a_failing_operation_stops_the_deploy_with_what_it_said(engines: Engines, nodes: Nodes, deploy: Path) -> None:
    events = finish(engines, Deploy("t", "n1", deploy, _inputs("n1", breaks=True), 60.0))["t"]
    assert events[-1].data["error"] == "greeting: Break failed on n1: on purpose"
    assert not events[-1].data["ok"]
    assert _named(events, "failed") == ["Break"]
    assert nodes.inside("n1", "ls /root/engines-never 2>/dev/null || true") == ""


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("host.data.missing", "deploy.py:2: AttributeError: Host `n1` has no data `missing`"),
        ("raise SystemExit(3)", "deploy.py:2: SystemExit: 3"),
        ("input()", "deploy.py:2: EOFError"),
        ("def", "deploy.py: SyntaxError"),
    ],
)
def test_a_deploy_that_is_wrong_is_told_by_line(engines: Engines, tmp_path: Path, line: str, error: str) -> None:
    source = tmp_path / "wrong" / "deploy.py"
    source.parent.mkdir()
    source.write_text(f"from pyinfra import host\n{line}\nprint('not among the events')\n")
    answer = engines.run(Deploy("t", "n1", source, {}, 60.0)).data
    assert not answer["ok"]
    assert error in answer["error"]


def test_a_deploy_that_is_late_ends_and_the_node_goes_on(engines: Engines, tmp_path: Path) -> None:
    source = tmp_path / "late" / "deploy.py"
    source.parent.mkdir()
    source.write_text("from pyinfra.operations import server\nserver.shell(name='Sleep', commands=['sleep 5'])\n")
    answer = engines.run(Deploy("t", "n1", source, {}, 1.0)).data
    assert "did not finish within 1 s on n1" in answer["error"]
    source.write_text("from pyinfra.operations import server\nserver.shell(name='True', commands=['true'])\n")
    assert engines.run(Deploy("t", "n1", source, {}, 30.0)).data["ok"]


def test_the_depot_serves_what_arrived_whole(engines: Engines, nodes: Nodes, tmp_path: Path) -> None:
    source = bundled.roles() / "depot" / "deploy.py"
    sha256 = hashlib.sha256(b"whole").hexdigest()
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / sha256).write_bytes(b"cut of")
    nodes.inside("n1", "mkdir -p /srv/hpcforge/depot/wheels")
    task = Deploy("t", "n1", source, {"serves": [{"name": "wheels/x.whl", "sha256": sha256}]}, 60.0)
    assert "but " + sha256 + " is pinned" in engines.run(task).data["error"]
    (tmp_path / "artifacts" / sha256).write_bytes(b"whole")
    first, again = engines.run(task).data, engines.run(task).data
    assert (first["ok"], first["changed"], again["ok"], again["changed"]) == (True, True, True, False)
    assert nodes.inside("n1", "cd /srv/hpcforge/depot/wheels && stat -c '%n %a %U' $(ls -A)") == "x.whl 644 root\n"


def test_an_ansible_role_gets_values_as_they_are(engines: Engines, nodes: Nodes, role: Path, tmp_path: Path) -> None:
    text = "{{ 7 * 6 }} {% raw %} {# no #} ' \" # $(id) é"
    deep = {"{{ 1 + 1 }}": ["{{ lookup('pipe', 'id') }}", 1, None, True], "x": {"y": "%}"}}
    inputs = {"text": text, "deep": deep, "breaks": False}
    first = finish(engines, Ansible("t", "n1", role, inputs, 120.0))["t"]
    assert first[-1].data["ok"], first[-1].data
    assert _named(first, "changed") == ["Write text", "Write deep"]
    assert nodes.inside("n1", "cat /etc/engines-text") == text + "\n"
    assert json.loads(nodes.inside("n1", "cat /etc/engines-deep")) == deep
    again = finish(engines, Ansible("t", "n1", role, inputs, 120.0))["t"]
    assert (again[-1].data["ok"], again[-1].data["changed"], _named(again, "changed")) == (True, False, [])
    until = time.monotonic() + 60  # the result is there when the node is through, its play a moment later
    while (left := sorted(path.name for path in (tmp_path / "work").iterdir())) != ["known_hosts"]:
        assert time.monotonic() < until, left
        time.sleep(0.1)


MODULE = """from ansible.module_utils.basic import AnsibleModule

module = AnsibleModule({"text": {"type": "str", "no_log": True}})
with open("/etc/engines-collection", "w") as file:
    file.write(module.params["text"])
module.exit_json(changed=True)
"""


def test_a_role_finds_the_collection_that_it_pins_and_no_other(engines: Engines, nodes: Nodes, tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    info = {"collection_info": {"namespace": "site", "name": "tools", "version": "1.2.3"}}
    with tarfile.open(artifacts / "aa", "w:gz") as tarball:
        for name, text in {"MANIFEST.json": json.dumps(info), "plugins/modules/put.py": MODULE}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tarball.addfile(entry, io.BytesIO(text.encode()))
    pinned = Collection("site.tools", "1.2.3", Artifact("collections/x.tar.gz", "https://example.org/x.tar.gz", "aa"))
    unpack([pinned], artifacts)
    role = tmp_path / "uses"
    (role / "tasks").mkdir(parents=True)
    (role / "tasks/main.yml").write_text("- {name: Put, site.tools.put: {text: '{{ text }}'}}\n")
    inputs = {"text": "hidden words"}
    events = finish(engines, Ansible("t", "n1", role, inputs, 120.0, (pinned.folder,)))["t"]
    assert events[-1].data["ok"], events[-1].data
    assert nodes.inside("n1", "cat /etc/engines-collection") == "hidden words"
    assert "hidden words" not in str(events)
    without = finish(engines, Ansible("t", "n1", role, inputs, 120.0))["t"][-1].data
    assert "site.tools.put" in str(without["error"])


def test_nodes_of_one_role_are_one_play_in_which_each_has_its_own_values_pace_and_end(
    nodes: Nodes, role: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """n3 is n2 by another name, and n4 a machine that is not there."""
    monkeypatch.setattr("hpcforge.engines.ansible.GATHER_S", 3.0)  # however long it takes to ask for four
    (role / "tasks" / "main.yml").write_text(
        "- name: Write text\n"
        "  ansible.builtin.copy: {content: '{{ text }}', dest: '/etc/engines-{{ inventory_hostname }}'}\n"
        "  notify: Tell\n"
        "- name: Sleep\n  ansible.builtin.command: 'sleep {{ sleep_s }}'\n"
        "- name: Break\n  ansible.builtin.command: 'false'\n  when: breaks\n"
    )
    (role / "handlers").mkdir()
    (role / "handlers" / "main.yml").write_text(
        "- name: Tell\n  ansible.builtin.command: 'touch /etc/engines-told-{{ inventory_hostname }}'\n"
    )
    n2 = nodes.targets["n2"]
    away = replace(n2, name="n4", address=nodes.lab.gateway.rsplit(".", 1)[0] + ".250")
    targets = [*nodes.targets.values(), replace(n2, name="n3"), away]
    inputs = {name: {"text": f"{{{{ 7 * 6 }}}} {name}", "sleep_s": "1", "breaks": name == "n2"} for name in NAMES}
    inputs["n1"]["sleep_s"] = "15"
    most, ends, said = 0, {}, {}
    with Engines(targets, tmp_path / "work", tmp_path) as engines:
        for name in NAMES:
            engines.start(Ansible(name, name, role, inputs[name], 120.0))
        while len(ends) < len(NAMES):
            event = engines.next(60.0)
            assert event is not None, ends
            said.setdefault(event.node, []).append(event)
            if event.kind == "result":
                ends[event.node] = event.data
            most = max(most, len([line for line in _seen_with(str(tmp_path)) if "-m ansible_runner run" in line]))
    assert most == 1
    assert list(ends)[-1] == "n1"  # which slept, while the others had ended
    assert {name: (data["ok"], data["error"]) for name, data in ends.items() if name != "n4"} == {
        "n1": (True, None),
        "n2": (False, "site-motd on n2: Break: non-zero return code"),
        "n3": (True, None),
    }
    assert (ends["n4"]["unreachable"], ends["n4"]["ok"]) == (True, False)
    assert ends["n4"]["error"].startswith("site-motd on n4: ")
    assert {event.task for name in NAMES for event in said[name]} == set(NAMES)
    assert _named(said["n1"], "changed") == ["Write text", "Sleep", "Tell"]
    assert (_named(said["n2"], "changed"), _named(said["n2"], "failed")) == (["Write text", "Sleep"], ["Break"])
    for name, node in {"n1": "n1", "n2": "n2", "n3": "n2"}.items():
        assert nodes.inside(node, f"cat /etc/engines-{name}") == f"{{{{ 7 * 6 }}}} {name}"
    assert nodes.inside("n2", "ls /etc | grep engines-told") == "engines-told-n3\n"


def test_what_a_role_mends_has_not_failed_and_what_is_of_a_whole_play_is_of_each_node(
    nodes: Nodes, role: Path, tmp_path: Path
) -> None:
    mending = (
        "- block:\n  - {name: Break, ansible.builtin.command: 'false'}\n"
        "  rescue:\n  - {name: Mend, ansible.builtin.command: 'touch /etc/engines-mended'}\n"
    )
    whole = (
        "- {name: Wait, ansible.builtin.pause: {seconds: 1}}\n"
        "- {name: Once, ansible.builtin.command: 'touch /etc/engines-once', run_once: true}\n"
        "- {ansible.builtin.meta: end_play}\n"
        "- {name: Never, ansible.builtin.command: 'false'}\n"
    )
    (role / "tasks" / "main.yml").write_text(mending)
    other = tmp_path / "whole"
    (other / "tasks").mkdir(parents=True)
    (other / "tasks" / "main.yml").write_text(whole)
    with Engines(nodes.targets.values(), tmp_path / "work", tmp_path) as engines:
        mends = (Ansible(f"mends:{name}", name, role, {}, 120.0) for name in nodes.targets)
        wholes = (Ansible(f"whole:{name}", name, other, {}, 120.0) for name in nodes.targets)
        seen = finish(engines, *mends, *wholes)
    for task, events in seen.items():
        assert events[-1].data["ok"], (task, events[-1].data)
        assert _named(events, "failed") == []
        assert _named(events, "changed") == [{"mends": "Mend", "whole": "Once"}[task.split(":")[0]]]
    for name in nodes.targets:
        nodes.inside(name, "ls /etc/engines-mended /etc/engines-once")


def test_what_waits_for_a_play_can_be_withdrawn_and_what_is_at_work_finishes(
    nodes: Nodes, role: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcforge.engines.ansible._memory_mib", lambda: 1.0)  # so that there is room for one node
    (role / "tasks" / "main.yml").write_text(
        "- {name: Sleep, ansible.builtin.command: sleep 2}\n"
        "- {name: Mark, ansible.builtin.command: touch /etc/engines-went-on}\n"
    )
    with Engines(nodes.targets.values(), tmp_path / "work", tmp_path) as engines:
        engines.start(Ansible("a", "n1", role, {}, 120.0))
        while (event := engines.next(60.0)) is not None and event.data.get("detail") != "Sleep":
            pass
        engines.start(Ansible("b", "n2", role, {}, 120.0))
        assert (engines.withdraw("a"), engines.withdraw("b"), engines.withdraw("b")) == (False, True, False)
        heard = []
        while (event := engines.next(60.0)) is not None and event.kind != "result":
            heard.append(event)
        assert event is not None
        assert (event.task, event.data["ok"]) == ("a", True), event.data
        assert engines.next(3.0) is None  # nothing of n2, for which there would be room now
    nodes.inside("n1", "ls /etc/engines-went-on")
    assert nodes.inside("n2", "ls /etc/engines-went-on 2>/dev/null || true") == ""
    assert [one.data["detail"] for one in heard if one.node == "n2"] == ["waiting for a play"]


def test_a_play_that_is_late_is_late_for_those_that_are_still_at_it(nodes: Nodes, role: Path, tmp_path: Path) -> None:
    (role / "tasks" / "main.yml").write_text(
        "- name: Sleep\n  ansible.builtin.command: 'sleep {{ sleep_s }}'\n  when: sleep_s != '0'\n"
    )
    with Engines(nodes.targets.values(), tmp_path / "work", tmp_path) as engines:
        late = (
            Ansible(name, name, role, {"sleep_s": sleep_s}, 40.0) for name, sleep_s in (("n1", "8155"), ("n2", "0"))
        )
        seen = finish(engines, *late)
    assert seen["n2"][-1].data["ok"]
    assert "not finished within 40 s" in seen["n1"][-1].data["error"]
    nodes.inside("n1", "pkill -f 'sleep 815[5]' || true")


def test_a_failing_ansible_task_is_named(engines: Engines, role: Path) -> None:
    inputs = {"text": "a", "deep": [], "breaks": True}
    events = finish(engines, Ansible("t", "n2", role, inputs, 120.0))["t"]
    assert _named(events, "failed") == ["Break"]
    assert events[-1].data["error"] == "site-motd on n2: Break: on purpose"
    assert not events[-1].data["ok"]
    assert events[-1].data["changed"]


def test_ansible_too_refuses_a_changed_host_key(nodes: Nodes, role: Path, tmp_path: Path) -> None:
    wrong = replace(nodes.targets["n1"], host_keys=nodes.targets["n2"].host_keys)
    with Engines([wrong], tmp_path / "work", tmp_path) as engines:
        answer = engines.run(Ansible("t", "n1", role, {"text": "a", "deep": [], "breaks": False}, 60.0)).data
    assert (answer["ok"], answer["unreachable"], answer["reason"]) == (False, True, "host-key")


def test_closing_ends_ansible(nodes: Nodes, role: Path, tmp_path: Path) -> None:
    (role / "tasks" / "main.yml").write_text("- name: Sleep\n  ansible.builtin.command: sleep 8153\n")
    with Engines(nodes.targets.values(), tmp_path / "work", tmp_path) as engines:
        engines.start(Ansible("t", "n1", role, {}, 60.0))
        while (event := engines.next(30.0)) is not None and event.data.get("detail") != "Sleep":
            pass
        nodes.inside("n1", "timeout 60 sh -c 'until pgrep -f \"sleep 815[3]\"; do sleep 0.1; done'")
    assert _processes_with(str(tmp_path)) == []
    nodes.inside("n1", "pkill -f 'sleep 815[3]' || true")


def _processes_with(text: str) -> list[str]:
    until = time.monotonic() + 60
    while (found := _seen_with(text)) and time.monotonic() < until:
        time.sleep(0.1)
    return found


def _seen_with(text: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line and " -m pytest" not in line:
            found.append(line)
    return found


@pytest.fixture
def strict(nodes: Nodes) -> Iterator[str]:
    """A node whose logins and sudo have umask 077, by PAM."""
    nodes.inside("n2", f"for f in {_SESSIONS}; do cp -p $f $f.kept; echo '{_UMASK}' >>$f; done")
    try:
        assert nodes.inside("n2", "umask") == "0077\n"
        yield "n2"
    finally:
        nodes.inside("n2", f"for f in {_SESSIONS}; do mv $f.kept $f; done; rm -rf /opt/engines-*")


_SESSIONS = "/etc/pam.d/common-session /etc/pam.d/common-session-noninteractive"
_UMASK = "session optional pam_umask.so umask=077"
_MODES = "cd /opt && find engines-{} -printf '%m %p\\n' | sort -k 2"


def test_what_a_deploy_writes_can_be_read_where_logins_have_a_strict_umask(
    engines: Engines, nodes: Nodes, tmp_path: Path, strict: str
) -> None:
    source = tmp_path / "umasks" / "deploy.py"
    source.parent.mkdir()
    source.write_text(
        "from io import StringIO\n"
        "from pyinfra.operations import files, server\n"
        "files.directory(path='/opt/engines-deploy')\n"
        "files.put(src=StringIO('x'), dest='/opt/engines-deploy/text')\n"
        "files.put(src=StringIO('x'), dest='/opt/engines-deploy/secret', mode='600')\n"
        "server.shell(commands=['mkdir -p a/b; echo x >a/b/made'], _chdir='/opt/engines-deploy', _env={'X': 'y'})\n"
    )
    answer = engines.run(Deploy("t", strict, source, {}, 60.0)).data
    assert answer["ok"], answer
    assert nodes.inside(strict, _MODES.format("deploy")).splitlines() == [
        "755 engines-deploy",
        "755 engines-deploy/a",
        "755 engines-deploy/a/b",
        "644 engines-deploy/a/b/made",
        "600 engines-deploy/secret",
        "644 engines-deploy/text",
    ]


def test_what_ansible_writes_can_be_read_where_logins_have_a_strict_umask(
    engines: Engines, nodes: Nodes, tmp_path: Path, strict: str
) -> None:
    tasks = tmp_path / "umasks" / "tasks"
    tasks.mkdir(parents=True)
    (tasks / "main.yml").write_text(
        textwrap.dedent("""
            - ansible.builtin.file: {path: /opt/engines-ansible, state: directory}
            - ansible.builtin.copy: {content: x, dest: /opt/engines-ansible/text}
            - ansible.builtin.copy: {content: x, dest: /opt/engines-ansible/secret, mode: "0600"}
            - ansible.builtin.shell: mkdir -p a && echo "$SITE" >a/made
              args: {chdir: /opt/engines-ansible}
              environment: {SITE: x}
            - ansible.builtin.command: touch /opt/engines-ansible/beside
              environment: {SITE: x}
              async: 20
              poll: 1
        """)
    )
    answer = engines.run(Ansible("t", strict, tmp_path / "umasks", {}, 120.0)).data
    assert answer["ok"], answer
    assert nodes.inside(strict, _MODES.format("ansible")).splitlines() == [
        "755 engines-ansible",
        "755 engines-ansible/a",
        "644 engines-ansible/a/made",
        "644 engines-ansible/beside",
        "600 engines-ansible/secret",
        "644 engines-ansible/text",
    ]
