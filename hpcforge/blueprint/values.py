"""The types of single values in blueprints and inventories: text, typed and checked by strict patterns.

Every scalar arrives as text (see `reader`), and every pattern allows only what can stand in a configuration file, a
host name or a command line without quoting. Errors are `PydanticCustomError("value", ...)` with a hint in the context.
"""

from __future__ import annotations

import calendar
import ipaddress
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

from hpcforge.blueprint import hostlist, node_sets, suggestions
from hpcforge.blueprint.diagnostics import odd_characters, quote

_LABEL = r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?"  # RFC 1035, lower-case
_DOMAIN_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = rf"{_DOMAIN_LABEL}(?:\.{_DOMAIN_LABEL})*\.[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?"
_IPV4 = r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}"
_CATALOG = "x-catalog"  # present in a JSON Schema only while it is built
_GUESSED = 200  # length of a text for which a guess is made

_USER_NAME = r"[a-z](?:[a-z0-9_-]{0,30}[a-z0-9_])?"
_A_USER_NAME = "a user name: up to 32 lower-case letters, digits, _ and -, a letter first"

# Texts of firmware in place of a missing serial number: dmidecode's words, AMI's and OEMs' defaults.
_NO_SERIAL = re.compile(
    r"0+|x+|0?123456789|default([ ._-]?string)?|unknown|undefined|none|null|empty|invalid|n[/.]?a|o\.?e\.?m\.?|"
    r"not[ ._-]?(specified|available|applicable|provided|present|defined|set)|to[ ._-]?be[ ._-]?filled.*|"
    r"((system|chassis|base|board)[ ._-]?){0,3}serial([ ._-]?(number|no\.?))?|(system|chassis|board) serial.*|"
    r"\w{0,20}serial ?number",
    re.IGNORECASE,
)
# Names that Slurm, the resolver or hpcforge itself reads as something else.
_RESERVED_NODES = frozenset({"all", "default", "localhost", "none"})
# Accounts of Debian and of the packages that hpcforge installs.
_SYSTEM_ACCOUNTS = """
root daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc nobody sshd messagebus munge slurm
chrony unbound dnsmasq polkitd systemd-network systemd-resolve systemd-timesync systemd-coredump
"""
_RESERVED_USERS = frozenset(_SYSTEM_ACCOUNTS.split())
# Further groups of Debian and of those packages: members have rights on every node.
_SYSTEM_GROUPS = """
adm tty disk kmem dialout fax voice cdrom floppy tape sudo audio dip operator src shadow utmp video sasl plugdev staff
users nogroup input sgx kvm render crontab netdev ssl-cert docker systemd-journal _ssh wheel
"""
_RESERVED_GROUPS = _RESERVED_USERS | frozenset(_SYSTEM_GROUPS.split())


def refusal(message: str, hint: str | None = None) -> PydanticCustomError:
    """Return the error to raise for a value; `message` follows the value in the diagnostic."""
    return PydanticCustomError("value", "{message}", {"message": message, "hint": hint})


@dataclass(frozen=True)
class Matches:
    """Text that matches a pattern as a whole; `what` completes "is not ...", `example` matches.

    `guess` returns the probable meaning of other text.
    """

    pattern: str
    what: str
    example: str
    reserved: frozenset[str] = frozenset()
    guess: Callable[[str], str | None] = suggestions.name

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Check the pattern after the type."""
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Give editors the pattern."""
        return {**handler(schema), "pattern": f"^(?:{self.pattern})$"}

    def check(self, text: str) -> str:
        """Return the text, or raise an error with the problem, a guess, or an example."""
        if not re.fullmatch(self.pattern, text):
            raise refusal(f"{quote(text)} is not {self.what}", odd_characters(text) or self._hint(text))
        if text.lower() in self.reserved:
            raise refusal(f"{quote(text)} is a reserved name", f"choose another, for example {self.example}")
        return text

    def _hint(self, text: str) -> str:
        guess = self.guess(text) if text.isascii() and len(text) <= _GUESSED else None
        probable = guess is not None and re.fullmatch(self.pattern, guess)
        return f"did you mean {quote(guess or '')}?" if probable else f"for example {self.example}"


@dataclass(frozen=True)
class OfCatalog:
    """A name of the catalog's `table` (a field of `hpcforge.catalog.Catalog`), or of what a blueprint adds to it."""

    table: str

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Mark the place, for `offered`."""
        return {**handler(schema), **of_catalog(self.table)}


def of_catalog(table: str) -> dict[str, str]:
    """Return what marks a place in a JSON Schema as one for names of a table of the catalog."""
    return {_CATALOG: table}


def offered(schema: Any, names: Mapping[str, Iterable[str]]) -> Any:
    """Return a JSON Schema in which places of `OfCatalog` have the names of their table, which editors then offer.

    Other names are accepted as before: a blueprint may have models of its own, and `validate` knows them.
    """
    if isinstance(schema, list):
        return [offered(item, names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    rest = {key: offered(value, names) for key, value in schema.items() if key != _CATALOG}
    choices = list(dict.fromkeys(names.get(schema.get(_CATALOG, ""), ())))
    if not choices:
        return rest
    about = {key: rest.pop(key) for key in ("title", "description", "default") if key in rest}
    return {**about, "anyOf": [{"enum": choices}, rest]}


def whole(value: Any) -> Any:
    """Turn decimal digits into an int; anything else that is text is refused, leading zeros too."""
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"-[0-9]{1,18}(?:\.[0-9]{1,9})?", value):
        raise refusal(f"{quote(value)} is below 0")  # the hint has the bounds of the field
    if not re.fullmatch(r"0|[1-9][0-9]{0,17}", value):
        guess = suggestions.whole(value)
        hint = f"write {guess}" if guess else "digits only, for example 64; a unit is in the name of the key"
        raise refusal(f"{quote(value)} is not a whole number", hint)
    return int(value)


def number(value: Any) -> Any:
    """Turn a plain decimal number into a float; anything else that is text is refused."""
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"-[0-9]{1,18}(?:\.[0-9]{1,9})?", value):
        raise refusal(f"{quote(value)} is below 0")
    if not re.fullmatch(r"(?:0|[1-9][0-9]{0,11})(?:\.[0-9]{1,9})?", value):
        guess = suggestions.number(value)
        hint = f"write {guess}" if guess else "digits and a point, for example 1.35; a unit is in the name of the key"
        raise refusal(f"{quote(value)} is not a number", hint)
    return float(value)


@dataclass(frozen=True)
class ShortForm:
    """A value that may be written short, as text: `key` puts the text into a mapping, no key into a list."""

    key: str | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Lengthen before the type is checked."""
        return core_schema.no_info_before_validator_function(self._lengthen, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Give editors both ways."""
        full = handler(schema)
        return {"anyOf": [{"type": ["string", "number"]} if self.key else full["items"], full]}

    def _lengthen(self, value: Any) -> Any:
        if isinstance(value, list | tuple | dict) or value is None:
            return value
        return {self.key: value} if self.key else [value]


def _date(text: str) -> str:
    right = re.fullmatch(r"([2-9][0-9]{3})-(0[1-9]|1[0-2])-([0-9]{2})", text)
    year, month, day = map(int, right.groups()) if right else (0, 0, 0)
    if not right or not 1 <= day <= calendar.monthrange(year, month)[1]:
        raise refusal(f"{quote(text)} is not a date", odd_characters(text) or "year-month-day, for example 2027-03-31")
    return text


def _moment(text: str) -> str:
    day, _, clock = text.partition("T")
    if not re.fullmatch(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]", clock):
        example = "year-month-dayThours:minutes, for example 2027-03-31T08:00"
        raise refusal(f"{quote(text)} is not a date with a time", odd_characters(text) or example)
    return f"{_date(day)}T{clock}"


def _truth(value: Any) -> Any:
    if isinstance(value, str):
        if value not in ("true", "false"):
            guess = suggestions.TRUTHS.get(suggestions.plainer(value).lower(), "true or false")
            raise refusal(f"{quote(value)} is neither true nor false", f"write {guess}")
        return value == "true"
    return value


def _hostlist(text: str) -> str:
    try:
        hostlist.expand(text)
    except hostlist.HostlistError as error:
        raise refusal(f"{quote(text)} {error}", odd_characters(text) or error.hint or None) from None
    return text


def _node_names(text: str) -> str:
    """Check every name a hostlist stands for; one wrong name is enough to show."""
    for name in hostlist.expand(_hostlist(text)):
        NODE_NAME.check(name)
    return text


def _node_set(text: str) -> str:
    try:
        return text if text == node_sets.EACH_PARTITION else node_sets.check(text)
    except node_sets.NodeSetError as error:
        raise refusal(f"{quote(text)} {error}", odd_characters(text) or error.hint or None) from None


def _ipv4(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise refusal(
            f"{quote(text)} is not an IPv4 address", odd_characters(text) or suggestions.address(text)
        ) from None


def _ipv4_hostlist(text: str) -> str:
    if re.search(r"[^0-9.,\[\]-]", text):
        hint = odd_characters(text) or suggestions.address(text, "10.20.0.[11-42]")
        raise refusal(f"{quote(text)} is not a list of IPv4 addresses", hint)
    for address in hostlist.expand(_hostlist(text)):
        _ipv4(address)
    return text


def _cidr(text: str) -> str:
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError:
        raise refusal(
            f"{quote(text)} is not an IPv4 subnet", odd_characters(text) or suggestions.subnet(text)
        ) from None
    if text != str(network) or not 8 <= network.prefixlen <= 30:
        raise refusal(f"{quote(text)} is not a subnet with a prefix from /8 to /30", suggestions.subnet(text))
    return text


@dataclass(frozen=True)
class Checked:
    """Text that a function accepts."""

    function: Any

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Check after the type."""
        return core_schema.no_info_after_validator_function(self.function, handler(source))


NODE_NAME = Matches(
    _LABEL,
    "a node name: 1 to 63 lower-case letters, digits and hyphens, a letter first, no hyphen last",
    "gpu001",
    _RESERVED_NODES,
)
RACK_NAME = Matches(_LABEL, "a rack name: up to 63 lower-case letters, digits and hyphens, a letter first", "r01")


def _rack_names(text: str) -> str:
    for name in hostlist.expand(_hostlist(text)):
        RACK_NAME.check(name)
    return text


def may_be_mac_of_port(text: str) -> bool:
    """Return whether one port can have this MAC address: not zero, and no group address (IEEE 802: first byte even)."""
    return text != "00:00:00:00:00:00" and int(text[:2], 16) % 2 == 0


def may_be_serial(text: str) -> bool:
    """Return whether a maker set this serial number: placeholders are on many machines."""
    return not _NO_SERIAL.fullmatch(text)


def _serial(text: str) -> str:
    if not may_be_serial(text):
        message = f"{quote(text)} is a placeholder, not a serial number"
        raise refusal(message, "leave it out, or read the label on the machine")
    return text


def _mac_of_port(text: str) -> str:
    if not may_be_mac_of_port(text):
        message = f"{quote(text)} is zero, broadcast or multicast: no port has such a MAC address"
        raise refusal(message, "`ip link` shows a port's own")
    return text


def counted(text: str) -> tuple[int, str]:
    """Return how many of what: `8 x connectx-7-400g` is 8 of it."""
    count, _, model = text.partition(" x ")
    return int(count), model


def minutes(text: str) -> float:
    """Return a `Duration` in minutes."""
    return next(int(text.removesuffix(unit)) * factor for unit, factor in _DURATIONS.items() if text.endswith(unit))


def limit_s(max_time: str) -> float:
    """Return a `MaxTime` in seconds, as the blueprint or Slurm spells it."""
    if max_time.lower() == "infinite":
        return math.inf
    days, _, clock = max_time.rpartition("-")
    hours, minutes_, seconds = map(int, clock.split(":"))
    return ((int(days or 0) * 24 + hours) * 60 + minutes_) * 60 + seconds


_DURATIONS = {"min": 1.0, "h": 60.0, "s": 1 / 60}

Number = Annotated[float, BeforeValidator(number)]
Counted = Annotated[
    str,
    Matches(
        r"[1-9][0-9]{0,3} x [A-Za-z0-9][A-Za-z0-9.-]{0,63}",
        "a count and what it counts",
        "8 x 400G",
        guess=suggestions.counted,
    ),
]
Duration = Annotated[
    str, Matches(r"[1-9][0-9]{0,4}(?:s|min|h)", "a time such as 90s, 15min or 2h", "15min", guess=suggestions.duration)
]
RackName = Annotated[str, RACK_NAME]
RoomName = Annotated[
    str, Matches(_LABEL, "a room name: up to 63 lower-case letters, digits, hyphens, a letter first", "hall-2")
]
Interface = Annotated[
    str, Matches(r"[A-Za-z][A-Za-z0-9_.-]{0,31}", "an interface as Linux names it", "bond0", guess=suggestions.plainer)
]
RackHostlist = Annotated[str, Checked(_rack_names)]
FeedName = Annotated[str, Matches(r"[A-Za-z][A-Za-z0-9-]{0,15}", "a feed name: up to 16 letters, digits, hyphens", "A")]
Fact = Annotated[str, Matches(r"[a-z][a-z0-9_]{0,63}|\*", "the name of a fact, or *", "max_w")]
FabricName = Annotated[
    str,
    Matches(
        r"[a-z](?:[a-z0-9-]{0,30}[a-z0-9])?",
        "a fabric name: up to 32 lower-case letters, digits and hyphens",
        "compute",
    ),
]
EndpointName = Annotated[
    str,
    Matches(
        r"[a-z](?:[a-z0-9-]{0,30}[a-z0-9])?", "a short name: up to 32 lower-case letters, digits and hyphens", "storage"
    ),
]
Mac = Annotated[
    str,
    Matches(
        "[0-9a-f]{2}(?::[0-9a-f]{2}){5}", "a MAC address in lower case", "3c:ec:ef:12:34:56", guess=suggestions.mac
    ),
    Checked(_mac_of_port),
]
Serial = Annotated[
    str,
    Matches(
        r"[A-Za-z0-9][A-Za-z0-9._/-]{0,63}",
        "a serial number: up to 64 letters, digits and ._/-",
        "S213048X8A03214",
        guess=suggestions.plainer,
    ),
    Checked(_serial),
]
SUBNET_MANAGER = _LABEL  # on-switch and external are labels, too
Whole = Annotated[int, BeforeValidator(whole)]
# bounds come first: otherwise they do not reach the JSON Schema of a field that may be null
Sockets = Annotated[int, Field(ge=1, le=16), BeforeValidator(whole)]
CoresPerSocket = Annotated[int, Field(ge=1, le=512), BeforeValidator(whole)]
ThreadsPerCore = Annotated[int, Field(ge=1, le=8), BeforeValidator(whole)]
MemoryGib = Annotated[int, Field(ge=1, le=65_536), BeforeValidator(whole)]
ReserveCores = Annotated[int, Field(ge=0, le=64), BeforeValidator(whole)]
ReserveMemoryGib = Annotated[int, Field(ge=0, le=1024), BeforeValidator(whole)]
Truth = Annotated[bool, BeforeValidator(_truth)]
NodeName = Annotated[str, NODE_NAME]
NodeHostlist = Annotated[str, Checked(_node_names)]
NodeSet = Annotated[str, Checked(_node_set)]
BmcUser = Annotated[
    str, Matches(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,31}", "a user of a BMC: up to 32 letters, digits and ._@-", "admin")
]
Fingerprint = Annotated[
    str, Matches("[0-9a-f]{64}", "a SHA-256: 64 hexadecimal digits in lower case", "0" * 60 + "beef")
]
Ipv4 = Annotated[str, Checked(_ipv4), Field(json_schema_extra={"format": "ipv4"})]
Ipv4Hostlist = Annotated[str, Checked(_ipv4_hostlist)]
Cidr = Annotated[str, Checked(_cidr)]
ClusterName = Annotated[
    str,
    Matches(
        r"[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?", "a cluster name: up to 40 lower-case letters, digits, hyphens", "aurora"
    ),
]
DomainName = Annotated[
    str, Field(max_length=180), Matches(_DOMAIN, "a lower-case domain name of two parts or more", "hpc.example.org")
]
HostOrAddress = Annotated[
    str,
    Field(max_length=253),
    Matches(rf"{_IPV4}|{_LABEL}(?:\.{_LABEL})*", "a host name or an IPv4 address", "ntp1.example.org or 10.20.0.11"),
]
LoginName = Annotated[str, Matches(_USER_NAME, _A_USER_NAME, "ada")]
UserName = Annotated[str, Matches(_USER_NAME, _A_USER_NAME, "ada", _RESERVED_USERS)]
PersonName = Annotated[
    str,
    Matches(
        r"[a-z](?:[a-z0-9_.-]{0,30}[a-z0-9_])?",
        f"a name of a person: {_A_USER_NAME.partition(': ')[2].replace(' _ and -', ' _, . and -')}",
        "grace",
        _RESERVED_USERS,
    ),
]
GroupName = Annotated[str, Matches(_USER_NAME, _A_USER_NAME.replace("user", "group"), "vision", _RESERVED_GROUPS)]
Date = Annotated[str, Checked(_date), Field(json_schema_extra={"format": "date"})]
Moment = Annotated[str, Checked(_moment)]
SectionName = Annotated[
    str,
    Matches(
        r"[a-z][a-z0-9_-]{0,31}",
        "a short name: up to 32 lower-case letters, digits, _ and -, a letter first",
        "main",
        frozenset({"default"}),  # Slurm reads PartitionName=default as the defaults of all partitions
    ),
]
ModelName = Annotated[
    str, Matches(r"[a-z0-9][a-z0-9.-]{0,63}", "a model name: lower-case letters, digits, . and -", "dgx-h100")
]
DistributionName = Annotated[
    str, Matches(r"[a-z0-9][a-z0-9.-]{0,63}", "a name of a distribution: lower-case letters, digits, . and -", "debian")
]
ReleaseNumber = Annotated[
    str,
    Matches(
        r"[0-9]{1,6}(?:\.[0-9]{1,6}){0,3}",
        "a number of a release, as VERSION_ID of /etc/os-release has it",
        "12 or 24.04",
        guess=suggestions.plainer,
    ),
]
Version = Annotated[
    str,
    Matches(
        r"[0-9]{1,6}(?:\.[0-9]{1,6}){0,3}",
        "a version: numbers with points between them",
        "12 or 2.13.0",
        guess=suggestions.plainer,
    ),
]
FILE_PATH = Matches(r"[\w ./~@+=,-]{1,1000}", "a path of letters, digits, spaces and ./_~@+=,-", "inventory.yaml")
FilePath = Annotated[str, FILE_PATH]
SecretsPath = Annotated[
    str,
    Matches(
        r"[\w ./~@+=,-]{1,1000}\.age",
        "a path that ends in .age, of letters, digits, spaces and ./_~@+=,-",
        "aurora.age",
    ),
]
Text = Annotated[
    str,
    Matches(
        r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{0,1000}",
        "one line of up to 1,000 characters",
        "Welcome",
        guess=suggestions.plainer,
    ),
]
Sentence = Annotated[
    str,
    Matches(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,200}", "one line of up to 200 characters", "RMA 4711: a DIMM is out"),
]
# Settings that hpcforge writes, and settings that name programs, files or further configuration; in any case.
_SLURM_OWNED = re.compile(
    r"(?i)accounting.*|auth.*|clustername|cred.*|crypto.*|downnodes|epilog(?:slurmctld)?|frontend.*|gres.*|include|launch.*|"
    r"job(?:acct|comp|container|credential|submit).*|.*(?:dir|location|logfile|pidfile|program|prog|script)|plugstack.*|"
    r"resv(?:epilog|prolog)|(?:max)?node(?:addr|name|set)|"
    r"partition.*|proctrack.*|prolog(?:slurmctld)?|select.*|slurm(?:user|duser|ctldhost|ctldparameters|dtimeout)|"
    r"srun(?:epilog|prolog)|switch.*|task(?:epilog|prolog|plugin)|tls.*|mpidefault|messagetimeout|returntoservice|"
    r"propagate.*except|slurm(?:ctldaddr|ctldport|dport|dparameters)|srunportrange|disablerootjobs"
)
_SLURM_KEY = Matches(
    r"[A-Za-z][A-Za-z0-9]{2,39}", "a name of a setting in slurm.conf", "TreeWidth", guess=suggestions.camel_case
)


def may_set(name: str) -> bool:
    """Return whether a blueprint may have this setting in slurm.conf."""
    return not _SLURM_OWNED.fullmatch(name)


# Parameters of a partition that hpcforge writes, with their place in a blueprint.
_PARTITION_OWNED = {
    "nodes": "`nodes` of the partition",
    "default": "`default` of the partition",
    "maxtime": "`max_time` of the partition",
    "qos": "`qos` of the partition",
    "tresbillingweights": "`billing` of the partition",
    "topology": "`topology` of the partition",
    "state": None,
}


def may_set_of_partition(name: str) -> bool:
    """Return whether `settings` of a partition may have this parameter."""
    return name.lower() not in _PARTITION_OWNED


def _partition_key(text: str) -> str:
    if not may_set_of_partition(_SLURM_KEY.check(text)):
        instead = _PARTITION_OWNED[text.lower()]
        raise refusal(f"{quote(text)} cannot be set here", f"use {instead}" if instead else "hpcforge sets it")
    return text


def _slurm_key(text: str) -> str:
    if not may_set(_SLURM_KEY.check(text)):
        raise refusal(f"{quote(text)} cannot be set here", "hpcforge sets it, or it names a program or a file")
    return text


SlurmKey = Annotated[str, AfterValidator(_slurm_key)]
PartitionKey = Annotated[str, AfterValidator(_partition_key)]
PartitionName = Annotated[
    str,
    Matches(
        r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}",
        "a name of a partition: up to 63 letters, digits, _, . and -, a letter or digit first",
        "GPU.long",
        frozenset({"default"}),  # Slurm reads PartitionName=DEFAULT as the defaults of all partitions
        guess=suggestions.joined,
    ),
]
Feature = Annotated[
    str,
    Matches(
        r"[A-Za-z0-9_][A-Za-z0-9_.:=+-]{0,62}",
        "a feature of a node: up to 63 letters, digits and _.:=+-, a letter, digit or _ first",
        "ib_hdr",
        guess=suggestions.joined,
    ),
]
SlurmSetting = Annotated[
    str,
    Matches(
        r"[A-Za-z0-9_.,:=*+%/()-]{1,200}", "a value for slurm.conf: one word of letters, digits and _.,:=*+%/()-", "50"
    ),
]
MaxTime = Annotated[
    str,
    Matches(
        r"(?:[0-9]{1,4}-)?(?:[01]?[0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]|infinite",
        "a time limit: hours:minutes:seconds with hours below 24, days-hours:minutes:seconds, or infinite",
        "01:00:00 or 2-00:00:00",
        guess=suggestions.time_limit,
    ),
]
