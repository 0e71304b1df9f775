"""Corrections of invalid values, for the hint of each error. Pure.

A guess is text to copy; without a guess, hints have an example.
"""

from __future__ import annotations

import ipaddress
import re

_LONGEST = 100  # length of a value for which a guess is made

TRUTHS = {
    **dict.fromkeys(("yes", "y", "on", "true", "1"), "true"),
    **dict.fromkeys(("no", "n", "off", "false", "0"), "false"),
}

_AMOUNT = re.compile(r"([1-9][0-9]{0,5}) *([A-Za-z]*)")
_CLOCK = re.compile(r"(?:([0-9]{1,3})-)?([0-9]{1,4}):([0-5][0-9]):([0-5][0-9])")
_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
}
_UNIT_NAMES = {1: "seconds", 60: "minutes", 3_600: "hours", 86_400: "days"}


def name(text: str) -> str:
    """Return a name in lower case, with hyphens, and without stray characters around it."""
    return re.sub("[ _]+", "-", plainer(text)).lower()


def joined(text: str) -> str:
    """Return a name with hyphens in place of spaces."""
    return re.sub(" +", "-", plainer(text))


def plainer(text: str) -> str:
    """Remove characters that surround a text by mistake."""
    return text.strip(" ,;")


def counted(text: str) -> str | None:
    """Return a count with its unit: `8x400G`, `8 * 400G` and `400G` are 8 x, 8 x and 1 x 400G."""
    match = re.fullmatch("(?:([1-9][0-9]{0,3}) ?[x*X] ?)?([A-Za-z0-9][A-Za-z0-9.-]{0,63})", plainer(text))
    return f"{match[1] or 1} x {match[2]}" if match else None


def mail_address(text: str) -> str:
    """Return a mail address without a name or scheme: `Ops <ops@example.org>`, `mailto:ops@example.org`."""
    return plainer(text).rpartition("<")[2].rstrip(">").removeprefix("mailto:")


def url(text: str) -> str | None:
    """Return an address of the web without its scheme; None for what has another one."""
    return None if "://" in text else f"https://{plainer(text)}"


def mac(text: str) -> str:
    """Return a MAC address, however it is grouped: `3C-EC-EF-12-34-56`, `3cec.ef12.3456`."""
    digits = re.sub("[-:. ]", "", plainer(text)).lower()
    return ":".join(digits[place : place + 2] for place in range(0, len(digits), 2))


def guid(text: str) -> str:
    """Return a GUID, however it is grouped."""
    return "0x" + re.sub("[-:. ]", "", plainer(text)).lower().removeprefix("0x")


def camel_case(text: str) -> str | None:
    """Return a key as slurm.conf spells it: `tree_width` is TreeWidth; nothing for one that may be of several words."""
    if not re.search("[_ -]", plainer(text)):
        return None
    return "".join(part[:1].upper() + part[1:] for part in re.split("[_ -]", plainer(text)))


def whole(text: str) -> str | None:
    """Drop leading zeros, separators of thousands, or a fraction of zero; other bases become decimal."""
    text = plainer(text)
    if len(text) > _LONGEST:
        return None
    if re.fullmatch("0[xX][0-9a-fA-F]{1,14}|0[oO][0-7]{1,18}|0[bB][01]{1,50}", text):
        return str(int(text, 0))
    digits = re.fullmatch(r"\+?([0-9]{1,18})(?:\.0+)?", text)
    grouped = re.fullmatch(r"[0-9]{1,3}(?:[,_' ][0-9]{3}){1,5}", text)
    number_text = digits[1] if digits else re.sub("[,_' ]", "", text) if grouped else None
    return number_text and (number_text.lstrip("0") or "0")


def in_unit(key: str, text: str) -> str | None:
    """Return the number for a key that ends with its unit: `30m` of `interval_s` is 1800; None for other texts."""
    amount, unit = _AMOUNT.fullmatch(plainer(text)), key.rpartition("_")[2]
    seconds = _UNITS.get(amount[2].lower()) if amount else None
    if amount is None or unit not in _UNITS or seconds is None:
        return None
    count, rest = divmod(int(amount[1]) * seconds, _UNITS[unit])
    return None if rest else f"{count}: {key} is in {_UNIT_NAMES[_UNITS[unit]]}"


def pairs(text: str) -> str | None:
    """Return a mapping for Slurm's form of resources: `cpu=8,gres/gpu=2` is {cpu: 8, gpu: 2}; None for other texts."""
    matches = [
        re.fullmatch(r" *(?:gres/)?([a-z][a-z_]{0,30}) *= *([0-9]{1,9}) *", part) for part in text.split(",")[:20]
    ]
    return "{" + ", ".join(f"{pair[1]}: {pair[2]}" for pair in matches if pair) + "}" if all(matches) else None


def number(text: str) -> str | None:
    """Return a decimal number with a point; a part in percent as a fraction."""
    text = plainer(text)
    if match := re.fullmatch("([0-9]{1,12}),([0-9]{1,2})", text):
        return f"{match[1]}.{match[2]}"
    if match := re.fullmatch(r"([0-9]{1,3})(?:\.0+)? ?%", text):
        return f"{int(match[1]) / 100:g}"
    if match := re.fullmatch(r"\.[0-9]{1,9}", text):
        return f"0{text}"
    return whole(text)


def address(text: str, example: str = "10.20.0.11") -> str:
    """Return the hint for a value that is not an IPv4 address, or not a list of them."""
    plain = plainer(text)
    if ":" in plain:
        return f"IPv4 only, for example {example}"
    if "/" in plain:
        return f"without the length of the prefix: {plain[: plain.index('/')][:_LONGEST]}"
    match = re.fullmatch(r"((?:[0-9]{1,3}\.){3})([0-9]{1,3})-(?:((?:[0-9]{1,3}\.){3}))?([0-9]{1,3})", plain)
    if match and match[3] in (None, match[1]):
        return f"did you mean `{match[1]}[{match[2]}-{match[4]}]`?"
    return f"four numbers from 0 to 255, for example {example}"


def subnet(text: str) -> str:
    """Return the hint for a value that is not an IPv4 subnet with a prefix."""
    try:
        network = ipaddress.IPv4Network(plainer(text), strict=False)
    except ValueError:
        return "for example 10.20.0.0/22"
    if "/" not in text:
        return f"say how long its prefix is, for example {network.network_address}/24"
    return f"did you mean `{network}`?" if 8 <= network.prefixlen <= 30 else "for example 10.20.0.0/22"


def duration(text: str) -> str | None:
    """Return a time with one of the units s, min and h; without a unit it is read as seconds."""
    seconds = _seconds(plainer(text), "s")
    if not seconds:
        return None
    return next(
        f"{seconds // size}{unit}" for unit, size in (("h", 3_600), ("min", 60), ("s", 1)) if seconds % size == 0
    )


def time_limit(text: str) -> str | None:
    """Return a time in Slurm's form; without a unit it is minutes, as in Slurm."""
    if plainer(text).lower() in ("unlimited", "infinite", "none", "inf"):
        return "infinite"
    seconds = _seconds(plainer(text), "min")
    if not seconds:
        return None
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3_600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def _seconds(text: str, unit: str) -> int | None:
    if match := _AMOUNT.fullmatch(text):
        unit_s = _UNITS.get(match[2].lower() or unit)
        return int(match[1]) * unit_s if unit_s else None
    if match := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return None
