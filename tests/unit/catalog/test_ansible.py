"""The pinned wheel of Ansible's collections."""

from packaging.utils import parse_wheel_filename

from hpcforge.catalog.ansible import ansible_wheel


def test_the_wheel_runs_anywhere() -> None:
    name, _version, _, tags = parse_wheel_filename(ansible_wheel().wheel)
    assert name == "ansible"
    assert {str(tag) for tag in tags} == {"py3-none-any"}
