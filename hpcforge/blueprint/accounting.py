"""Accounts, their users and QOS in a blueprint: the words are sacctmgr's, written as blueprints write words."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hpcforge.blueprint import values as v
from hpcforge.blueprint.section import Section

TESTS_ACCOUNT = "hpcforge_tests"  # of the jobs of smoke tests: their usage counts for no group of people


class Tres(Section):
    """So much of what jobs use (Slurm's trackable resources)."""

    cpu: v.Whole | None = Field(None, ge=0, description="Hardware threads.")
    memory_gib: v.Whole | None = Field(None, ge=0, description="Memory, GiB.")
    node: v.Whole | None = Field(None, ge=0, description="Nodes.")
    gpu: v.Whole | None = Field(None, ge=0, description="GPUs that jobs have to themselves.")
    shard: v.Whole | None = Field(None, ge=0, description="Shards of shared GPUs; a shard does not count as a GPU.")
    billing: v.Whole | None = Field(None, ge=0, description="Billing units, by the partition's `billing`.")


class Limits(Section):
    """What an account, or a user in it, may have; what is not said is as its parent has it, or without a limit."""

    fairshare: v.Whole | None = Field(
        None, ge=0, description="Shares among the accounts with the same parent; default: 1."
    )
    grp_tres: Tres | None = Field(None, description="All jobs at once.")
    grp_tres_mins: Tres | None = Field(None, description="All jobs together, resources times minutes.")
    grp_jobs: v.Whole | None = Field(None, ge=0, description="Running jobs at once.")
    max_tres: Tres | None = Field(None, description="A job.")
    max_jobs: v.Whole | None = Field(None, ge=0, description="Running jobs of each user at once.")
    max_submit_jobs: v.Whole | None = Field(None, ge=0, description="Running and waiting jobs of each user.")
    max_wall: v.MaxTime | None = Field(None, description="Time of a job, [days-]hours:minutes:seconds.")
    qos: tuple[v.SectionName, ...] = Field((), description="QOS that its jobs may have.")
    default_qos: v.SectionName | None = Field(None, description="The QOS of jobs that name none.")


class AccountSection(Limits):
    """A group of people, or a project, for which jobs run."""

    parent: v.SectionName | None = Field(None, description="The parent account; default: root.")
    users: dict[v.PersonName, Limits] = Field(
        {},
        description="Users who may use it, from `users` or, with the service `directory`, from the directory. A "
        "user's default account is the first that names them.",
    )


class Qos(Section):
    """A quality of service: what jobs that ask for it may have."""

    priority: v.Whole | None = Field(
        None,
        ge=0,
        description="Jobs of a higher one come first, by PriorityWeightQOS, which hpcforge writes unless `settings` "
        "has weights; default: 0.",
    )
    preempt: tuple[v.SectionName, ...] = Field((), description="QOS whose jobs this QOS may preempt.")
    preempt_mode: Literal["requeue", "cancel"] | None = Field(
        None, description="What happens to its jobs when they are preempted; default: requeue."
    )
    grp_tres: Tres | None = Field(None, description="All its jobs at once.")
    grp_jobs: v.Whole | None = Field(None, ge=0, description="Its running jobs at once.")
    max_tres: Tres | None = Field(None, description="A job.")
    max_tres_per_user: Tres | None = Field(None, description="Jobs of each user at once.")
    max_jobs_per_user: v.Whole | None = Field(None, ge=0, description="Running jobs of each user at once.")
    max_submit_jobs_per_user: v.Whole | None = Field(None, ge=0, description="Running and waiting jobs of each user.")
    max_wall: v.MaxTime | None = Field(None, description="Time of a job, [days-]hours:minutes:seconds.")


class Billing(Section):
    """What a job is billed for what it has, by Slurm's TRESBillingWeights."""

    cpu: v.Number | None = Field(None, ge=0, description="A hardware thread.")
    memory_gib: v.Number | None = Field(None, ge=0, description="A GiB of memory.")
    gpu: v.Number | None = Field(None, ge=0, description="A GPU.")
    shard: v.Number | None = Field(None, ge=0, description="A shard of a GPU.")
