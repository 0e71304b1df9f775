"""The program that runs on a node: it compares what is wanted with what is there, or makes it so.

Standard library only, Python 3.9 syntax; it imports nothing else of hpcforge, because it travels alone: the operator
host runs `bundle.first_command`, sends one JSON document on its standard input, and reads JSON lines from its standard
output. The program runs as root and nothing is installed on the node for it.

    {"modules": {"hpcforge.node.NAME": "source", ...}, "request": {...}}

Requests (resources are the JSON form of the types in `hpcforge.plan.desired`)::

    {"verb": "observe",  "wanted": [Wanted, ...], "reads": ["/path", ...],
                 "asks": {"name": [command, ...]}}
    {"verb": "converge", "phase": "prepare", "work": [Work, ...], "restarts": ["unit", ...]}
    {"verb": "converge", "phase": "finish",  "work": [Work, ...]}
    {"verb": "record",   "role": "pytorch", "digest": "..."}

Of the head (`hpcforge.node.lease`, `hpcforge.node.records`)::

    {"verb": "lease", "do": "take", "run_id", "who": "user@host", "number": n | null, "process": any, "stale_s": 90,
                      "over": run_id of a holder that is known to be dead | null}
    {"verb": "lease", "do": "drop", "run_id"}
    {"verb": "lease", "do": "look", "stale_s": 90}
    {"verb": "log",   "do": "write", "line": {...}, "roster": {"run": {"number"}, ...} | null}
    {"verb": "log",   "do": "read", "last": n}

*take* again is a heartbeat. Whoever takes a lease that was never given back, because its holder is dead or has been
silent for `stale_s` seconds, leaves a line in the history that that run was cut off. A roster is written unless the one
that is there is of a higher run. The answers are `lease` and `log`, then `done`. A `Holder` is
`{"run_id", "who", "number", "process", "since_s", "age_s", "silent_s"}`: since when in seconds since 1970 by the node's
clock, and how long ago the lease was taken and the last heartbeat came.

`Work` holds what is to be changed for one role: `{"role", "needs": ["role on this node", ...], "packages",
"directories", "files": [File + {"content_base64": text | null}], "accounts", "units": [{"name", "actions": ["enable",
"start" | "restart"]}], "checks": [Check]}`; keys may be absent. Null content: only mode or owner are to be changed.

*prepare* goes through all roles at once: accounts; early files; one package transaction with service starts held;
directories; files. `restarts` are remembered on the node before a file changes, so that a run that is cut off between
the file and the restart is seen by the next observe. *finish* goes role by role: units in order, each seen to be
active, then checks, each repeated until it passes or its `wait_s` is over; at the end all units are looked at once
more. A role that fails stops only the roles that need it. *record* remembers that opaque work was done.

Answers, one JSON object a line, the last one always `done`::

    {"event": "observed", "facts": {...}, "differs": [Difference, ...], "reads": {"/path": text | null},
                 "answers": {"name": output of a command that was asked for and succeeded}}
    {"event": "lease", "held": Holder | null, "took_over": Holder | null}
    {"event": "log", "lines": [one of history as text, ...], "before": how many older, "roster": text | null}
    {"event": "changed",  "role", "kind": "package|directory|file|account|unit|opaque", "name", "detail"}
    {"event": "progress", "role", "detail"}
    {"event": "warning",  "detail"}
    {"event": "failed",   "role", "kind", "name", "error"}
    {"event": "skipped",  "role", "because": "role"}
    {"event": "role_done", "role"}      in finish: its units run and its checks pass
    {"event": "done",     "changed": 3, "failed": ["role", ...], "skipped": ["role", ...], "facts": {...}}

`role` is null in `progress` for work that is done for several roles, and in `failed` when the request as a whole could
not be done (another run holds the node's lock, for example): then `done` counts all its roles as failed. Errors and
details are plain text without control characters. Instead of all this, one `no_python` or `no_root` line comes where
the program cannot be started, see `hpcforge.node.contact`.

A `Difference` has a role, of which something is not as wanted, and under each key only what differs:
`{"role", "packages": [missing], "directories": [{"path", "exists", "kind", "mode", "owner", "group"}], "files":
[{"path", "exists", "kind", "digest", "mode", "owner", "group", "text"}], "accounts": [{"name", "exists", "uid", "gid",
"home", "shell"}], "units": [{"name", "enabled", "active", "restart_pending"}], "checks": [{"name", "detail"}],
"opaque": {"digest": old | null} | null}`. All keys are there. `kind` is `file`, `directory`, `symlink`, `other`,
`unsafe` (somebody other than root could redirect the path; converge refuses it) or null. `text` is the old content,
null for a secret, for what is not UTF-8 and for more than 256 KiB. `active` is the unit's state as systemd says it.

Facts: `{"hostname", "machine_id", "boot_id", "os_id", "os_release", "kernel", "arch", "virtualisation", "python",
"memory_kib", "cpus", "gpus": {"fake": n, "nvidia": n}, "time_s"}`.
"""
