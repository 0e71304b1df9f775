"""Units in whose place a host has another one, and what is the site's own matter.

Forms of the files are those of systemd.unit(5) and of Slurm's etc/slurmd.service.in, which `make install` of a build
from source leaves in /etc/systemd/system (https://slurm.schedmd.com/quickstart_admin.html).
"""

import pytest

from hpcforge.node import obstacles, receipt
from hpcforge.node.obstacles import replaced_units

SITE = "[Unit]\nDescription=Slurm node daemon\n[Service]\nExecStart=/usr/local/sbin/slurmd -D $SLURMD_OPTIONS\n"
PACKAGED = "[Service]\nExecStart=/usr/sbin/slurmd -D -s $SLURMD_OPTIONS\nLimitNOFILE=131072\n"
ETC, RUN = "/etc/systemd/system", "/run/systemd/system"


@pytest.fixture
def host(tmp_path):
    """A host with files (text by path) and links; what is searched of it."""

    def search(files, unit="slurmd.service", own=(), role=None):
        for path, text in files.items():
            place = tmp_path / path[1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            if text.startswith("-> "):
                place.symlink_to(text[3:])
            else:
                place.write_text(text)
        has = receipt.EMPTY._replace(roles={"earlier": {"units": {}, "files": {key: {} for key in own}}})
        wanted = role or {"role": "compute", "units": [{"name": unit}]}
        return list(replaced_units.search(obstacles.Inspection([wanted], {}, has), tmp_path))

    return search


def test_a_unit_of_a_build_from_source_is_named_with_what_removes_it(host):
    assert host({f"{ETC}/slurmd.service": SITE, "/usr/lib/systemd/system/slurmd.service": PACKAGED}) == [
        (
            "compute",
            "unit",
            "slurmd.service",
            "/etc/systemd/system/slurmd.service is not the package's: it starts /usr/local/sbin/slurmd",
            (
                "systemctl disable --now slurmd.service",
                "mkdir -p /root/aside && mv --backup=numbered -t /root/aside /etc/systemd/system/slurmd.service",
                "systemctl daemon-reload",
            ),
        )
    ]


@pytest.mark.parametrize("folder", [RUN, "/usr/local/lib/systemd/system", "/run/systemd/transient"])
def test_a_unit_in_another_folder_before_the_packages_is_named(host, folder):
    [conflict] = host({f"{folder}/slurmd.service": SITE})
    assert conflict.why.startswith(f"{folder}/slurmd.service is not the package's")


def test_a_link_to_a_unit_elsewhere_is_named_and_removed(host):
    [conflict] = host({f"{ETC}/slurmd.service": "-> /opt/slurm/slurmd.service", "/opt/slurm/slurmd.service": SITE})
    assert conflict.why == (
        "/etc/systemd/system/slurmd.service leads to /opt/slurm/slurmd.service, which starts /usr/local/sbin/slurmd"
    )
    assert conflict.commands[1] == "rm -f /etc/systemd/system/slurmd.service"


@pytest.mark.parametrize(("text", "how"), [("-> /dev/null", "a link to /dev/null"), ("", "an empty file")])
@pytest.mark.parametrize("folder", [ETC, RUN])
def test_a_mask_is_named_wherever_it_is(host, folder, text, how):
    [conflict] = host({f"{folder}/munge.service": text}, "munge.service")
    assert conflict.why == f"it is masked: {folder}/munge.service is {how}"
    assert conflict.commands == (f"rm {folder}/munge.service", "systemctl daemon-reload")


def test_a_mask_of_a_template_is_one_of_its_instance(host):
    [conflict] = host({f"{ETC}/exporter@.service": "-> /dev/null"}, "exporter@gpu.service")
    assert (conflict.name, conflict.commands[0]) == ("exporter@gpu.service", f"rm {ETC}/exporter@.service")


@pytest.mark.parametrize("folder", [f"{ETC}/slurmd.service.d", f"{RUN}/slurmd.service.d", f"{ETC}/slurmd@.service.d"])
def test_a_drop_in_with_another_program_is_named(host, folder):
    unit = "slurmd@gpu.service" if "@" in folder else "slurmd.service"
    [conflict] = host(
        {f"{folder}/override.conf": "[Service]\nExecStart=\nExecStart=-/opt/slurm/sbin/slurmd -D\n"}, unit
    )
    assert conflict.why == (
        f"{folder}/override.conf has it start /opt/slurm/sbin/slurmd in place of the package's program"
    )
    assert conflict.commands[0] == f"systemctl stop {unit}"
    assert conflict.commands[2] == "systemctl daemon-reload"


@pytest.mark.parametrize("setting", ["User=nobody", "Group=adm", "DynamicUser=yes", "RootDirectory=/opt/root"])
def test_a_drop_in_with_another_account_or_root_is_named(host, setting):
    path = f"{ETC}/slurmd.service.d/run.conf"
    [conflict] = host({path: f"[Service]\n{setting}\n"})
    assert conflict.why == f"{path} has it run otherwise than the package's unit: {setting}"
    assert conflict.commands[1].endswith(path)
    assert host({path: f"[Service]\n{setting}\n"}, own=[path]) == []


@pytest.mark.parametrize(
    "files",
    [
        {f"{ETC}/slurmd.service.d/limits.conf": "[Service]\nLimitMEMLOCK=infinity\nExecStartPre=/bin/true\n"},
        {f"{ETC}/slurmd.service.d/override.conf.old": "[Service]\nExecStart=/opt/slurmd\n"},
        {f"{ETC}/slurmd.service": "-> /lib/systemd/system/slurmd.service"},
        {f"{ETC}/slurmd.service": "-> ../../../usr/lib/systemd/system/slurm-node.service"},
        {f"{ETC}/slurmd.service": "# written by hpcforge\n[Service]\nExecStart=/usr/sbin/slurmd\n"},
        {f"{ETC}/slurmd.service": f"# limits\n{PACKAGED}", "/usr/lib/systemd/system/slurmd.service": PACKAGED},
        {"/usr/lib/systemd/system/slurmd.service": PACKAGED, f"{ETC}/other.service": SITE},
    ],
)
def test_what_changes_no_program_is_the_sites_own_matter(host, files):
    assert host(files) == []


@pytest.mark.parametrize("text", ["-> /dev/null", ""])
def test_a_mask_of_an_alias_keeps_the_unit_from_being_enabled(host, text):
    files = {
        "/lib/systemd/system/ssh.service": "[Service]\nExecStart=/usr/sbin/sshd -D\n[Install]\nAlias=sshd.service\n"
    }
    [conflict] = host({**files, f"{ETC}/sshd.service": text}, "ssh.service")
    assert (conflict.name, conflict.commands[0]) == ("ssh.service", f"rm {ETC}/sshd.service")
    assert conflict.why.startswith("it is masked: /etc/systemd/system/sshd.service is ")


def test_a_unit_that_another_package_or_the_roles_own_code_writes_is_no_obstacle(host):
    dpkg = {"/var/lib/dpkg/info/vendor.list": f"/.\n/etc\n{ETC}/slurmd.service\n"}
    coded = {"role": "compute", "units": [{"name": "slurmd.service"}], "opaque": {"digest": "d1"}}
    files = {f"{ETC}/slurmd.service": SITE}
    assert host(files, role=coded) == []
    [_] = host(files)
    assert host({**files, **dpkg}) == []


def test_what_a_role_writes_is_no_obstacle(host):
    drop_in = {f"{ETC}/slurmd.service.d/hpcforge.conf": "[Service]\nExecStart=\nExecStart=/usr/sbin/slurmd -D\n"}
    assert host(drop_in, own=drop_in) == []
    role = {"role": "compute", "units": [{"name": "own.service"}], "files": [{"path": f"{ETC}/own.service"}]}
    assert host({f"{ETC}/own.service": SITE}, role=role) == []


def test_a_host_that_had_no_python_is_searched_for_the_units_that_its_roles_own(host):
    role = {"role": "compute", "owns": {"units": ["slurmd.service"]}}
    [conflict] = host({f"{ETC}/slurmd.service": SITE}, role=role)
    assert conflict.role == "compute"
