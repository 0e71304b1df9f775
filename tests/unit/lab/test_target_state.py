from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from hpcforge.lab import lab as labs
from hpcforge.lab import state, target_state
from hpcforge.lab.errors import LabError, UnknownKindError
from hpcforge.lab.packages import choose_cache, served_caches
from hpcforge.lab.state import Lab, LabNode

TREES = {"12": target_state.Trees(("/c/python", "/c/system"), ("/c/system",))}
REQUEST = target_state.UpRequest(
    name="lab-one",
    kind="nspawn",
    nodes=(LabNode("head", "10.77.3.10"), LabNode("w01", "10.77.3.11", python=False)),
    cidr="10.77.3.0/24",
    login_user="ops",
    release="12",
    blueprint=Path("/b.yaml"),
    network="cluster",
)


def lab() -> Lab:
    return target_state.new_lab(
        REQUEST, TREES, subnet=IPv4Network("10.77.8.0/24"), tag="hf0001", port=3177, packages_cache="/c/apt/0"
    )


def test_a_new_lab_in_another_subnet() -> None:
    made = lab()
    assert [(node.name, node.address, node.layers, node.disks) for node in made.nodes] == [
        ("head", "10.77.8.10", ("/c/python", "/c/system"), (1,)),
        ("w01", "10.77.8.11", ("/c/system",), (2,)),
    ]
    assert made.gateway == "10.77.8.1"


def test_a_lab_that_grows_keeps_its_nodes() -> None:
    nodes = (*REQUEST.nodes[:1], LabNode("w01", "10.77.3.11"), LabNode("w02", "10.77.3.12", python=False))
    grown = target_state.grown_lab(lab(), replace(REQUEST, nodes=nodes), TREES)
    assert grown.nodes[:2] == lab().nodes  # w01 keeps the disk that it was made with
    assert (grown.node("w02").address, grown.node("w02").python) == ("10.77.8.12", False)
    assert (grown.node("w02").disks, grown.disks_made) == ((3,), 3)


def test_a_node_of_another_release_has_a_base_of_its_own_and_changes_it_with_its_disk_alone() -> None:
    trees = {**TREES, "13": target_state.Trees(("/d/python", "/d/system"), ("/d/system",))}
    nodes = (REQUEST.nodes[0], replace(REQUEST.nodes[1], release="13"))
    asked = replace(REQUEST, nodes=nodes)
    assert target_state.releases(asked) == ("12", "13")
    with pytest.raises(LabError, match="node w01 is Debian 12, not 13"):
        target_state.grown_lab(lab(), asked, trees)
    moved = target_state.grown_lab(lab(), asked, trees, bare=["w01"])
    assert [(node.layers, node.release) for node in moved.nodes] == [
        (("/c/python", "/c/system"), None),
        (("/d/system",), "13"),
    ]
    assert target_state.grown_lab(moved, REQUEST, trees, bare=["w01"]).nodes == lab().nodes


def test_only_who_is_not_there_yet_comes() -> None:
    assert target_state.comes(None, REQUEST)
    assert not target_state.comes(lab(), replace(REQUEST, nodes=REQUEST.nodes[1:]))
    assert target_state.comes(lab(), replace(REQUEST, nodes=(*REQUEST.nodes, LabNode("w02", "10.77.3.12"))))


def test_a_lab_that_shrinks_keeps_the_others_aside() -> None:
    shrunk = target_state.grown_lab(lab(), replace(REQUEST, nodes=REQUEST.nodes[:1]), TREES)
    assert shrunk.nodes == lab().nodes
    assert shrunk.in_blueprint == ("head",)


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        (replace(REQUEST, release="13"), "Debian 12, not 13"),
        (replace(REQUEST, kind="submarine"), "of the kind nspawn, not submarine"),  # type: ignore[arg-type]
        (replace(REQUEST, login_user="eve"), "login user ops, not eve"),
        (replace(REQUEST, cidr="10.77.3.0/25"), "prefix length 24, not 25"),
        (replace(REQUEST, nodes=(LabNode("head", "10.77.3.20"),)), r"head has 10\.77\.8\.10 .* 10\.77\.8\.20"),
        (replace(REQUEST, nodes=(LabNode("new", "10.77.3.11"),)), "w01 and new have the same"),
        (replace(REQUEST, nodes=(LabNode("new", "10.77.3.1"),)), "is the host's own"),
    ],
)
def test_changes_that_a_lab_cannot_follow(request_: target_state.UpRequest, complaint: str) -> None:
    with pytest.raises(LabError, match=complaint):
        target_state.grown_lab(lab(), request_, TREES)


@pytest.mark.parametrize(
    ("nodes", "complaint"),
    [
        ((), "at least one node"),
        ((LabNode("a"), LabNode("a")), "named twice"),
        ((LabNode("a;b"),), "not a valid node name"),
        ((LabNode("a", "10.9.9.9"),), "not a host address"),
    ],
)
def test_requests_that_are_refused(nodes: tuple[LabNode, ...], complaint: str) -> None:
    with pytest.raises(LabError, match=complaint):
        target_state.check(replace(REQUEST, nodes=nodes))


def test_a_lab_has_nothing_of_networks_to_avoid_and_its_users_number() -> None:
    asked = replace(REQUEST, login_uid=1900, avoid=(IPv4Network("10.20.0.0/22"),))
    assert target_state.grown_lab(lab(), asked, TREES).login_uid == 1900
    with pytest.raises(LabError, match=r"is on 10[.]77[.]8[.]0/24, where the blueprint has machines"):
        target_state.grown_lab(lab(), replace(asked, avoid=(IPv4Network("10.77.0.0/20"),)), TREES)


def test_what_is_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpcforge.host.paths.STATE", tmp_path / "state")
    for one in (lab(), state.saved(lab(), "first", saved_s=1.5, running={"w01"})):
        state.save(one)
        assert state.read("lab-one") == one
    assert state.read("lab-two") is None
    assert lab().directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", '{"schema": 1}', '{"schema": 2, "nodes": [{}]}', "\0", '{"schema": 2, "kind": "nspawn"}',
        '{"schema": 1, "kind": "nspawn"}',
    ],
)  # fmt: skip
def test_a_broken_record_is_said_to_be_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("hpcforge.host.paths.STATE", tmp_path / "state")
    state.save(lab())
    (lab().directory / "lab.json").write_text(text)
    with pytest.raises(LabError, match="cannot be read") as error:
        state.read("lab-one")
    assert "rehearse down" in error.value.hint
    assert state.others("lab-two") == ()


def rewritten(change: dict[str, str | None]) -> None:
    path = lab().directory / "lab.json"
    written = {**json.loads(path.read_text()), **change}
    path.write_text(json.dumps({key: value for key, value in written.items() if value is not None}))


def test_a_record_without_a_kind_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpcforge.host.paths.STATE", tmp_path / "state")
    state.save(lab())
    rewritten({"kind": None})
    with pytest.raises(LabError, match="does not say what kind of lab it is: an older version") as error:
        state.read("lab-one")
    assert error.value.hint == "remove the lab: `hpcforge rehearse down --lab lab-one`"


def test_a_lab_of_an_unknown_kind_is_left_to_the_version_that_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcforge.host.paths.STATE", tmp_path / "state")
    monkeypatch.setattr("hpcforge.host.paths.RUN", tmp_path / "run")
    monkeypatch.setattr("hpcforge.host.commands.os.geteuid", lambda: 0)
    state.save(lab())
    rewritten({"kind": "submarine"})
    before = (lab().directory / "lab.json").read_text()
    for verb in (
        labs.load,
        labs.status,
        lambda name: labs.down(name, None, print),
        lambda name: labs.down(name, ["head"], print),
    ):
        with pytest.raises(
            UnknownKindError,
            match="'submarine' is not a kind of lab that this hpcforge knows \\(nspawn, vm, vagrant\\)",
        ) as error:
            verb("lab-one")
        assert "the version of hpcforge that started it" in error.value.hint
    assert (lab().directory / "lab.json").read_text() == before


def test_the_first_free_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPCFORGE_CACHE_DIR", "/c")
    assert choose_cache([]) == "/c/apt/0"
    assert choose_cache(["/c/apt/0", "/c/apt/2"]) == "/c/apt/1"
    assert choose_cache(["/c/apt/1"]) == "/c/apt/0"


def test_the_cache_of_a_lab_that_cannot_be_read_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpcforge.lab.packages.RUN", tmp_path)
    assert served_caches() == set()
    for name in ("packages-old", "lab-old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "acng.conf").write_text(f"# ours\nCacheDir: /c/apt/{name}\nPort: 3177\n")
    assert served_caches() == {"/c/apt/packages-old"}
