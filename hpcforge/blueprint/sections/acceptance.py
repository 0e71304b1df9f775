"""The section `acceptance`: smoke tests, their account, and the nodes that each spans. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Annotated, Any, ClassVar

from pydantic import Field, create_model

from hpcforge.blueprint import hostlist, node_sets
from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.section import Section
from hpcforge.blueprint.sections.access import AccessSection, UserSection
from hpcforge.blueprint.sections.services import has_directory
from hpcforge.blueprint.smoke_tests import SmokeTestFolder, SmokeTestSpec
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.values import limit_s, minutes
from hpcforge.blueprint.variables import Chosen, chosen_model


class SmokeTestSection(Section):
    """A test that must pass."""

    nodes: Annotated[tuple[v.NodeSet, ...], v.ShortForm()] = Field(
        min_length=1,
        description="Workers that it spans: a node set such as all, gpu[01-04], a partition, a rack, all!gpu03; a "
        "list of sets, or `each partition`, with one launch for each. All nodes of a set must be in one partition.",
    )
    options: Chosen = Field(Chosen.model_construct(), description="Options of the test.")
    time_limit: v.Duration | None = Field(None, description="Time limit, such as 5h; default: the test's own.")


class SmokeTests(Section):
    """The tests that must pass."""

    folders: ClassVar[Mapping[str, SmokeTestFolder]] = {}  # the folders that this model was made from

    def by_name(self) -> dict[str, SmokeTestSection]:
        """Return the selected tests."""
        sections = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: test for name, test in sections.items() if test is not None}


class AcceptanceSection(Section):
    """Tests, and who runs them."""

    run_as: v.UserName = Field(
        description="The user, from `users`, that submits the tests; must not be an administrator."
    )
    folders: tuple[v.FilePath, ...] = Field(
        (),
        description="Folders of the site's own smoke tests, TEST/test.yaml in each, relative to the blueprint; added "
        "to the shipped ones.",
    )
    tests: SmokeTests = Field(description="The tests by name.")


def acceptance_model(
    smoke_tests: Mapping[str, SmokeTestFolder], named: Collection[str] | None = None
) -> type[AcceptanceSection]:
    """Return the section of a blueprint for the available smoke tests; `named` are those that it names, None: any."""
    fields: dict[str, Any] = {}
    for name, folder in smoke_tests.items():
        if named is None or name in named:
            model, description = _smoke_test_model(name, folder.spec), folder.spec.description
            fields[name] = model | None, Field(None, description=description)
        else:
            fields[name] = SmokeTestSection | None, None
    tests: type[SmokeTests] = create_model("SmokeTests", __base__=SmokeTests, __doc__=SmokeTests.__doc__, **fields)
    tests.folders = smoke_tests
    field: Any = (tests, Field(description="The tests by name."))
    return create_model("AcceptanceSection", __base__=AcceptanceSection, __doc__=AcceptanceSection.__doc__, tests=field)


def _smoke_test_model(name: str, spec: SmokeTestSpec) -> type[SmokeTestSection]:
    if not spec.options:
        return SmokeTestSection
    model = chosen_model(name, spec.options)
    options: Any = (model, Field(model.model_construct(), description="Options of the test."))
    title = "".join(word.capitalize() for word in ("test", *name.split("_")))
    return create_model(title, __base__=SmokeTestSection, __doc__=SmokeTestSection.__doc__, options=options)


MARGIN_S = 60  # limit of a job beyond its tests' limits: Slurm must not end a test before hpcforge does

Findings = Iterator[Finding]
Sets = tuple[tuple[str, ...], ...]


def asked_min(time_limit_s: float) -> int:
    """Return the minutes of the job's limit: Slurm has no seconds there."""
    return ceil((time_limit_s + MARGIN_S) / 60)


def time_limit_s(test: SmokeTestSection, spec: SmokeTestSpec) -> int:
    """Return the time limit of a test."""
    return round(minutes(test.time_limit or spec.time_limit) * 60)


def sets_of(test: SmokeTestSection, known_names: node_sets.KnownNames, partitions: Iterable[tuple[str, ...]]) -> Sets:
    """Return the node sets that a test spans one after the other, each once. Raise NodeSetError."""
    if test.nodes == (node_sets.EACH_PARTITION,):
        return tuple(dict.fromkeys(partitions))
    return tuple(dict.fromkeys(node_sets.expand(text, known_names) or () for text in test.nodes))


def acceptance_findings(
    draft: Draft,
    known_names: node_sets.KnownNames | None,
    workers: Sequence[str],
    partitions: Mapping[str, tuple[Sequence[str], str]],
) -> Findings:
    """Yield errors of users and tests. `known_names` are the words for workers, None if the nodes have errors.

    `partitions` have their nodes and time limits; none where they are not known.
    """
    acceptance: AcceptanceSection | None = draft.sections["acceptance"]
    if acceptance is None:
        return
    yield from _run_as(draft, acceptance)
    tests, folders = acceptance.tests.by_name(), acceptance.tests.folders
    if not tests and draft.intact("acceptance", "tests"):
        yield Finding(("acceptance", "tests"), "no test is named", f"there are {', '.join(folders)}", key=True)
    if known_names is None:
        return
    if any(set(nodes) - set(workers) for nodes, _ in partitions.values()):
        partitions = {}  # a wrong name there may keep a test out of every partition
    for name, test in tests.items():
        if draft.intact("acceptance", "tests", name):
            yield from findings_of(name, test, folders[name].spec, known_names, frozenset(workers), partitions)


def findings_of(
    name: str,
    test: SmokeTestSection,
    spec: SmokeTestSpec,
    known_names: node_sets.KnownNames,
    workers: frozenset[str],
    partitions: Mapping[str, tuple[Sequence[str], str]],
) -> Findings:
    """Yield why a test can never run. `partitions` have their nodes and time limits; none where they are not known."""
    nodes_loc: Loc = ("acceptance", "tests", name, "nodes")
    if node_sets.EACH_PARTITION in test.nodes:
        if len(test.nodes) > 1:
            yield Finding(nodes_loc, "`each partition` already covers every set", "write it alone, or name the sets")
        for partition, (nodes, _) in partitions.items():
            yield from _never_runs(nodes_loc, tuple(nodes), {partition: partitions[partition]}, partition, test, spec)
        return
    for index, text in enumerate(test.nodes):
        loc: Loc = nodes_loc if len(test.nodes) == 1 else (*nodes_loc, index)
        try:
            names = node_sets.expand(text, known_names)
        except node_sets.NodeSetError as error:
            yield Finding(loc, str(error), error.hint or None)
            continue
        if names is None:
            continue
        idle = [node for node in names if node not in workers]
        if idle:
            verb = "is not a worker" if len(idle) == 1 else "are not workers"
            yield Finding(loc, f"{quote(hostlist.fold(idle))} {verb}", "only nodes with the function worker run jobs")
        elif not names:
            yield Finding(loc, f"no worker is in {quote(text)}", "name nodes with the function worker")
        elif partitions:
            yield from _never_runs(loc, names, partitions, name, test, spec)


def _never_runs(
    loc: Loc,
    names: tuple[str, ...],
    partitions: Mapping[str, tuple[Sequence[str], str]],
    subject: str,
    test: SmokeTestSection,
    spec: SmokeTestSpec,
) -> Findings:
    """Yield that nodes are too few, or that no partition has them all, or none that has gives a job time enough."""
    if len(names) < spec.needs.nodes:
        message = f"`{subject}` can never run: it needs {spec.needs.nodes} nodes, and {len(names)} are named"
        yield Finding(loc, message, "name more workers, or remove the test")
        return
    span = set(names)
    holding = {partition: max_time for partition, (nodes, max_time) in partitions.items() if span <= set(nodes)}
    if not holding:
        parts = [
            (partition, hostlist.fold(span & set(nodes)))
            for partition, (nodes, _) in partitions.items()
            if span & set(nodes)
        ]
        shares = ", ".join(f"{partition} has {nodes}" for partition, nodes in parts) or "none has any"
        sets = ", ".join(f'"{nodes}"' for _, nodes in parts)
        yield Finding(
            loc,
            f"`{subject}` can never run: no partition has all of {hostlist.fold(names)} ({shares})",
            f"use a set for each partition: nodes: each partition; or nodes: [{sets}]"
            if parts
            else "add a partition that has them",
        )
        return
    needed = asked_min(time_limit_s(test, spec))
    if all(limit_s(max_time) < needed * 60 for max_time in holding.values()):
        limits = ", ".join(f"{partition} {max_time}" for partition, max_time in holding.items())
        yield Finding(
            loc,
            f"a test here can never run: it needs {needed} min, more than the partition's max_time ({limits})",
            "a longer max_time, or another partition with these nodes",
        )


def _run_as(draft: Draft, acceptance: AcceptanceSection) -> Findings:
    users = draft.keys("users")
    if acceptance.run_as not in users and draft.intact("acceptance", "run_as") and draft.keys_intact("users"):
        hint = did_you_mean(acceptance.run_as, users) or "add it under `users`"
        if has_directory(draft):
            hint += "; users of a directory are not accepted here: tests also run while the directory is down"
        message = f"{quote(acceptance.run_as)} is not a user of this blueprint"
        yield Finding(("acceptance", "run_as"), message, hint)
    if acceptance.run_as in _administrators(draft) and draft.intact("acceptance", "run_as"):
        yield Finding(
            ("acceptance", "run_as"),
            f"{quote(acceptance.run_as)} may become root on all nodes; the tests need a user without that right",
            "name a user without `admin: true`; the user needs no keys",
        )
    users_of: dict[str, UserSection] = draft.sections["users"] or {}
    user = users_of.get(acceptance.run_as)
    if user is not None and user.expires is not None:
        yield Finding(
            ("users", acceptance.run_as, "expires"),
            "this user runs the acceptance tests, which must still run after that day",
            "remove it, or name another `acceptance.run_as`",
        )


def _administrators(draft: Draft) -> set[str]:
    """Return users with sudo on the nodes: the blueprint's, and hpcforge's login account."""
    access: AccessSection | None = draft.sections["access"]
    users: dict[str, UserSection] = draft.sections["users"] or {}
    own = {access.user} if access is not None and draft.intact("access", "user") else set()
    return own | {name for name, user in users.items() if user.admin}
