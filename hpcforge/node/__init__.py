"""The program that runs on a node: it compares the desired with the observed state, or changes the node.

Standard library only, Python 3.9 syntax. Of the rest of hpcforge it imports `hpcforge.kinds`, `hpcforge.schemas`,
`hpcforge.typed_json` and `hpcforge.wire_types`. The operator host runs `bundle.first_command`, sends one JSON document
on its standard input (`bundle.payload`), and reads JSON lines from its standard output. The program runs as root, and
nothing is installed on the node for it; compiled modules stay in memory, see `start`. Names of roles do not belong
here, and no decision between nodes.

`requests` has the types of requests, in a table by verb; `answer_types` has those of answers, one JSON object a line,
the last one always `done`. Both sides check them. A request that does not fit its type is refused before any change:
one `failed` without a role, then `done`. The types cannot express the following.

*Fencing.* The node records a request's run before it changes anything. It refuses a run with a lower number than the
highest it has seen, or with the same number and another id, or of another cluster than its own.

*Tasks.* A process that outlives the connection carries out converge and record with a `task`, see `detached`. The same
request of the same run, sent again, attaches to it and is never carried out twice.

*prepare* handles all roles at once, a kind at a time: the early kinds; one package transaction with service starts
held; the other kinds. The node stores `restarts` before a file changes, so that the next observe reports them if a run
is cut off between the file and the restart; that includes units with a refresh. *finish* goes role by role: first units
in order, each until it is active, then checks, each repeated until it passes or its `wait_s` is over; at the end it
inspects all units again. A failed role stops only the roles that need it.

*remove* removes the items that the receipt (`receipt`) lists as hpcforge's: units return to their state before
hpcforge, resources to the state that their kind stored, listed packages are purged, trees that did not exist before
their role's opaque work are removed with their content, and directories of hpcforge's if they are empty. `stays` in a
surplus are items that will not be removed, by the receipt; in *remains* those that still exist. There is no such event
if the receipt listed nothing.

*guard*: before the first change of such a role the node starts a timer. It restores the state before the request and
restarts the restarted units, unless *confirm* arrives over a new connection within `revert_s` of the last request with
this guard; also if the node restarts meanwhile. It reverts at once if the role fails.

*reboot*: if a change needs a restart, the node stores that before the change, with the ID of its present boot. It
reports it (`reboot` of a difference) until it has another boot ID, for whatever reason. The verb's answer may be lost
on the way.

*lease* (`lease`): a repeated *take* is a heartbeat. A run that takes an unreleased lease, whose holder is dead or
silent for `stale_s`, adds a line to the history that the earlier run was cut off.

*Checks* with the same command share one execution in observe, for all their roles. *finish* runs each.

*Facts* are at the end of every answer except those of first contact, the lease and the log; the driver's report on GPUs
(`nvml`, and `amdgpu` of AMD's) only in observe, since it may take long. Its `error` is the reason for missing facts; a
GPU's `error` says that the GPU is unusable, its `troubles` list the facts that could not be read.

*Answers.* A difference has only the values that are not as desired, under all keys. Its `removes` are packages that an
installation of the missing ones would remove; `unforeseen` are missing packages for which that is unknown, since no
list has them; `obstacles` are resources that converge would refuse to create now. `surplus` is only reported if
something is desired or requested, `unowned` are desired roles that the receipt does not list in full, and `reverted` is
reported until the next work on the role. Errors and details are plain text without control characters. If a request as
a whole fails, `done` counts all its roles as failed. If the program cannot start, one line `no_python` or `no_root`
replaces all this, see `contact`.
"""
