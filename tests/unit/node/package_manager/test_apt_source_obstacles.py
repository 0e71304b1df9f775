"""Package sources that fail, as the real apt says of sources of the test."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hpcforge.node import commands, receipt
from hpcforge.node.inspection import Conflict, Inspection
from hpcforge.node.package_manager.apt import files as apt_files
from hpcforge.node.package_manager.apt import obstacles as apt_obstacles
from hpcforge.node.package_manager.apt import simulation as apt_simulation
from tests.support.apt_root import AptRoot, apt_root

DEAD = "deb http://127.0.0.2:9/debian bookworm main\n"  # nothing listens on the port of `discard`


@pytest.fixture
def root(tmp_path, monkeypatch):
    with apt_root(tmp_path, {"munge": "", "jq": ""}) as made:
        for name, value in made.environment().items():
            monkeypatch.setitem(commands.ENVIRONMENT, name, value)
        entries = apt_files.sources
        monkeypatch.setattr(apt_files, "sources", lambda: entries(made.sources, tmp_path / "none"))
        monkeypatch.setattr(apt_obstacles, "_CONFIGURATION", (made.configuration, made.configuration.parent / "conf.d"))
        yield made


def search(*names: str, sources: tuple[str, ...] = ()) -> list[Conflict | str]:
    work = {"role": "munge", "packages": list(names), "sources": [{"name": name} for name in sources]}
    apt_simulation.foresee(names)
    return list(apt_obstacles.search_sources(Inspection([work], {"munge": work}, receipt.EMPTY)))


def add(root: AptRoot, text: str) -> None:
    root.sources.write_text(root.sources.read_text() + text)


def test_a_source_that_answers_is_none(root):
    assert search("munge") == []


def test_a_dead_source_that_the_plan_does_not_need_is_none(root):
    add(root, DEAD)
    assert search("munge") == []


def test_a_source_that_no_longer_has_its_packages_is_named_with_its_line(root):
    (root.repository / "munge_1_all.deb").unlink()
    [conflict] = search("munge")
    assert conflict[1:3] == ("package source", f"{root.sources}:1")
    assert "404" in conflict.why
    assert conflict.commands == (f"sed -i '1s/^/# /' {root.sources}",)


def test_a_dead_source_is_named_where_no_other_has_the_package(root):
    add(root, DEAD)
    [conflict] = search("munge", "nosuch")
    assert conflict.name == f"{root.sources}:2"
    assert "Connection refused" in conflict.why
    assert conflict.why.endswith("no other source has nosuch")
    assert search("nosuch", sources=("site",)) == []  # it may come from what the plan adds


def test_a_dead_source_is_a_warning_where_the_others_have_all(root):
    add(root, DEAD)
    for path in (root.configuration.parent.parent / "lists").glob("*Packages"):
        path.unlink()
    [warning] = search("munge")
    assert warning.startswith(f"package source {root.sources}:2: ")


def test_an_unsigned_source_is_named(root):
    root.sources.write_text(f"deb {root.uri} ./\n")
    [conflict] = search("nosuch")
    assert conflict.name == f"{root.sources}:1"
    assert "is not signed" in conflict.why


def test_a_dead_proxy_is_named_with_its_line_and_without_its_password(root):
    path = root.configuration.parent / "conf.d/95proxy"
    path.write_text('// site\nAcquire::http::Proxy "http://user:secret@127.0.0.1:9";\n')
    [conflict] = search("munge")
    assert conflict[1:3] == ("file", str(path))
    assert conflict.why.startswith("line 2 sends apt to the proxy 127.0.0.1:9: ")
    assert "secret" not in conflict.why
    assert conflict.commands == (f"sed -i '2s,^,// ,' {path}",)


def test_a_failure_that_does_not_come_twice_is_no_obstacle(tmp_path):
    answer = r'printf "Err:1 http://a.example.org b\n  timed out\n"'
    script = f"test -e {tmp_path}/tried || {{ : >{tmp_path}/tried; {answer}; }}"
    assert apt_obstacles._attempt(["sh", "-c", script]) == [("http://a.example.org b", "timed out")]
    (tmp_path / "tried").unlink()
    assert apt_obstacles._apt(["sh", "-c", script]) == []


def test_a_proxy_that_answers_is_not_blamed_for_a_source(root):
    class Unavailable(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(503, "Host not found")

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Unavailable) as proxy:
        threading.Thread(target=proxy.serve_forever).start()
        path = root.configuration.parent / "conf.d/95proxy"
        path.write_text(f'Acquire::http::Proxy "http://127.0.0.1:{proxy.server_port}";\n')
        [conflict] = search("munge")
        proxy.shutdown()
    assert conflict.kind == "package source"
    assert "503" in conflict.why


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('Acquire::http::Proxy "http://proxy.example.org:3128/";\n', [(1, "proxy.example.org:3128")]),
        ('Acquire { http { Proxy "http://10.0.0.1:80"; }; };\n', [(1, "10.0.0.1:80")]),
        ('# Acquire::http::Proxy "http://a:1";\n//Acquire::https::Proxy "http://b:1";\n', []),
        (
            'Acquire::http::Proxy::mirror.example.org "DIRECT";\nAcquire::https::proxy "u:p@c:1";\n',
            [(1, "DIRECT"), (2, "c:1")],
        ),
    ],
)
def test_proxies_of_apts_settings(tmp_path, text, found):
    (tmp_path / "10proxy").write_text(text)
    read = list(apt_files.proxies(Path("/nonexistent"), tmp_path))
    assert [(line, place) for _, line, place in read] == found
