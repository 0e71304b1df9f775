"""`hpcforge init` writes two valid files, once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcforge.cli import run


def test_it_writes_a_valid_blueprint_and_its_inventory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "my_site.yaml"
    assert run(["init", str(file), "--template", "nvlink", "--workers", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["nodes"] == 4
    assert run(["validate", str(file)]) == 0
    assert "name: my-site\n" in file.read_text()
    assert "g03: {address: 10.20.0.103}" in Path(told["inventory"]).read_text()


@pytest.mark.parametrize("name", ["{x}: y.yaml", "loop"])
def test_a_name_that_no_blueprint_can_have_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert run(["init", str(tmp_path / name), "--template", "mixed"]) == 3
    assert f"error: {tmp_path / name}" in (output := capsys.readouterr().err)
    assert "hint: choose another name" in output


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"ClusterName=x\n# f\xfcr alle\n", ":2:4: the file is not UTF-8"),
        (b"", ": the file is empty"),
        (b"all:\n  hosts:\n\tw1:\n", ": line 3: it is not YAML"),
        (b"---\nall: {hosts: {w1: }}\n---\nx: 1\n", ": line 3: it is not YAML"),
        (b"a: " + b"[" * 5000, ": line 1: it is not YAML"),
        (b"NodeName=n[1-20000] CPUs=4\n", ": more than 10000 machines"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_a_hint(
    content: bytes, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "given").write_bytes(content)
    assert run(["init", str(tmp_path / "x.yaml"), "--from", str(tmp_path / "given")]) == 3
    assert f"error: {tmp_path}/given{place}" in (output := capsys.readouterr().err)
    assert "hint: " in output
    assert "unicode string" not in output


def test_a_file_of_utf_16_is_read(tmp_path: Path) -> None:
    (tmp_path / "given").write_bytes("10.0.0.1 head\n10.0.0.2 w1\n".encode("utf-16"))
    assert run(["init", str(tmp_path / "x.yaml"), "--from", str(tmp_path / "given")]) == 0


def test_it_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("mine")
    assert run(["init", str(file), "--template", "roce"]) == 3
    assert file.read_text() == "mine"
    assert "nothing was written" in capsys.readouterr().err


def test_what_is_missing_is_asked_or_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "site.yaml"
    assert run(["init", str(file)]) == 3  # no terminal
    assert "--template mixed|nvlink|one-machine|roce" in capsys.readouterr().err
    assert run(["init"]) == 0
    assert "nvlink" in capsys.readouterr().out
    (tmp_path / "hosts").write_text("nothing here\n")
    assert run(["init", str(file), "--from", str(tmp_path / "hosts")]) == 3
    assert "this file has no machine" in capsys.readouterr().err
    assert not file.exists()


@pytest.mark.parametrize("unwritable", ["site.yaml", "site.inventory.yaml"])
def test_both_files_are_written_or_none(tmp_path: Path, unwritable: str) -> None:
    (tmp_path / "none").write_text("")
    (tmp_path / unwritable).symlink_to(tmp_path / "none" / "away")  # its folder is none, and cannot be made
    assert run(["init", str(tmp_path / "site.yaml"), "--template", "nvlink", "--workers", "3"]) != 0
    assert {path.name for path in tmp_path.iterdir()} == {"none", unwritable}


def test_machines_are_asked_only_with_their_keys_accepted(tmp_path: Path) -> None:
    file = str(tmp_path / "a.yaml")
    assert run(["init", file, "--ssh", "127.77.9.1"]) == 3
    assert run(["init", file, "--ssh", "127.77.9.1", "--trust-new", "--template", "nvlink"]) == 3
    assert run(["init", file, "--ssh", "nowhere", "--trust-new"]) == 3
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("server", ["lenovo-sr680a-v3", "dgx-b200", "generic-vm"])
def test_a_server_of_which_facts_are_unknown_is_written_with_guesses(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new" / "site.yaml"
    assert run(["init", str(file), "--template", "roce", "--server", server]) == 0
    assert run(["validate", str(file)]) == 0
    assert "# guess" in file.read_text()


def test_lines_of_a_file_that_would_be_wrong_are_those_of_the_users_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts").write_text("10.0.0.1 head\n10.0.0.2 w1\n10.0.0.3 w2\n")
    assert run(["init", "site.yaml", "--from", "hosts", "--network", "10.9.0.0/24"]) == 3
    said = capsys.readouterr().err
    assert "nothing was written: site.yaml would be invalid with these lines; correct hosts\n" in said
    assert "\nsite.inventory.yaml:" in said
    assert "/tmp" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["hosts"]


@pytest.mark.parametrize(
    ("stem", "name"),
    [("01-site", "site"), ("2026", "cluster"), ("My_Site.v2", "my-site-v2"), ("a" * 30 + "-b", "a" * 30)],
)
def test_a_name_of_any_file_becomes_one_of_a_cluster(stem: str, name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{stem}.yaml"
    assert run(["init", str(file), "--template", "mixed"]) == 0
    assert f"\nname: {name}\n" in file.read_text()


def test_slurm_conf_is_taken_with_the_files_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Name and domain are the site's; what is left out is named with its file and line."""
    old = tmp_path / "etc"
    old.mkdir()
    (old / "slurm.conf").write_text(
        "ClusterName=fir\nSlurmctldHost=head.fir.example.org\nSlurmUser=slurm\nInclude nodes.conf\nInclude more.conf\n"
        "PartitionName=main Nodes=ALL Default=YES PriorityTier=3\n"
    )
    (old / "nodes.conf").write_text("# two\nNodeName=g[1-2] CPUs=64 RealMemory=250000 Gres=gpu:4 TmpDisk=9\n")
    (old / "gres.conf").write_text("AutoDetect=nvml\nName=gpu Type=a100 File=/dev/nvidia[0-3]\n")
    file = tmp_path / "site.yaml"
    assert run(["init", str(file), "--from", str(old / "slurm.conf")]) == 0
    output = capsys.readouterr().err
    for place in (
        "slurm.conf:3: left out: SlurmUser=slurm: ",
        "slurm.conf:5: left out: Include more.conf: give that file, too",
        "nodes.conf:2: left out: TmpDisk=9: ",
        "gres.conf:1: left out: AutoDetect=nvml: ",
    ):
        assert f"{old}/{place}" in output
    text = file.read_text()
    assert text.splitlines()[2:4] == ["name: fir", "domain: fir.example.org"]
    assert "main: {nodes: all, default: true, max_time: infinite, settings: {PriorityTier: 3}}" in text
    assert "gpus: {model: a100" in text


def test_files_in_folders_below_slurm_conf_are_read_and_no_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A link, and what `..` leads to, are not read; what is left out has the file that has it."""
    site = tmp_path / "etc"
    (site / "conf.d").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret.conf").write_text("NodeName=stolen CPUs=4\n")
    (site / "link").symlink_to(tmp_path / "out")
    (site / "slurm.conf").write_text(
        "Include conf.d/nodes.conf\nInclude link/secret.conf\nInclude ../out/secret.conf\n"
        f"Include {tmp_path}/out/secret.conf\nInclude {'x' * 5000}\n"
    )
    (site / "conf.d" / "nodes.conf").write_text("\nNodeName=c[1-2] CPUs=4 RealMemory=64000 TmpDisk=1\n")
    file = tmp_path / "site.yaml"
    assert run(["init", str(file), "--from", str(site / "slurm.conf")]) == 0
    output = capsys.readouterr().err
    assert f"{site}/conf.d/nodes.conf:2: left out: TmpDisk=1" in output
    for line in (2, 3, 4, 5):
        assert f"{site}/slurm.conf:{line}: left out: Include " in output
    assert '"c2": {functions: [worker]' in file.read_text()
    assert "stolen" not in file.read_text()
    (site / "conf.d" / "nodes.conf").write_text("\nNodeName=c_$ CPUs=4\n")
    assert run(["init", str(tmp_path / "other.yaml"), "--from", str(site / "slurm.conf")]) == 3
    assert "(conf.d/nodes.conf, line 2: NodeName=c_$" in capsys.readouterr().err
