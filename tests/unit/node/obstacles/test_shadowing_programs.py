"""Programs and libraries that a host has before the packages'.

Settings of PATH are as people give them for a Slurm below /opt or /usr/local: /etc/profile.d/slurm.sh of
https://slurm.schedmd.com/quickstart_admin.html, /etc/environment of pam_env(7).
"""

import pytest

from hpcforge.node import obstacles, receipt
from hpcforge.node.obstacles import shadowing_programs

ROLE = {"role": "compute", "programs": ["scontrol", "srun", "libmunge.so.2"]}
LINKER = {
    "/etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n",
    "/etc/ld.so.conf.d/libc.conf": "# libc default configuration\n/usr/local/lib\n",
    "/etc/ld.so.conf.d/x86_64-linux-gnu.conf": "/usr/local/lib/x86_64-linux-gnu\n/lib/x86_64-linux-gnu\n",
    "/etc/ld.so.conf.d/zz_site.conf": "/opt/late/lib\n",
}


@pytest.fixture
def host(tmp_path):
    """A host with files (text by path), of which programs may be run; what is searched of it."""

    def search(files, own=()):
        for path, text in files.items():
            place = tmp_path / path[1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            if text.startswith("-> "):
                place.symlink_to(tmp_path / text[4:])
            else:
                place.write_text(text)
                place.chmod(0o755 if "bin/" in path else 0o644)
        has = receipt.EMPTY._replace(roles={"earlier": {"units": {}, "files": {key: {} for key in own}}})
        return list(shadowing_programs.search(obstacles.Inspection([], {}, has, [ROLE]), tmp_path))

    return search


def test_programs_in_usr_local_are_named_with_what_moves_them(host):
    site = "#!/bin/sh\necho slurm 20.11.9\n"
    moved = "/usr/local/bin/scontrol /usr/local/bin/srun"
    assert host({"/usr/local/bin/srun": site, "/usr/local/bin/scontrol": site, "/usr/bin/srun": "x"}) == [
        (
            "compute",
            "program",
            "scontrol, srun",
            "/usr/local/bin has others before the package's",
            (f"mkdir -p /root/aside && mv --backup=numbered -t /root/aside {moved}",),
        )
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/etc/environment", 'PATH="/opt/slurm/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"\n'),
        ("/etc/profile.d/slurm.sh", "export PATH=/opt/slurm/bin:$PATH\n"),
        ("/etc/profile.d/slurm.sh", 'SLURM_HOME=/opt/slurm\nPATH="${SLURM_HOME}/bin:$PATH"; export PATH\n'),
        ("/etc/profile", "if [ 1 ]; then\n  PATH='/opt/slurm/bin/:/usr/bin'\nfi\n"),
        ("/etc/login.defs", "ENV_PATH\tPATH=/opt/slurm/bin:/usr/bin:/bin\n"),
        ("/etc/bash.bashrc", "export SLURM_CONF=/x PATH=/opt/slurm/bin:$PATH\n"),
    ],
)
def test_a_folder_that_settings_put_first_in_path_is_searched(host, path, text):
    [conflict] = host({path: text, "/opt/slurm/bin/srun": "\x7fELF"})
    assert conflict.why == f"/opt/slurm/bin has another before the package's by PATH in {path}"


@pytest.mark.parametrize(
    "files",
    [
        {"/etc/profile.d/slurm.sh": "PATH=$PATH:/opt/slurm/bin\n", "/opt/slurm/bin/srun": "x"},
        {"/etc/profile.d/slurm.sh": "# PATH=/opt/slurm/bin:$PATH\n", "/opt/slurm/bin/srun": "x"},
        {"/etc/environment": "PATH=/usr/bin:/opt/slurm/bin\n", "/opt/slurm/bin/srun": "x"},
        {"/usr/local/bin/srun": "-> /usr/bin/srun", "/usr/bin/srun": "x"},
        {"/usr/local/bin/srun": '#!/bin/sh\nlogger "$USER"; exec /usr/bin/srun "$@"\n'},
        {"/usr/local/bin/srun.old": "x", "/usr/local/share/srun": "x"},
        {**LINKER, "/opt/late/lib/libmunge.so.2": "x", "/usr/local/lib/libslurm.so.40": "x"},
    ],
)
def test_what_comes_later_or_leads_to_the_package_is_no_obstacle(host, files):
    assert host(files) == []


def test_a_program_of_a_role_is_no_obstacle(host):
    assert host({"/usr/local/bin/srun": "x"}, own=["/usr/local/bin/srun"]) == []


@pytest.mark.parametrize("folder", ["/usr/local/lib", "/usr/local/lib/x86_64-linux-gnu"])
def test_a_library_that_is_loaded_before_the_packages_is_named(host, folder):
    library = {f"{folder}/libmunge.so.2.0.0": "x", f"{folder}/libmunge.so.2": "x"}
    [conflict] = host({**LINKER, **library})
    assert (conflict.kind, conflict.name) == ("library", "libmunge.so.2")
    assert conflict.why == f"{folder} has another, which programs load before the package's"
    moved = f"{folder}/libmunge.so.2 {folder}/libmunge.so.2.0.0"
    assert conflict.commands == (f"mkdir -p /root/aside && mv --backup=numbered -t /root/aside {moved}", "ldconfig")
