"""Checks of `slurm.accounts` and `slurm.qos` against users, partitions and the accounting service. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.sections.acceptance import AcceptanceSection
from hpcforge.blueprint.sections.access import unknown_user
from hpcforge.blueprint.sections.services import Services, ServiceSection, has_directory
from hpcforge.blueprint.sections.slurm import TESTS_ACCOUNT, AccountSection, Limits, SlurmSection
from hpcforge.blueprint.validate import Draft, Finding

ROOT = "root"  # Slurm's own account, the parent of all others
USUAL_QOS = "normal"  # Slurm's own QOS
_OF_ACCOUNTS = ("allowaccounts", "denyaccounts")  # parameters of partitions, in lower case
_OF_QOS = ("allowqos", "denyqos")
_SHOWN = 6  # names

Findings = Iterator[Finding]


def accounting_findings(draft: Draft) -> Findings:
    """Yield unknown names, circles, and users who could not run jobs."""
    slurm: SlurmSection | None = draft.sections["slurm"]
    if slurm is None:
        return
    yield from _without_service(draft, slurm)
    yield from _parents(slurm.accounts, draft.keys("slurm", "accounts"))
    yield from _people(draft, slurm.accounts)
    if draft.intact("slurm", "accounts"):
        yield from _run_as(draft, slurm)
    if draft.keys_intact("slurm", "accounts"):
        yield from _accounts_of_partitions(slurm, draft.keys("slurm", "accounts"))
    if draft.keys_intact("slurm", "qos"):
        yield from _qos(slurm, draft.keys("slurm", "qos"))
    yield from _names_of_partitions(draft, slurm)


def _without_service(draft: Draft, slurm: SlurmSection) -> Findings:
    services: Services | None = draft.sections["services"]
    if services is None or not draft.intact("services"):
        return
    accounting = services.by_name().get("accounting")
    if accounting:
        yield from _external_accounting(slurm, accounting)
        if slurm.qos and not draft.keys("slurm", "accounts") and not accounting.outside:
            message = "QOS are enforced, so Slurm refuses jobs of users without an account, and `accounts` has none"
            hint = "add `accounts` with their users, unless you add both by `sacctmgr`"
            yield Finding(("slurm", "qos"), message, hint, severity="warning", key=True)
        return
    locs: list[Loc] = [("slurm", key) for key in ("accounts", "qos") if getattr(slurm, key)]
    for name, partition in slurm.partitions.items():  # slurmctld does not start with one of these and without slurmdbd
        locs += [("slurm", "partitions", name, key) for key in ("qos", "billing") if getattr(partition, key)]
    locs += (loc for loc, _ in _listed(slurm, (*_OF_ACCOUNTS, *_OF_QOS)))
    for loc in locs:
        hint = f"add it under `services`: `accounting: {{on: {slurm.controller}}}`"
        yield Finding(loc, f"`{loc[-1]}` needs a cluster with accounting", hint, key=True)


def _external_accounting(slurm: SlurmSection, accounting: ServiceSection) -> Findings:
    """Check accounting shared with other clusters, which this blueprint must not change; slurmdbd has one backup."""
    if accounting.outside[2:]:
        hint = "the second is used while the first is down"
        yield Finding(("services", "accounting", "external"), "slurmdbd runs on two hosts at most", hint)
    for key in ("accounts", "qos") if accounting.outside else ():
        if getattr(slurm, key):
            hint = "remove this and use sacctmgr there; roles.slurm_accounting_site.enforced makes Slurm enforce it"
            yield Finding(("slurm", key), f"`{key}` cannot be set here: the site manages its slurmdbd", hint, key=True)


def _parents(accounts: Mapping[str, AccountSection], written: Collection[str]) -> Findings:
    for name, account in accounts.items():
        loc = ("slurm", "accounts", name)
        if name == ROOT:
            yield Finding(loc, "`root` is Slurm's own account, the parent of all others", "rename it", key=True)
        if account.parent is not None and account.parent not in (*written, ROOT):
            message = f"{quote(account.parent)} is not an account of this blueprint"
            yield Finding((*loc, "parent"), message, did_you_mean(account.parent, written))
    parents = {name: (account.parent,) if account.parent else () for name, account in accounts.items()}
    for name, circle in _circles(parents):
        message = f"accounts contain each other: {' in '.join(circle)}"
        yield Finding(("slurm", "accounts", name, "parent"), message, "remove one `parent`")


def _people(draft: Draft, accounts: Mapping[str, AccountSection]) -> Findings:
    for name, account in accounts.items():
        for user in account.users:
            yield from unknown_user(draft, ("slurm", "accounts", name, "users", user), user, key=True)


def directory_findings(draft: Draft) -> Findings:
    """Yield once which users only the directory can have: a wrong name is not visible here."""
    slurm: SlurmSection | None = draft.sections["slurm"]
    if slurm is None or not draft.keys_intact("users") or not draft.intact("services") or not has_directory(draft):
        return
    listed = (
        *(section.users for section in slurm.accounts.values()),
        *(section.users for section in slurm.reservations.values()),
    )
    names = dict.fromkeys(user for users in listed for user in users)
    unknown = [name for name in names if name not in draft.keys("users")]
    if unknown:
        shown = ", ".join(unknown[:_SHOWN]) + f" and {len(unknown) - _SHOWN} more" * (len(unknown) > _SHOWN)
        message = f"users of the directory: whether it has {shown}, which `users` does not have"
        hint = "`apply` asks the directory"
        yield Finding(("services", "directory"), message, hint, severity="not-checked", key=True)


def _run_as(draft: Draft, slurm: SlurmSection) -> Findings:
    """Yield that the user of the tests is in no account, where a partition takes only some: not that of the tests."""
    acceptance: AcceptanceSection | None = draft.sections["acceptance"]
    if acceptance is None or not slurm.accounts or not draft.intact("acceptance", "run_as"):
        return
    limited = [name for _, names in _listed(slurm, ("allowaccounts",)) for name in names if TESTS_ACCOUNT not in names]
    if limited and not any(acceptance.run_as in account.users for account in slurm.accounts.values()):
        message = f"{quote(acceptance.run_as)} is in no account: Slurm would refuse the tests' jobs"
        yield Finding(("acceptance", "run_as"), message, f"put it under the `users` of {quote(limited[0])}")


def _accounts_of_partitions(slurm: SlurmSection, accounts: Collection[str]) -> Findings:
    for loc, names in _listed(slurm, _OF_ACCOUNTS) if accounts else ():
        for name in names:
            if name not in (*accounts, ROOT, TESTS_ACCOUNT):
                message = f"{quote(name)} is not an account of this blueprint"
                yield Finding(loc, message, did_you_mean(name, accounts))


def _names_of_partitions(draft: Draft, slurm: SlurmSection) -> Findings:
    """Yield unknown partitions, and groups that only a distribution could have."""
    partitions = draft.keys("slurm", "partitions")
    for loc, (name, *_) in _listed(slurm, ("alternate",), lower=False):
        if name not in partitions and draft.keys_intact("slurm", "partitions"):
            message = f"{quote(name)} is not a partition of this blueprint"
            yield Finding(loc, message, did_you_mean(name, partitions))
    groups = (*draft.keys("groups"), *draft.keys("users"))  # each user has a group of that name
    if draft.intact("services") and not has_directory(draft):
        for loc, names in _listed(slurm, ("allowgroups",), lower=False):
            for name in names:
                if name not in groups and draft.keys_intact("groups") and draft.keys_intact("users"):
                    message = f"{quote(name)} is not a group of this blueprint: Slurm ignores groups that no node has"
                    yield Finding(loc, message, did_you_mean(name, groups), severity="warning")


def _listed(slurm: SlurmSection, keys: Collection[str], *, lower: bool = True) -> Iterator[tuple[Loc, list[str]]]:
    """Yield the names that partitions list in these settings; Slurm ignores the case of accounts and QOS."""
    for partition, section in slurm.partitions.items():
        for key, value in section.settings.items():
            if key.lower() in keys and value.lower() != "all":
                names = (value.lower() if lower else value).split(",")
                yield ("slurm", "partitions", partition, "settings", key), names


def _qos(slurm: SlurmSection, qos_names: Collection[str]) -> Findings:
    declared = tuple(dict.fromkeys((*qos_names, USUAL_QOS)))
    references: list[tuple[Loc, str]] = []
    for name, qos in slurm.qos.items():
        references += (
            (("slurm", "qos", name, "preempt", place), preempted) for place, preempted in enumerate(qos.preempt)
        )
    for name, partition in slurm.partitions.items():
        references += [(("slurm", "partitions", name, "qos"), partition.qos)] if partition.qos else []
    for place_loc, words in _listed(slurm, _OF_QOS) if qos_names or slurm.accounts else ():
        references += ((place_loc, word) for word in words)
    for name, account in slurm.accounts.items():
        loc: Loc = ("slurm", "accounts", name)
        limits: list[tuple[Loc, Limits]] = [(loc, account)]
        limits += (((*loc, "users", user), of_user) for user, of_user in account.users.items())
        for place_loc, limit in limits:
            references += (((*place_loc, "qos", place), qos_name) for place, qos_name in enumerate(limit.qos))
            references += [((*place_loc, "default_qos"), limit.default_qos)] if limit.default_qos else []
            if limit.default_qos and limit.qos and limit.default_qos not in limit.qos:
                message = f"{quote(limit.default_qos)} is not among the QOS that its jobs may have"
                yield Finding((*place_loc, "default_qos"), message, f"add it to `qos`: {', '.join(limit.qos)}")
    for place_loc, word in references:
        if word not in declared:
            yield Finding(place_loc, f"{quote(word)} is not a QOS of this blueprint", did_you_mean(word, declared))
    for name, circle in _circles({name: qos.preempt for name, qos in slurm.qos.items()}):
        message = f"QOS cannot preempt each other: {' before '.join(circle)}"
        yield Finding(("slurm", "qos", name, "preempt"), message, "decide which comes first")


def _circles(first: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each circle once: where it was found, and the names on the way round."""
    finished: set[str] = set()
    for start in first:
        path = [start]
        ways = [iter(first[start])]
        while ways:
            successor = next(ways[-1], None)
            if successor is None:
                ways.pop()
                finished.add(path.pop())
            elif successor in path:
                yield path[-1], (*path[path.index(successor) :], successor)
            elif successor in first and successor not in finished:
                path.append(successor)
                ways.append(iter(first[successor]))
