"""Packages that apt or dpkg would not install, by what the real ones say of a repository of the test."""

import pytest

from hpcforge.node import commands, receipt
from hpcforge.node.inspection import Conflict, Inspection
from hpcforge.node.package_manager.apt import dpkg
from hpcforge.node.package_manager.apt import files as apt_files
from hpcforge.node.package_manager.apt import obstacles as apt_obstacles
from hpcforge.node.package_manager.apt import simulation as apt_simulation
from tests.support.apt_root import apt_root

# The kinds as administrators report them: apt-get refuses with "Held packages were changed", "has no installation
# candidate", "it is not installable" (apt_preferences(5)), and with what /var/log/apt/term.log has of a postinst.
FAILED = """\
Setting up libmunge2 (1) ...
libmunge2: cannot reach the license server
dpkg: error processing package libmunge2 (--configure):
 installed libmunge2 package post-installation script subprocess returned error exit status 1
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    depends = {"munge": "Depends: libmunge2\n", "both": "Depends: needed\n"}
    with apt_root(tmp_path, {**depends, "libmunge2": "", "chrony": "", "needed": ""}) as made:
        for name, value in made.environment().items():
            monkeypatch.setitem(commands.ENVIRONMENT, name, value)
        monkeypatch.setattr(dpkg, "JOURNAL", made.status.parent / "updates")
        monkeypatch.setattr(apt_obstacles, "_TERMINAL", tmp_path / "term.log")
        monkeypatch.setattr(apt_obstacles, "_CONFIGURATION", (tmp_path / "none", made.configuration.parent / "conf.d"))
        negative = apt_files.negative_pins
        monkeypatch.setattr(apt_files, "negative_pins", lambda: negative(tmp_path / "none", made.preferences))
        yield made


def search(*names: str, entries: dict[str, object] | None = None) -> list[Conflict | str]:
    work = {"role": "munge", "packages": list(names)}
    host = Inspection([work], {"munge": work}, receipt.EMPTY._replace(roles=entries or {}))
    apt_simulation.foresee(names)
    return list(apt_obstacles.search_packages(host))


def test_a_healthy_host_has_none(root):
    assert search("munge", "chrony") == []


def test_a_hold_is_named_where_the_plan_installs_the_package(root):
    root.have("munge", "hold ok not-installed")
    [conflict] = search("munge", "chrony")
    assert conflict[1:3] == ("package", "munge")
    assert conflict.why == "it is on hold, and the plan installs it"
    assert conflict.commands == ("apt-mark unhold munge",)
    assert search("chrony") == []


def test_a_hold_on_a_dependency_names_the_package_that_needs_it(root):
    root.have("libmunge2", "hold ok not-installed")
    [conflict] = search("chrony", "munge")
    assert conflict.name == "libmunge2"
    assert conflict.why == "it is on hold, and the plan installs it for munge"


def test_a_hold_of_hpcforge_is_no_obstacle(root):
    root.have("munge", "hold ok not-installed")
    assert search("munge", entries={"munge": {"holds": {"munge": True}}}) == []


@pytest.mark.parametrize("name", ["munge", "libmunge2"])
def test_a_pin_of_negative_priority_is_named_with_its_line(root, name):
    path = root.preferences / "site"
    path.write_text(f"# by hand\n\nExplanation: old\nPackage: {name[:5]}*\nPin: version *\nPin-Priority: -1\n")
    [conflict] = search("munge", "chrony")
    assert f"{path}:6 keeps it from being installed" in conflict.why
    assert conflict.commands == (f"sed -i '3,6s/^/#/' {path}",)
    assert search("chrony") == []


def test_a_hold_and_a_pin_at_once_are_both_named(root):
    root.have("libmunge2", "hold ok not-installed")
    path = root.preferences / "site"
    path.write_text("Package: chrony\nPin: version *\nPin-Priority: -10\n")
    pair = [("libmunge2", ("apt-mark unhold libmunge2",)), ("chrony", (f"sed -i '1,3s/^/#/' {path}",))]
    assert [(conflict.name, conflict.commands) for conflict in search("munge", "chrony")] == pair
    path.write_text("Package: needed\nPin: version *\nPin-Priority: -10\n")
    assert [conflict.name for conflict in search("munge", "both")] == ["libmunge2", "needed"]


def test_a_hook_whose_program_is_gone_is_named_with_its_file(root):
    path = root.configuration.parent / "conf.d/15oldcm"
    path.write_text('// site\nDPkg::Pre-Invoke {"/opt/oldcm/bin/approve-change --all";};\n')
    [conflict] = search("munge")
    assert conflict[1:3] == ("file", str(path))
    assert conflict.why.startswith("DPkg::Pre-Invoke has apt run /opt/oldcm/bin/approve-change, which is not there")
    assert conflict.commands == (f"mv {path} {path}.disabled",)
    path.with_suffix(".disabled").write_bytes(path.read_bytes())  # apt reads no file with this suffix
    assert [conflict.name for conflict in search("munge")] == [str(path)]


DUMP = """\
DPkg::Pre-Invoke "";
DPkg::Pre-Invoke:: "/opt/a --all";
dpkg::post-invoke::site "/opt/b "c"";
DPkg::Pre-Install-Pkgs:: "/opt/d || true";
DPkg::Tools::Options::/opt/d "";
APT::Update::Post-Invoke-Success:: "/opt/e
 2";
APT::NeverAutoRemove:: "^firmware-linux.*";
"""


def test_hooks_are_read_from_what_apt_config_prints():
    pairs = [("DPkg::Pre-Invoke", "/opt/a --all"), ("dpkg::post-invoke", '/opt/b "c"')]
    assert list(apt_obstacles.hooks(DUMP)) == [*pairs, ("DPkg::Pre-Install-Pkgs", "/opt/d || true")]


@pytest.mark.parametrize(
    "command",
    [
        "test -x /opt/oldcm/bin/a && /opt/oldcm/bin/a",
        "if [ -x /opt/oldcm/bin/a ]; then /opt/oldcm/bin/a; fi",
        "/opt/oldcm/bin/a || true",
        "/opt/oldcm/bin/a; true",
        "oldcm-approve",
        "/bin/sh -c /opt/oldcm/bin/a",
        "",
    ],
)
def test_a_hook_that_apt_outlives_is_no_obstacle(command):
    assert apt_obstacles.dead_program(command) == ""


def test_a_failed_configuration_is_named_where_the_plan_needs_the_package(root, tmp_path):
    root.have("libmunge2", "install ok half-configured")
    (tmp_path / "term.log").write_text(FAILED)
    [conflict] = search("munge")
    assert "half-configured: libmunge2: cannot reach the license server; installed libmunge2 package" in conflict.why
    assert conflict.commands == ("dpkg --configure libmunge2",)
    [warning] = search("chrony")
    assert warning.startswith("package libmunge2: it is half-configured")
    assert search("munge", entries={"munge": {"packages": ["libmunge2"]}}) == []


def test_an_interrupted_configuration_is_no_obstacle(root, tmp_path):
    root.have("libmunge2", "install ok half-configured")
    (tmp_path / "term.log").write_text(
        FAILED.replace("returned error exit status 1", "was killed by signal (Terminated)")
    )
    assert search("munge") == []
    (tmp_path / "term.log").write_text(FAILED)
    (root.status.parent / "updates" / "0000").touch()
    assert search("munge") == []


def test_what_no_source_can_unpack_again_is_named(root):
    root.have("site-agent", "install reinstreq half-installed")
    [conflict] = search("munge")
    assert conflict.name == "site-agent"
    assert conflict.commands == ("dpkg --remove --force-remove-reinstreq site-agent",)


def test_a_package_without_its_dependencies_is_named(root):
    root.have("site-agent", "install ok unpacked", "Depends: nosuch\n")
    [conflict] = search("munge")
    assert conflict.name == "site-agent"
    assert "Depends: nosuch" in conflict.why
    assert conflict.commands == ("apt-get -y --fix-broken install",)


def test_settings_that_apt_cannot_read_are_named():
    text = "Reading...\nE: Malformed entry 3 in list file /etc/apt/sources.list.d/x.list (Suite)\nE: The list could\n"
    [conflict] = apt_obstacles._settings("base", text)
    assert conflict.name == "/etc/apt/sources.list.d/x.list"
    assert conflict.commands == ("mv /etc/apt/sources.list.d/x.list /etc/apt/sources.list.d/x.list.disabled",)
