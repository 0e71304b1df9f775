"""Names of a distribution, and environments of frameworks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcforge.cluster.model.software import Framework, Names, OperatingSystem, PyTorch, Service, Wheel

NAMES = Names(
    packages={"munge": ("munge", "libmunge2"), "lighttpd": ()},
    units={"ssh.service": "sshd.service"},
    paths={"/etc/chrony": "/etc/chrony.d", "/etc/chrony/keys": "/var/keys"},
    accounts={"_chrony": "chrony"},
    lacks={"hwloc": "it is not packaged"},
)
OTHER = OperatingSystem("other", "9", "3.11", "22.05", "2.36", "9.2", NAMES)
DEBIAN = OperatingSystem("debian", "12", "3.11", "22.05", "2.36", "9.2")


@pytest.mark.parametrize(
    ("path", "local"),
    [
        ("/etc/chrony/chrony.conf", "/etc/chrony.d/chrony.conf"),
        ("/etc/chrony", "/etc/chrony.d"),
        ("/etc/chronyx", "/etc/chronyx"),
        ("/etc/chrony/keys/a", "/var/keys/a"),  # the longest that is declared
        ("/etc/systemd/system/ssh.service.d/x.conf", "/etc/systemd/system/sshd.service.d/x.conf"),
        ("/etc/ssh.service", "/etc/ssh.service"),
    ],
)
def test_a_path_goes_with_its_folder_and_its_unit(path: str, local: str) -> None:
    assert OTHER.path(path) == local
    assert DEBIAN.path(path) == path


def test_packages_units_and_accounts_have_the_names_of_the_distribution() -> None:
    assert [OTHER.packages(name) for name in ("munge", "lighttpd", "less")] == [("munge", "libmunge2"), (), ("less",)]
    assert (OTHER.unit("ssh.service"), OTHER.unit("x.service")) == ("sshd.service", "x.service")
    assert (OTHER.account("_chrony"), OTHER.account("root")) == ("chrony", "root")
    with pytest.raises(ValueError):
        OTHER.packages("hwloc")
    assert [system.names.all_as_in_debian for system in (OTHER, DEBIAN)] == [False, True]


def test_versions_compare_as_numbers() -> None:
    assert (DEBIAN.slurm_version, DEBIAN.openssh_version) == ((22, 5), (9, 2))
    assert "SlurmctldHost" in (DEBIAN.slurm_settings or ())
    unknown = OperatingSystem("debian", "1", "3.11", "1.2", "2.36", "9.2")
    assert (unknown.slurm_settings, unknown.package_accounts) == (None, {})
    renamed = replace(DEBIAN, names=Names(accounts={"slurm": "slurmuser"}))
    assert (set(DEBIAN.package_accounts), set(renamed.package_accounts)) == ({"slurm", "munge"}, {"slurmuser", "munge"})


@pytest.mark.parametrize(
    ("environment", "default", "python"),
    [("jax", True, "/opt/hpcforge/jax/bin/python"), ("jax-0.4", False, "/opt/hpcforge/jax-0.4/bin/python")],
)
def test_the_first_version_of_a_framework_is_the_default(environment: str, default: bool, python: str) -> None:
    framework = Framework("jax", "JAX", "0.4", "import jax", (), environment)
    assert (framework.default, framework.python) == (default, python)


def test_pytorch_of_wheels_has_a_python_of_its_own() -> None:
    wheels = (Wheel("torch-2.13-cp311.whl", "a"), Wheel("NumPy-2.0.whl", "b"))
    assert PyTorch("2.13", "wheel", wheels).modules == {"torch", "numpy"}
    pythons = [PyTorch("2.13", build, ()).python for build in ("wheel", "distribution")]
    assert pythons == ["/opt/hpcforge/pytorch/bin/python", "/usr/bin/python3"]


@pytest.mark.parametrize(("service", "host"), [(Service(("head", "w1")), "head"), (Service(external=("a",)), None)])
def test_a_service_has_a_host_where_a_node_provides_it(service: Service, host: str | None) -> None:
    assert service.host == host
