"""What an inspection of a host derives from a request, its differences and the receipt."""

from types import SimpleNamespace

from hpcforge.node.inspection import Inspection
from hpcforge.node.receipt import EMPTY

ROLES = [
    {"role": "one", "files": [{"path": "/etc/a"}, {"path": "/etc/b"}], "units": [{"name": "a.service"}]},
    {"role": "two", "owns": {"units": ["b.service"]}},
]
DIFFERENCES = {"one": {"packages": ["alpha"], "files": [{"path": "/etc/b"}]}, "two": {"packages": ["beta"]}}
HOST = Inspection(ROLES, DIFFERENCES, EMPTY._replace(roles={"old": {"links": {"/etc/c": {}}}}))


def test_packages_and_units_are_named_with_their_role() -> None:
    assert HOST.packages() == {"alpha": "one", "beta": "two"}
    assert HOST.units() == {"a.service": "one", "b.service": "two"}


def test_only_resources_that_differ_are_changed() -> None:
    [(kind, item)] = HOST.resources(ROLES[0])
    assert (kind.name, isinstance(item, SimpleNamespace), item.path) == ("files", True, "/etc/b")
    assert list(HOST.resources(ROLES[1])) == []


def test_own_paths_are_those_of_the_request_and_of_the_receipt() -> None:
    assert HOST.own_paths() == {"/etc/a", "/etc/b", "/etc/c"}
