"""What hpcforge has to know of a role, the role says itself: no shipped role is named in Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import hpcforge
from hpcforge.plan.roles.role import Role

PACKAGE = Path(hpcforge.__file__).parent

# A role's name that is also a word of something else, and where it is that. Each has to be in use.
OTHER_WORDS = {
    "users": {  # the blueprint's section
        "blueprint/sections/acceptance.py",
        "blueprint/sections/accounts.py",
        "blueprint/sections/access.py",
        "blueprint/sections/slurm.py",
        "blueprint/sections/storage.py",
        "metal/installer_files.py",  # a key of cloud-init
        "cluster/checks/files.py",
        "cluster/checks/storage.py",  # an option of mount(8)
        "cluster/checks/subordinate_numbers.py",
        "kinds/reservations.py",  # a word of scontrol's
        "node/user_ids.py",  # accounts of a node, in its answers
        "report/show_text.py",  # a row of the page
        "run/make_plan.py",
        "run/observe.py",
        "slurm/accounting.py",
        "slurm/second_settings.py",  # a word of slurmdbd.conf
    },
    "networks": {  # the blueprint's section, and the inventory's
        "blueprint/checks.py",
        "blueprint/membership.py",
        "blueprint/sections/networks.py",
        "blueprint/sections/storage.py",
        "cluster/check_table.py",
        "cluster/checks/hardware.py",
        "cluster/checks/interfaces.py",
        "cluster/checks/inventory.py",
        "cluster/networks.py",
        "cluster/load/remaining_errors.py",
        "lab/lab.py",
        "rehearsal/stand_in_rules.py",  # what is stood in for
    },
    # a framework, in the catalog and in the blueprint
    "pytorch": {
        "blueprint/sections/software.py",
        "catalog/__init__.py",
        "cluster/checks/catalog.py",
        "cluster/resolve.py",
        "rehearsal/stand_in_rules.py",
        "software/rule_checks.py",
        "starter/draft.py",
    },
    "names": {
        "node/kept_on_removal.py",
        "node/remove.py",
        "plan/diff.py",
        "report/html/design.py",
        "run/executor.py",
    },  # JSON
    "nccl": {"blueprint/transports.py", "run/expectations.py", "verify/step_verdict.py"},  # the library
    "rdma": {"blueprint/transports.py", "cluster/smoke_tests.py"},  # where a transport runs
    "time": {
        "report/verification.py",
        "cluster/model/cluster.py",
        "run/worker_ports.py",
    },  # of JUnit; the service
    "munge": {"run/down_workers.py"},  # the program
    "depot": {"run/worker_ports.py"},  # the service
    "lldp": {"verify/cabling.py"},  # what lldpctl answers
    "base": {"lab/nspawn/base.py"},  # a folder of trees
    "smoke_tests": {"bundled.py"},  # a folder of what is shipped
    "kernel_arguments": {"kinds/__init__.py", "kinds/kernel_arguments.py"},  # the kind of resource
}


def _texts(path: Path) -> Iterator[str]:
    """The texts of a module, those within f-strings too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_no_shipped_role_is_named_in_python(roles: tuple[Role, ...]) -> None:
    names = {role.name for role in roles}
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for text in _texts(path):
            # a role by itself, on a node (`munge@cluster`), or by its folder
            name = text.removeprefix("roles/").partition("@")[0].partition("/")[0]
            if name in names:
                found.setdefault(name, set()).add(str(path.relative_to(PACKAGE)))
    assert found == OTHER_WORDS
