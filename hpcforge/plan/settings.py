"""What roles have another role's file say: keys and values, gathered for the template of that file. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from hpcforge.blueprint.diagnostics import did_you_mean
from hpcforge.catalog import load_catalog
from hpcforge.plan.render import Template
from hpcforge.plan.role import Role
from hpcforge.plan.role_spec import SettingSpec

_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_SLURM_CONF = "/etc/slurm/slurm.conf"


@dataclass(frozen=True)
class RoleSetting:
    """One key and its value, of one role or, where `several`, of all that say it, joined by commas."""

    key: str
    value: str
    several: bool


Settings = Mapping[str, tuple[RoleSetting, ...]]  # by the path of the file


def setting(spec: SettingSpec, render: Callable[[Template], str]) -> tuple[str, RoleSetting]:
    """Return a setting from its rendered fields: the file and the line. Raises ValueError for an invalid line."""
    key, value = render(spec.key), render(spec.value)
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} is not a valid key")
    if not value or not value.isprintable() or "#" in value:
        raise ValueError(f"{key}: invalid value {value!r}: use one line without #")
    return render(spec.file), RoleSetting(key, value, spec.comma_separated)


def check_slurm(path: str, setting: RoleSetting, slurm: str) -> None:
    """Raise ValueError for a setting of slurm.conf that a release of Slurm, as `22.05`, is known not to have."""
    release = load_catalog().slurm.get(slurm) if path == _SLURM_CONF else None
    if release and not release.knows(setting.key):
        hint = did_you_mean(setting.key, release.settings)
        raise ValueError(f"Slurm {slurm} has no setting of this name" + (f"; {hint}" if hint else ""))


def gathered(roles: Iterable[Role], said: Iterable[tuple[Role, str, RoleSetting]]) -> Settings:
    """Return the settings of all roles for each file, each key once. Raises `RoleError` for conflicts."""
    found: dict[str, dict[str, tuple[Role, RoleSetting]]] = {
        file.path: {} for role in roles for file in role.spec.files
    }
    for role, path, setting in said:
        if path not in found:
            raise role.wrong(f"sets {setting.key} in {path}, but no role has such a file", ("settings",))
        other, before = found[path].setdefault(setting.key, (role, setting))
        if setting.several and before.several:
            values = dict.fromkeys((*before.value.split(","), *setting.value.split(",")))
            found[path][setting.key] = (other, RoleSetting(setting.key, ",".join(values), several=True))
        elif setting != before:
            raise role.wrong(f"sets {setting.key}={setting.value}, and role {other.name} {before.value}", ("settings",))
    return {path: tuple(setting for _, setting in keys.values()) for path, keys in found.items()}
