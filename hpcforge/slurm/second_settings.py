"""Declarations that Slurm ignores without a second setting, as rows of second_settings.yaml. Pure.

hpcforge writes the second setting where it can, and `validate` warns where only the site can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import chain

import yaml
from pydantic import BaseModel, ConfigDict

from hpcforge.blueprint.diagnostics import quote
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.sections.slurm import SlurmSection
from hpcforge.blueprint.validate import Finding
from hpcforge.blueprint.values import may_set

Settings = Mapping[str, str]

# With these weights, QOS and partitions outrank usage: fair share can add at most one tenth of the largest difference
# between two declared priorities.
WEIGHTS = {
    "PriorityWeightFairshare": "10000",
    "PriorityWeightQOS": "100000",
    "PriorityWeightPartition": "100000",
}
_PRIVATE_HISTORY = ("accounts", "events", "jobs", "reservations", "usage", "users")  # words of slurmdbd.conf(5)
_UNSET = {"", "0", "no", "none", "off"}
_DEFAULTS = {"jobrequeue": "1", "maxarraysize": "1001", "maxjobcount": "10000"}  # of Slurm 22.05 to 24.11
_OWN_ROLES = "own roles"
_MESSAGE_TIMEOUT_S = "30"  # value in the role slurm_controller


class WrittenSetting(BaseModel):
    """A row whose second setting hpcforge writes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    declared: str
    example: dict[str, object]
    file: str
    lines: tuple[str, ...]
    always: bool = False
    purpose: str
    source: str
    shown: str = ""


class CheckedSetting(BaseModel):
    """A row whose second setting is the site's; `declared` is a path in the blueprint, `<name>` any key of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    declared: str
    values: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    needs: dict[str, str]
    instead: str = ""
    hint: str = ""
    example: dict[str, object]
    release: str = "12"
    accounting: bool = True
    source: str

    def concerns(self, value: str) -> bool:
        """Return whether a value, in lower case, needs the second setting."""
        if self.words:
            return not {*self.words}.isdisjoint(value.split(","))
        return value in self.values if self.values else value not in self.ignores


class UnneededSetting(BaseModel):
    """A row whose second setting is left as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    declared: str
    setting: str
    reason: str
    source: str
    shown: str = ""


class SecondSettings(BaseModel):
    """All rows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    written: tuple[WrittenSetting, ...]
    checked: tuple[CheckedSetting, ...]
    unneeded: tuple[UnneededSetting, ...]


@cache
def second_settings() -> SecondSettings:
    """Return the table."""
    text = (files("hpcforge.slurm") / "second_settings.yaml").read_text(encoding="utf-8")
    return SecondSettings.model_validate(yaml.load(text, Loader=yaml.CSafeLoader))


def implied_settings(slurm: SlurmSection, *, accounting: bool) -> Iterator[tuple[str, str]]:
    """Yield what slurm.conf needs for the order of jobs and for preemption, as far as `settings` do not have it.

    Weights are all the site's as soon as it sets one.
    """
    settings = {name.lower(): value.lower() for name, value in slurm.settings.items()}
    priorities = [name for name in settings if name.startswith("priority")]
    weights = () if any(name.startswith("priorityweight") for name in priorities) else tuple(_weights(slurm))
    if "prioritytype" not in settings and (accounting or weights or priorities):
        yield "PriorityType", "priority/multifactor"
    if settings.get("prioritytype", "priority/multifactor") == "priority/multifactor":
        yield from ((name, WEIGHTS[name]) for name in weights)
    if any(qos.preempt for qos in slurm.qos.values()) and "preempttype" not in settings:
        yield "PreemptType", "preempt/qos"
        if "preemptmode" not in settings:
            yield "PreemptMode", "REQUEUE"


def _weights(slurm: SlurmSection) -> Iterator[str]:
    limits = chain(slurm.accounts.values(), *(account.users.values() for account in slurm.accounts.values()))
    if any(limit.fairshare is not None for limit in limits):
        yield "PriorityWeightFairshare"
    if any(qos.priority for qos in slurm.qos.values()):
        yield "PriorityWeightQOS"
    parameters = chain.from_iterable(partition.settings.items() for partition in slurm.partitions.values())
    if any(name.lower() == "priorityjobfactor" and value != "0" for name, value in parameters):
        yield "PriorityWeightPartition"


def slurmdbd_settings(slurm: SlurmSection) -> Iterator[tuple[str, str]]:
    """Yield settings that count in slurmdbd.conf as well: what of the history is private, and keys of workloads."""
    settings = {name.lower(): value.lower() for name, value in slurm.settings.items()}
    words = {*settings.get("privatedata", "none").split(",")}
    private = [word for word in _PRIVATE_HISTORY if words & {"all", word, word.rstrip("s")}]
    if private:
        yield "PrivateData", ",".join(private)
    if settings.get("trackwckey") in ("yes", "true", "up", "1"):
        yield "TrackWCKey", "yes"


def tracked_traffic(slurm: SlurmSection) -> Iterator[str]:
    """Yield what AccountingStorageTRES needs, so that the traffic that the site has Slurm gather is kept."""
    settings = {name.lower(): value.lower() for name, value in slurm.settings.items()}
    for kind, name in (("fs", "filesystem"), ("ic", "interconnect")):
        plugin = settings.get(f"acctgather{name}type", "none").rpartition("/")[2]
        if plugin != "none":
            yield f"{kind}/{plugin}"


def second_setting_findings(slurm: SlurmSection, *, accounting: bool, own_roles: bool) -> Iterator[Finding]:
    """Yield declared settings without effect, with the setting that each needs.

    `own_roles`: the site has roles that may write further settings.
    """
    settings = {**_effective(slurm, accounting=accounting), _OWN_ROLES: "yes" if own_roles else "no"}
    for row in second_settings().checked:
        for loc, value in _values(slurm, ("slurm",), tuple(row.declared.split(".")[1:])):
            if row.concerns(value.lower()):
                missing = [need for need in row.needs.items() if not _holds(settings, *need, value)]
                yield from (_finding(row, loc, *need, value) for need in missing[:1])


def _effective(slurm: SlurmSection, *, accounting: bool) -> dict[str, str]:
    """Return the settings that slurmctld gets, by name and value in lower case, if a row names them."""
    cgroups = bool(slurm.enforce)
    written = {
        **dict(implied_settings(slurm, accounting=accounting)),
        "AccountingStorageType": "accounting_storage/slurmdbd" if accounting else "accounting_storage/none",
        "ProctrackType": "proctrack/cgroup" if cgroups else "proctrack/linuxproc",
        "TaskPlugin": "task/cgroup,task/affinity" if cgroups else "task/affinity",
        "ConstrainRAMSpace": "yes" if "memory" in slurm.enforce else "no",
        "MessageTimeout": _MESSAGE_TIMEOUT_S,
        **slurm.settings,
    }
    effective = _DEFAULTS | {name.lower(): value.lower() for name, value in written.items()}
    if effective.get("prioritytype") == "priority/basic":
        effective.setdefault("prioritydecayhalflife", "0")  # only the other type lets usage decay
    return effective


def _values(section: object, loc: Loc, path: tuple[str, ...]) -> Iterator[tuple[Loc, str]]:
    """Yield each place of a path that has a value, and the value; the names of settings have no case."""
    if section is None or not path:
        if section is not None:
            yield loc, ",".join(map(str, section)) if isinstance(section, tuple) else str(section)
        return
    if not isinstance(section, Mapping):
        yield from _values(getattr(section, path[0]), (*loc, path[0]), path[1:])
        return
    for key, value in section.items():
        if path[0] == "<name>" or key.lower() == path[0].lower():
            yield from _values(value, (*loc, key), path[1:])


def _holds(settings: Settings, name: str, need: str, value: str) -> bool:
    having = settings.get(name.lower(), "")
    if need == "set":
        return having not in _UNSET and having.rpartition("/")[2] not in _UNSET
    if need == "file":
        return settings[_OWN_ROLES] == "yes"
    if need == "given":
        return having != ""
    if need == "a fifth":
        return not value.isdecimal() or int(value) >= 5 * int(having)
    if need == "larger":
        return not (having.isdecimal() and value.isdecimal()) or int(having) > int(value)
    return need in having.split(",")


def _finding(row: CheckedSetting, loc: Loc, name: str, need: str, value: str) -> Finding:
    example = {"set": name, "larger": f"{name}: a number above {value}"}.get(need, f"{name}: {need}")
    value_needed = "" if need in ("set", "larger", "file") else f"={need}"
    add = f"add `{example}` to `slurm.settings`, or remove this"
    hint = row.hint or (add if may_set(name) else "remove this: hpcforge has no key for it")
    message = f"{quote(str(loc[-1]))} {row.instead or f'has no effect without {name}{value_needed}'}"
    return Finding(loc, message, hint, severity="warning", key=True)
