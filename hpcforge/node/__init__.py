"""The program that runs on a node: it compares what is wanted with what is there, or makes it so.

Standard library only, Python 3.9 syntax; it imports nothing else of hpcforge, because it travels alone: the operator
host runs `bundle.first_command`, sends one JSON document on its standard input, and reads JSON lines from its standard
output. The program runs as root and nothing is installed on the node for it.

    {"modules": {"hpcforge.node.NAME": "source", ...}, "request": {...}}

Requests (resources are the JSON form of the types in `hpcforge.plan.desired`)::

    {"verb": "observe",  "wanted": [Wanted, ...], "reads": ["/path", ...],
                 "asks": {"name": [command, ...]}, "surplus": bool}
    {"verb": "converge", "phase": "prepare", "work": [Work, ...], "restarts": ["unit", ...]}
    {"verb": "converge", "phase": "finish",  "work": [Work, ...]}
    {"verb": "converge", "phase": "remove",  "work": [Surplus, ...], "leave": bool}
    {"verb": "record",   "role": "pytorch", "digest": "...", "reboot": bool}
    {"verb": "confirm",  "guard": id}
    {"verb": "reboot",   "boot_id": id}
    {"verb": "attach",   "task": id, "after": n}
    {"verb": "stop",     "task": id | absent, "timeout_s": 60}
    {"verb": "wait",     "timeout_s": t}

*Fencing.* converge, record and reboot carry `"run": {"number", "id", "who", "cluster", "hpcforge"}` (absent: nothing is
checked). The node takes a run down before it changes anything and refuses one with a lower number than the highest it
has seen, or with the same number and another id, and one of another cluster than the one it belongs to.

*Time.* Every other request may carry `"limit_s"`: after so long the program ends itself and what it has running.

*Tasks.* converge and record with a `"task"` (letters, digits and `_.:-`; never used twice) are done by a process that
outlives the connection, see `hpcforge.node.apart`. *attach* answers with the events of that task but the first `after`,
until its `done`; the same request of the same run, sent again, is attached to and never done twice. *stop* tells what
is at work (if it is this task) to end after the resource it is at, and waits for it; *wait* waits until nothing is at
work.

Of the head (`hpcforge.node.lease`, `hpcforge.node.records`)::

    {"verb": "lease", "do": "take", "run_id", "who": "user@host", "number": n | null, "process": any, "stale_s": 90,
                      "over": run_id of a holder that is known to be dead | null}
    {"verb": "lease", "do": "drop", "run_id", "cut_off": true if it ends before its time}
    {"verb": "lease", "do": "look", "stale_s": 90}
    {"verb": "log",   "do": "write", "line": {...}, "roster": {"run": {"number"}, ...} | null}
    {"verb": "log",   "do": "read", "last": n}
    {"verb": "log",   "do": "verdicts", "text": content of verdicts.json}

*take* again is a heartbeat. Whoever takes a lease that was never given back, because its holder is dead or has been
silent for `stale_s` seconds, leaves a line in the history that that run was cut off. A roster is written unless the
one that is there is of a higher run. The answers are `lease` and `log`, then `done`.

`Work` holds what is to be changed for one role: `{"role", "needs": ["role on this node", ...], "packages", "removes":
[package, ...], KIND: [resource, ...], "units": [{"name", "actions": ["enable", "start" | "restart" | "refresh"],
"refresh": [command, ...]}], "checks": [Check], "owns": {KIND: [name, ...], "units": [name, ...], "trees": [path,
...], "on_remove", "leaves": [{"path", "why"}], "disrupts"}, "guard": {"id", "revert_s"}, "reboot": bool}`; keys may
be absent. KIND is each of `hpcforge.kinds`. A file has `content_base64`, too; null: only mode or owner are to be
changed. `owns` is all that the role wants on this node, changed or not; what is changed is owned anyway. `trees` are
paths that its opaque work makes, `leaves` what stays when it goes.

*prepare* goes through all roles at once, a kind at a time: what is early; one package transaction with service starts
held; the rest. `restarts` are remembered on the node before a file changes, so that a run that is cut off between
the file and the restart is seen by the next observe. *finish* goes role by role: units in order, each seen to be
active, then checks, each repeated until it passes or its `wait_s` is over; at the end all units are looked at once
more. A refresh runs the unit's commands in order, each within 60 s; a unit that does not run is started instead. Units
with a refresh belong into `restarts` too. A role that fails stops only the roles that need it. *record* remembers that
opaque work was done.

*remove* takes away what the receipt (`hpcforge.node.receipt`) says is ours: units go back to what they were before
us, resources to what their kind kept of that, packages that are listed are purged, trees that were not there before
their role's opaque work go with all that is in them, directories that we made go if they are empty. A `Surplus` is
`{"role", KIND: [name, ...], "trees": [path, ...], "units": [name, ...], "packages": [name, ...], "on_remove",
"disrupts", "stays": [Stays], "wanted": bool, "guard"}`; with `on_remove` *keep* they are only forgotten; `wanted`:
the role itself is still to be on this node, with less. `leave`: everything that the receipt has, and then the
receipt. A `Stays` is in a `Surplus` what will not be removed by what the receipt says, in *remains* what is there
still after all was removed; that event does not come where the receipt had nothing.

*guard*: before the first change of such a role a timer is armed on the node that puts back what was there before the
request and restarts the units that were restarted, unless *confirm* comes over a new connection within `revert_s` of
the last request that had this guard; also when the node restarts meanwhile. It reverts at once when the role fails.

*reboot*: a role with `"reboot": true` in prepare or record is changed in a way that only shows after a restart of the
node. That is remembered with the id of the boot it was changed in, before the change, and is told (`"reboot"` of a
`Difference`) until the node has another one, however it came to it. The verb restarts the node if it still is in the
boot with that id; its answer may be lost on the way.

*Answers* are those of `hpcforge.node.wire`, one JSON object a line, the last one always `done`. `surplus` is what the
receipt owns and none of the wanted roles wants; it is only told where something is wanted or where `"surplus": true`
asks for it (of a node that is to leave). `unowned` are wanted roles that the receipt does not have in full.
`reverted` is told until the role is worked on again. Errors and details are plain text without control characters.
Where a request as a whole could not be done, `done` counts all its roles as failed. Instead of all this, one
`no_python` or `no_root` line comes where the program cannot be started, see `hpcforge.node.contact`.

A `Difference` has under each key only what is not as wanted, and all keys. `removes` are packages that apt would
remove to install what is missing, each with what it goes for; `unforeseen` are missing packages of which apt cannot
say yet, as its lists do not have them. In a `Work` they are what the plan showed: where apt would remove anything
else, no package is installed. `obstacles` are resources that converge would refuse to put, as things are now.
"""
