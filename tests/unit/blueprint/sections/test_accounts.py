"""Accounts and QOS against users, partitions and the database."""

from __future__ import annotations

import pytest

from hpcforge.blueprint.sections.accounts import accounting_findings, directory_findings
from tests.unit.blueprint.drafts import ACCOUNTED, draft, errors, places

PARTITION = "main: {nodes: all, default: true}"
DIRECTORY = ("time: {on: head}", "time: {on: head}, directory: {external: [ldap.example.org]}")


def slurm(text: str) -> tuple[str, str]:
    return f"    {PARTITION}\n", f"    {PARTITION}\n  {text}\n"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("accounts: {a: {}, b: {parent: a}}", []),
        ("accounts: {a: {parent: root}}", []),
        ("accounts: {root: {}}", errors("slurm.accounts.root")),
        ("accounts: {a: {parent: x}}", errors("slurm.accounts.a.parent")),
        ("accounts: {a: {parent: b}, b: {parent: a}}", errors("slurm.accounts.b.parent")),
        ("accounts: {a: {parent: a}}", errors("slurm.accounts.a.parent")),
        ("accounts: {a: {users: {ada: {}, eve: {}}}}", errors("slurm.accounts.a.users.eve")),
        ("accounts: {a: {qos: [normal, high]}}", errors("slurm.accounts.a.qos.1")),
        ("accounts: {a: {users: {ada: {default_qos: high}}}}", errors("slurm.accounts.a.users.ada.default_qos")),
        (
            "accounts: {a: {qos: [normal], default_qos: high}}\n  qos: {high: {}}",
            errors("slurm.accounts.a.default_qos"),
        ),
        ("accounts: {a: {}}\n  qos: {high: {preempt: [low]}, low: {}}", []),
        ("accounts: {a: {}}\n  qos: {high: {preempt: [low]}}", errors("slurm.qos.high.preempt.0")),
        (
            "accounts: {a: {}}\n  qos: {x: {preempt: [y]}, y: {preempt: [z]}, z: {preempt: [x]}}",
            errors("slurm.qos.z.preempt"),
        ),
        ("qos: {high: {}}", [("slurm.qos", "warning")]),  # nobody has an account
    ],
)
def test_names_of_accounts_and_qos(text: str, wrong: list[tuple[str, str]]) -> None:
    assert places(accounting_findings(draft(ACCOUNTED, slurm(text)))) == wrong


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("accounts: {a: {}}", ["slurm.accounts"]),
        ("qos: {high: {}}", ["slurm.qos"]),
        ("ssh: anyone", []),
    ],
)
def test_without_a_database_there_are_no_accounts(text: str, wrong: list[str]) -> None:
    assert places(accounting_findings(draft(slurm(text)))) == errors(*wrong)


@pytest.mark.parametrize(
    ("partition", "wrong"),
    [
        ("qos: high", ["slurm.partitions.main.qos"]),
        ('settings: {AllowAccounts: "A,b"}', ["slurm.partitions.main.settings.AllowAccounts"]),
        ("settings: {AllowAccounts: a}", []),
        ("settings: {allowaccounts: ALL}", []),
        ("settings: {DenyQos: high}", ["slurm.partitions.main.settings.DenyQos"]),
        ("settings: {Alternate: other}", ["slurm.partitions.main.settings.Alternate"]),
        ("settings: {Alternate: main}", []),
        ("settings: {AllowGroups: ada}", []),  # each user has a group of that name
    ],
)
def test_what_partitions_name_exists(partition: str, wrong: list[str]) -> None:
    changes = (
        ACCOUNTED,
        slurm("accounts: {a: {users: {ada: {}}}}"),
        ("default: true}", f"default: true, {partition}}}"),
    )
    assert places(accounting_findings(draft(*changes))) == errors(*wrong)


@pytest.mark.parametrize(
    ("services", "wrong"),
    [
        ("external: [db1.org, db2.org]", ["slurm.accounts"]),
        (
            "external: [db1.org, db2.org, db3.org]",
            ["services.accounting.external", "slurm.accounts"],
        ),
    ],
)
def test_the_database_of_the_site_is_not_changed(services: str, wrong: list[str]) -> None:
    outside = ("depot: {on: head}", f"depot: {{on: head}}, accounting: {{{services}}}")
    assert places(accounting_findings(draft(outside, slurm("accounts: {a: {}}")))) == errors(*wrong)


def test_the_user_of_the_tests_is_in_an_account_of_a_limited_partition() -> None:
    limited = (PARTITION, "main: {nodes: all, default: true, settings: {AllowAccounts: a}}")
    accounts = "    {}\n  accounts: {{a: {{users: {{{}: {{}}}}}}}}\n"
    for user, wrong in (("bob", errors("acceptance.run_as")), ("ada", [])):
        changes = (ACCOUNTED, ("ada: {uid: 2001}", "ada: {uid: 2001}\n  bob: {uid: 2002}"),
                   (f"    {PARTITION}\n", accounts.format(PARTITION, user)), limited)  # fmt: skip
        assert places(accounting_findings(draft(*changes))) == wrong


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ((DIRECTORY, ACCOUNTED), [("services.directory", "not-checked")]),
        ((ACCOUNTED,), []),  # an error already: no directory could have her
    ],
)
def test_users_that_only_the_directory_can_have_are_not_checked(
    changes: tuple[tuple[str, str], ...], wrong: list[tuple[str, str]]
) -> None:
    accounts = slurm("accounts: {a: {users: {ada: {}, eve: {}}}}")
    assert places(directory_findings(draft(*changes, accounts))) == wrong
