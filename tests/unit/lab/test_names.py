from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.lab.errors import LabError
from hpcforge.lab.names import (
    check_lab_name,
    check_node_name,
    check_user_name,
    default_lab_name,
    machine_name,
    tag_for,
)


def test_a_blueprint_has_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "ada")
    (tmp_path / "main").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "main")
    name = default_lab_name(tmp_path / "main" / "site.yaml")
    assert name.startswith("ada-site-")
    assert default_lab_name(tmp_path / "link" / "site.yaml") == name
    monkeypatch.chdir(tmp_path / "main")
    assert default_lab_name(Path("site.yaml")) == name
    assert default_lab_name(Path("other.yaml")) != name
    assert default_lab_name(tmp_path / "site.yaml") != name
    monkeypatch.setenv("SUDO_USER", "bob")
    assert default_lab_name(Path("site.yaml")) != name


@pytest.mark.parametrize("user", ["ada", "Ada.Lovelace", "42", "日本", "a" * 200, "-", "x_y"])
@pytest.mark.parametrize("directory", ["main", "My Checkout (2)", "---", "日本", "9to5", "b" * 200])
def test_default_names_pass_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str, directory: str
) -> None:
    monkeypatch.setenv("SUDO_USER", user)
    check_lab_name(default_lab_name(tmp_path / directory))


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "a--b", "A", "a b", "a/b", "..", "a\n", "9a", "a_b", "а", "a" * 33, "a;b", "$(id)"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(LabError, match="no name for a lab") as error:
        check_lab_name(name)
    assert error.value.hint
    if len(name) != 33:
        with pytest.raises(LabError):
            check_node_name(name)


@pytest.mark.parametrize("user", ["root", "", "A", "a b", "a\n", "../a", "x" * 33])
def test_login_users_that_are_refused(user: str) -> None:
    with pytest.raises(LabError):
        check_user_name(user)


def test_tags_differ_and_show_the_digest() -> None:
    assert tag_for("root-main-3f2a", []) == "hf3f2a"
    assert tag_for("root-main-3f2a", ["hf3f2a"]) != "hf3f2a"
    assert tag_for("lab-one", []) != tag_for("lab-two", [])
    assert tag_for("lab-one", [tag_for("lab-one", [])]) != tag_for("lab-one", [])


def test_interface_names_fit() -> None:
    assert machine_name("hf3f2a", "w01") == "hf3f2a-w01"
    long = {machine_name("hf3f2a", f"worker-{number:03}") for number in range(300)}
    assert len(long) == 300
    assert max(map(len, long)) + len("vb-") <= 15
