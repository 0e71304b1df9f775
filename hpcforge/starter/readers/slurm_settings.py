"""Parameters of slurm.conf that a blueprint takes in `settings`, and why it does not take the others. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from hpcforge.blueprint import values as v
from hpcforge.catalog import load_catalog
from hpcforge.catalog.slurm import Kind, expected
from hpcforge.starter.machines import USUAL_SYSTEM
from hpcforge.starter.readers.slurm_words import DEFAULTS, STATE, Ledger, Statement, Word, has_secret

SHOWN_DEFAULTS = ("ALL", "NO", "0", "1", "NONE", "UNLIMITED", "OFF", "UP")  # in `scontrol show partitions`
HEADS = ("slurmctldhost", "slurmctldhost[0]", "controlmachine", "controladdr", "clustername")
_SETTING: TypeAdapter[str] = TypeAdapter(v.SlurmSetting)
_ITSELF = "hpcforge sets it, or it names a program or a file"
_ACCOUNTS = "it needs `services.accounting`, and names in `slurm.accounts` or `slurm.qos`"
_PLACES = {  # settings with another place in a blueprint, or that refer to missing things
    r"backup(?:controller|addr)": "hpcforge has no backup controller",
    r"accounting.*|defaultstorage.*|trackwckey": "`services.accounting` sets it",
    r"topology.*|routeplugin": "`slurm.topology` sets it",
    r"(?:suspend|resume).*": "it is for programs that switch nodes off and on, which a blueprint does not name",
    r"healthcheck.*": "it is for a program that checks nodes, which a blueprint does not name",
    r"reboot.*|(?!task).*plugins?|burstbuffer.*|acctgather.*|mcs.*|cli.*|jobcredential.*|federation.*|scron.*": (
        "it needs a program, a plugin or a file that a blueprint does not name"
    ),
    r"fastschedule|cachegroups|checkpoint.*|corespecplugin|extsensors.*|getenvtimeout|power.*|scheduler(?:auth|port)|"
    r"schedulerrootfilter": "Slurm no longer has it",
    r"uptime": STATE,
}
_PARTITION_PLACES = {
    r"qos|(?:allow|deny)(?:qos|accounts)": _ACCOUNTS,
    r"allowgroups": "users must be in these groups first: then `settings` of the partition can set it",
    r"tresbillingweights": "`billing` of the partition sets it, with `services.accounting`",
    r"topology": "`topology` of the partition sets it",
    r"alternate|jobdefaults|totalcpus|totalnodes|tres|overtimelimit|nodeindices": "a blueprint has no such key",
}


def problem(kind: TypeAdapter[str], text: str) -> str | None:
    """Return why a blueprint does not accept a value, or None."""
    try:
        kind.validate_python(text)
    except ValidationError as error:
        return str(error.errors()[0]["msg"])
    return None


def _place(key: str, places: dict[str, str]) -> str | None:
    return next((reason for pattern, reason in places.items() if re.fullmatch(pattern, key.lower())), None)


Known = Mapping[str, tuple[str, Kind]]  # name and kind of a setting, by its lower-case name


def _by_key(settings: Mapping[str, Kind]) -> Known:
    return {name.lower(): (name, kind) for name, kind in settings.items()}


@dataclass(frozen=True)
class Settings:
    """The settings of a release of Slurm. `shown`: the file is the output of scontrol."""

    version: str
    cluster: Known
    partition: Known
    shown: bool = False

    @classmethod
    def of_usual_system(cls, shown: bool) -> Settings:
        """Return those of the distribution that a draft has where nothing says another."""
        catalog = load_catalog()
        version = catalog.distributions[USUAL_SYSTEM].slurm
        release = catalog.slurm[version]
        return cls(version, _by_key(release.settings), _by_key(release.partition_settings), shown)

    def spelled(self, key: str) -> str:
        """Return the name of a setting as Slurm spells it."""
        name, _ = self.cluster.get(key.lower()) or self.partition.get(key.lower()) or (key, "text")
        return name

    def of_cluster(self, word: Word) -> str | None:
        """Return why `slurm.settings` does not take a word, or None."""
        if reason := _place(word.key, _PLACES):
            return reason
        if not v.may_set(word.key):
            return _ITSELF
        if has_secret(word):
            return "it has a secret, which no blueprint has"
        if word.key.lower() == "preempttype" and word.value.endswith("qos"):
            return _ACCOUNTS
        return self._refused(self.cluster, word)

    def of_partition(self, word: Word) -> str | None:
        """Return why `settings` of a partition does not take a word, or None."""
        if reason := _place(word.key, _PARTITION_PLACES):
            return reason
        if not v.may_set_of_partition(word.key):
            return "another key of the partition has it"
        return self._refused(self.partition, word)

    def _refused(self, settings: Known, word: Word) -> str | None:
        if word.key.lower() not in settings:
            return f"Slurm {self.version}, which the draft has, does not know it"
        if word.value.startswith("/"):
            return "it names a file or a folder of the machines as they are"
        if wrong := problem(_SETTING, word.value):
            return wrong
        _, kind = settings[word.key.lower()]
        form = expected(word.key, kind, word.value)
        return f"Slurm expects {form}" if form else None


def cluster_settings(records: Iterable[Statement], ledger: Ledger, settings: Settings) -> dict[str, str]:
    """Return the settings of the whole cluster that a blueprint takes; the last of each name counts, as in Slurm."""
    accepted: dict[str, Word] = {}
    for record in records:
        for key, word in record.words.items() if not record.kind else ():
            if key in HEADS:
                continue
            reason = DEFAULTS if settings.shown else settings.of_cluster(word)
            if reason:
                ledger.leave(word, reason)
                continue
            if key in accepted:
                ledger.leave(accepted.pop(key), "it is set again, and Slurm takes the last")
            ledger.take(word)
            accepted[key] = word
    return {settings.spelled(word.key): word.value for word in accepted.values()}
