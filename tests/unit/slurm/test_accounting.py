"""Accounts and QOS of a blueprint, in the words and the order of sacctmgr."""

from typing import Any

import pytest

from hpcforge.blueprint.sections.slurm import AccountSection, Billing, Qos
from hpcforge.slurm.accounting import associations, billing_weights, with_tests


def made(accounts: dict[str, Any], qos: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    said = {name: AccountSection.model_validate(account) for name, account in accounts.items()}
    return list(associations(said, {name: Qos.model_validate(one) for name, one in (qos or {}).items()}))


def test_what_another_needs_comes_first() -> None:
    accounts = {"a": {"parent": "b", "users": {"ada": {}}}, "b": {"parent": "c"}, "c": {}}
    qos = {"high": {"preempt": ["low"]}, "low": {}}
    assert [name for name, _ in made(accounts, qos)] == [
        "qos low",
        "qos high",
        "account c",
        "account b",
        "account a",
        "user ada account=a",
    ]


def test_the_tests_have_an_account_of_their_own_that_is_no_default() -> None:
    accounts = {"a": AccountSection.model_validate({"users": {"ada": {}}})}
    assert list(associations(with_tests(accounts, "ada"), {})) == [
        ("account a", ""),
        ("account hpcforge_tests", ""),
        ("user ada account=a", "defaultaccount=a"),
        ("user ada account=hpcforge_tests", ""),
    ]
    assert [name for name, _ in associations(with_tests(accounts, "tests"), {})][1:] == [
        "account hpcforge_tests",
        "user ada account=a",
        "user tests account=hpcforge_tests",
    ]
    assert with_tests(accounts, None) == accounts
    assert with_tests({}, "tests") == {}  # without accounts every user runs jobs


def test_limits_that_a_blueprint_gives_the_account_of_the_tests_hold() -> None:
    said = {"hpcforge_tests": {"fairshare": "5", "users": {"tests": {"max_jobs": "2"}}}}
    accounts = {name: AccountSection.model_validate(account) for name, account in said.items()}
    assert list(associations(with_tests(accounts, "tests"), {})) == [
        ("account hpcforge_tests", "fairshare=5"),
        ("user tests account=hpcforge_tests", "maxjobs=2"),
    ]


def test_settings_are_spelled_as_sacctmgr_takes_them() -> None:
    limits = {
        "fairshare": "10",
        "grp_tres": {"gpu": "192", "shard": "8", "memory_gib": "512", "cpu": "0"},
        "max_tres": {},
        "max_submit_jobs": "8",
        "qos": ["normal", "high"],
        "default_qos": "high",
    }
    [(_, said)] = made({"a": limits})
    assert said == (
        "fairshare=10 grptres=cpu=0,mem=512G,gres/gpu=192,gres/shard=8 maxsubmitjobs=8 qos=normal,high defaultqos=high"
    )


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("01:30:00", "01:30:00"),
        ("2-00:00:00", "2-00:00:00"),
        ("0-02:00:00", "02:00:00"),
        ("00:00:30", "00:01:00"),  # Slurm counts minutes
        ("infinite", "-1"),
    ],
)
def test_a_time_limit_is_as_sacctmgr_shows_it(written: str, said: str) -> None:
    assert made({"a": {"max_wall": written}}) == [("account a", f"maxwall={said}")]


def test_who_has_several_accounts_is_told_which_one_is_meant() -> None:
    accounts = {"b": {"users": {"ada": {}, "bob": {}}}, "a": {"users": {"ada": {"fairshare": "3"}}}}
    assert made(accounts)[2:] == [
        ("user ada account=b", "defaultaccount=b"),
        ("user bob account=b", ""),
        ("user ada account=a", "fairshare=3"),
    ]


def test_a_circle_has_an_end() -> None:
    assert len(made({"a": {"parent": "b"}, "b": {"parent": "a"}})) == 2


def test_billing_weights() -> None:
    weights = Billing.model_validate({"cpu": "1", "memory_gib": "0.25", "gpu": "16", "shard": "0.5"})
    said = [("CPU", "1"), ("Mem", "0.25G"), ("GRES/gpu", "16"), ("GRES/shard", "0.5")]
    assert list(billing_weights(weights)) == said
    assert list(billing_weights(None)) == []
