"""Secrets that stand inside files: what role.yaml may say of them, and what plans have instead."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hpcforge.cluster.model import Cluster, Service
from hpcforge.kinds.files import File
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.desired import Desired
from hpcforge.plan.roles.role import RoleError, load_roles
from hpcforge.plan.secrets import Use, uses

DIGESTS = {"munge_key": "ab" * 32, "db_password": "cd" * 32, "licence": "ef" * 32}
VAULT = """
description: Holds secrets.
on: "'worker' in node.functions"
needs: [server@cluster, client]
secrets:
  db_password: {description: of the database, length: 32}
  licence: {description: of the vendor, provided: true}
files:
  - {path: /etc/vault.conf, mode: "0640"}
  - {path: /etc/vault.key, secret: munge_key, mode: "0400"}
"""
TEMPLATE = "server {{ cluster.services.dns.host }}\npassword={{ secret('db_password') }}\n"


@pytest.fixture
def vault(roles_folder: Path) -> Path:
    (roles_folder / "vault/files/etc").mkdir(parents=True)
    (roles_folder / "vault/role.yaml").write_text(VAULT)
    (roles_folder / "vault/files/etc/vault.conf.j2").write_text(TEMPLATE)
    return roles_folder / "vault"


def compiled(cluster: Cluster, vault: Path, template: str = TEMPLATE, **digests: str | None) -> Desired:
    (vault / "files/etc/vault.conf.j2").write_text(template)
    return compile_desired(cluster, load_roles(vault.parent), {**DIGESTS, **digests})


def file_of(desired: Desired) -> File:
    return next(wanted for wanted in desired.nodes["w1"] if wanted.role == "vault").of(File)[0]


def test_the_text_has_no_value_and_the_file_says_where_it_belongs(cluster: Cluster, vault: Path) -> None:
    desired = compiled(cluster, vault)
    file = file_of(desired)
    text = desired.texts[file.text or ""]
    assert text == "server head\npassword=\n"
    assert file.fills == ((21, "db_password"),)
    assert file.filled(text, lambda name: f"<{name}>") == "server head\npassword=<db_password>\n"
    assert file.shown(text) == "server head\npassword=(secret)\n"
    assert file.digest not in desired.texts
    assert Use("db_password", "vault", "/etc/vault.conf", inside=True) in uses(desired)
    assert Use("munge_key", "vault", "/etc/vault.key", inside=False) in uses(desired)


def test_the_digest_covers_text_place_and_version(cluster: Cluster, vault: Path) -> None:
    elsewhere = TEMPLATE.replace("password={{ secret('db_password') }}", "{{ secret('db_password') }}password=")
    kinds = [
        compiled(cluster, vault),
        compiled(cluster, vault, db_password="0" * 64),
        compiled(cluster, vault, TEMPLATE + "more\n"),
        compiled(cluster, vault, elsewhere),
        compiled(cluster, vault, TEMPLATE.replace("db_password", "licence")),
    ]
    assert len({file_of(one).digest for one in kinds}) == len({one.digest for one in kinds}) == 5
    assert file_of(compiled(cluster, vault)).digest == file_of(kinds[0]).digest
    assert file_of(compiled(cluster, vault, db_password=None)).digest is None


@pytest.mark.parametrize("value", ["{{ secret('licence') }}", "\ue000licence\ue000", "\ue000", "\ue000\ue001"])
def test_a_value_that_looks_like_a_placeholder_stays_text(cluster: Cluster, vault: Path, value: str) -> None:
    hostile = dataclasses.replace(cluster, services={**cluster.services, "dns": Service((value,))})
    desired = compiled(hostile, vault)
    file = file_of(desired)
    assert desired.texts[file.text or ""] == f"server {value}\npassword=\n"
    assert file.fills == ((len(f"server {value}\npassword="), "db_password"),)


def test_a_block_may_hold_one_and_a_file_many(cluster: Cluster, vault: Path) -> None:
    template = (
        "{% macro line(name) %}{{ name }}={{ secret(name) }}\n{% endmacro %}"
        "{% for name in ['db_password', 'licence'] %}{{ line(name) | indent }}{% endfor %}"
        "{% set one = secret('licence') %}{{ one }}{{ one }}"
    )
    desired = compiled(cluster, vault, template)
    file = file_of(desired)
    text = desired.texts[file.text or ""]
    assert file.filled(text, str.upper) == "db_password=DB_PASSWORD\nlicence=LICENCE\nLICENCELICENCE"
    assert file.holds == ("db_password", "licence")


@pytest.mark.parametrize(
    "expression",
    [
        "{{ secret('licence') | upper }}",
        "{{ secret('licence') | length }}",
        "{{ secret('licence') | tojson }}",
        "{{ secret('licence') | b64 }}",
        "{{ secret('licence') ~ 'x' }}",
        "{{ secret('licence') + 'x' }}",
        "{{ 'x%s' % secret('licence') }}",
        "{{ [secret('licence')] }}",
        "{{ secret('licence')[0] }}",
        "{{ secret('licence').upper() }}",
        "{% if secret('licence') %}x{% endif %}",
        "{% if secret('licence') == 'x' %}x{% endif %}",
        "{% for x in secret('licence') %}x{% endfor %}",
        "{% filter upper %}{{ secret('licence') }}{% endfilter %}",
        "{% filter reverse %}{{ secret('licence') }}{% endfilter %}",
        "{% set x %}{{ secret('licence') }}{% endset %}{{ x | length }}",
        "{% set x %}{{ secret('licence') }}{% endset %}{{ x | urlencode }}",
        "{% set x %}{{ secret('licence') }}{% endset %}{{ x | truncate(5, true, '', 0) }}",
    ],
)
def test_a_secret_is_put_as_it_is_or_refused(cluster: Cluster, vault: Path, expression: str) -> None:
    with pytest.raises(RoleError, match=r"vault/role\.yaml: /etc/vault\.conf: |vault\.conf\.j2: "):
        compiled(cluster, vault, expression)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("db_password:", "db_pass:", "neither this role nor a role that it needs declares the secret 'db_password'"),
        ("db_password:", "db_pass:", "it may use: munge_key, db_pass, licence"),
        ("secret: munge_key", "secret: other", "needs declares the secret 'other'"),
        (", client]", "]", "needs declares the secret 'munge_key'"),
        ("length: 32", "bytes: 32", "is no text of one line"),
        ("length: 32", "length: 8", "too short for a secret: at least 22"),
        ("length: 32", "length: 31, alphabet: hex", "at least 32"),
        ("length: 32", "length: 32, alphabet: greek", "`greek` is not accepted here"),
        ("length: 32", "length: 32, bytes: 32", "exactly one of bytes, length and provided"),
        (", length: 32", "", "exactly one of bytes, length and provided"),
        ("provided: true", "provided: true, alphabet: hex", "an alphabet is for a secret with a length"),
        ("length: 32", "length: 32, binary: true", "binary and min_bytes are of what the site provides"),
        ("db_password:", "Db-Password:", "should match pattern"),
        ("db_password:", "plan_key:", "hpcforge itself uses this name"),
        ("db_password:", "munge_key:", "role client also declares it"),
        ('"0640"', '"0644"', "it holds db_password, and mode 0644 is for everybody"),
        ('"0400"', '"0404"', "it holds munge_key, and mode 0404 is for everybody"),
    ],
)
def test_a_wrong_declaration_or_use_is_named(cluster: Cluster, vault: Path, old: str, new: str, said: str) -> None:
    path = vault / "role.yaml"
    assert old in VAULT
    path.write_text(VAULT.replace(old, new))
    with pytest.raises(RoleError, match=r"vault/(role\.yaml|files/etc/vault\.conf\.j2): ") as caught:
        compiled(cluster, vault)
    assert said in str(caught.value)


def test_a_path_may_hold_none(cluster: Cluster, vault: Path) -> None:
    (vault / "role.yaml").write_text(VAULT.replace("/etc/vault.key", '"/etc/{{ secret(1) }}"'))
    with pytest.raises(RoleError, match="'secret' is undefined"):
        compiled(cluster, vault)
