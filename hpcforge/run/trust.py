"""Host keys of machines that nobody has recorded yet: asked for once, over the way that they will be reached."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcforge.engines import Engines
from hpcforge.engines.tasks import HostKey, Target


@dataclass(frozen=True)
class Shown:
    """What machines answered, by name: a public key, "ssh-ed25519 AAAA...", or why there is none."""

    keys: dict[str, str]
    refused: dict[str, str]
    jump_host: str | None = None  # of the machine on the way, if it was asked for, too


def ask_for_keys(targets: Sequence[Target], via: Target | None, work_dir: Path) -> Shown:
    """Ask each target for its host key, through `via`, whose own key is asked for first where it is not known."""
    if via is None or via.host_keys:
        return _ask(targets, via, work_dir)
    first = _ask([via], None, work_dir)
    if via.name in first.refused:
        return Shown({}, {target.name: first.refused[via.name] for target in targets})
    key = first.keys[via.name]
    behind = [target for target in targets if target.name != via.name]
    shown = _ask(behind, dataclasses.replace(via, host_keys=(key,)), work_dir)
    itself = {via.name: key} if len(behind) < len(targets) else {}
    return Shown(itself | shown.keys, shown.refused, key)


def _ask(targets: Sequence[Target], via: Target | None, work_dir: Path) -> Shown:
    shown = Shown({}, {})
    with Engines(targets, work_dir, work_dir, via) as engines:
        for target in targets:
            engines.start(HostKey(target.name, target.name))
        for _ in targets:
            event = engines.next()
            if event is not None and event.data["ok"]:
                shown.keys[event.node] = event.data["stdout"]
            elif event is not None:
                shown.refused[event.node] = event.data["error"]
    return shown
