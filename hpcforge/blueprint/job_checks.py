"""What `slurm` says wrongly of who reaches workers and of what jobs have for themselves. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hpcforge.blueprint import schema as s
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.storage import FileSystemSection
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.visible_nodes import NamedNodes

Findings = Iterator[Finding]

_SYSTEM = frozenset(("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "root", "run", "sbin", "sys", "usr"))
_SHARED = frozenset(("/home", "/mnt", "/opt", "/srv", "/var", "/var/cache", "/var/lib", "/var/log", "/var/spool"))
_WITHIN = {
    "/tmp": "each job gets its own",  # noqa: S108 - compared, not used
    "/var/tmp": "systemd removes old files there",  # noqa: S108
    "/var/lib/slurm": "slurmd keeps its files there",
    "/home": "homes are there",
    "/opt/hpcforge": "hpcforge installs libraries for jobs there",
}


def job_findings(draft: Draft, declared: NamedNodes) -> Findings:
    """Yield what Slurm could not do, or would do to files of others."""
    slurm: s.SlurmSection | None = draft.sections["slurm"]
    if slurm is None:
        return
    if slurm.ssh == "jobs-only":
        yield from _ssh(draft, declared, slurm)
    if slurm.private_tmp is not None:
        yield from _private_tmp(draft, declared, slurm.private_tmp)
    yield from _no_hold(slurm)


def _ssh(draft: Draft, declared: NamedNodes, slurm: s.SlurmSection) -> Findings:
    loc: Loc = ("slurm", "ssh")
    if draft.intact("slurm", "enforce") and not slurm.enforce:
        message = "`jobs-only` needs cgroups to make a session part of a job, and `enforce` is empty"
        yield Finding(loc, message, "add cores, memory or gpus to `enforce`, or remove `ssh`")
    if not (declared.names_known and draft.intact("nodes")):
        return
    workers = declared.with_function("worker")
    entered = {*declared.with_function("head"), *declared.with_function("login")}
    if workers and entered.issuperset(workers):
        message = "`jobs-only` has no effect: every worker is also a head or a login node"
        yield Finding(loc, message, "remove it: it would lock out users of these nodes")


def _private_tmp(draft: Draft, declared: NamedNodes, folder: str) -> Findings:
    loc: Loc = ("slurm", "private_tmp")
    hint = "choose a separate folder on a local disk, such as /var/spool/jobs or /scratch/jobs"
    why = next((why for path, why in _WITHIN.items() if _within(folder, path)), None)
    if folder.split("/")[1] in _SYSTEM:
        why = f"`/{folder.split('/')[1]}` belongs to the system"
    elif folder in _SHARED:
        why = "other users have files there"
    if why:
        yield Finding(loc, f"jobs cannot have a private /tmp below `{folder}`: {why}", hint)
    systems: dict[str, FileSystemSection] = draft.sections["storage"] or {}
    for name, file_system in systems.items():
        if file_system.drives is not None:
            if _within(file_system.mount, folder):
                message = f"jobs cannot have a private /tmp below `{folder}`: `storage.{name}` is there"
                yield Finding(loc, message, f"choose a folder of it, as {file_system.mount}/jobs")
            continue
        of_worker = file_system.path if {*file_system.keepers} & {*declared.with_function("worker")} else None
        path = next((path for path in (file_system.mount, of_worker) if path and _meet(folder, path)), None)
        if path:
            message = f"jobs cannot have a private /tmp below `{folder}`: nodes share `{path}` of `storage.{name}`"
            yield Finding(loc, message, hint)


def _no_hold(slurm: s.SlurmSection) -> Findings:
    key = next((key for key in slurm.settings if key.lower() == "prologflags"), None)
    if key is None or "nohold" not in slurm.settings[key].lower().split(","):
        return
    held = {"ssh": slurm.ssh == "jobs-only", "private_tmp": slurm.private_tmp is not None}
    fields = " and ".join(f"`{field}`" for field, chosen in held.items() if chosen)
    if fields:
        message = f"{fields} need PrologFlags=Contain, and Slurm does not start with Contain and NoHold"
        yield Finding(("slurm", "settings", key), message, f"remove NoHold, or {fields}")


def _meet(path: str, other: str) -> bool:
    return _within(path, other) or _within(other, path)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
