"""The program that runs on a node: it compares the desired with the observed state, or changes the node.

Standard library only, Python 3.9 syntax. Of the rest of hpcforge it imports `kinds` and `schemas`, which travel, too.
The operator host runs `bundle.first_command`, sends one JSON document on its standard input (`bundle.payload`), and
reads JSON lines from its standard output. The program runs as root; nothing is installed on the node for it.

`requests` has the types of requests, in a table by verb. `answer_types` has those of answers, one JSON object a line,
the last one always `done`. Both sides are checked against them. An invalid request is refused before any change: one
`failed` without a role, then `done`. The types cannot express the following:

*Fencing.* The node records a request's run before any change. It refuses a run with a lower number than the highest
recorded one, with the same number and another id, or of another cluster.

*Tasks.* A process that outlives the connection does converge and record with a `task`, see `detached`. If the same run
sends the same request again, the answer attaches to that work; it is never done twice.

*prepare* works on all roles at once, one kind after the other: early resources; one package transaction, without
starting services; the other resources. The node records `restarts` before a file changes: after an interruption
between the file and the restart the next observe sees the due restart. Units with a refresh belong into them, too.
*finish* works role by role: units in order, each checked to be active, then checks, each repeated until it passes or
its `wait_s` is over. At the end it checks all units again. A failed role stops only the roles that need it.

*remove* removes hpcforge's resources by the receipt (`receipt`). Units and resources return to their recorded earlier
state, listed packages are purged, trees that a role's opaque work made are removed with their content, and directories
that hpcforge made are removed if they are empty. `stays` of a surplus are items that will stay by the receipt; in
*remains* they are the items that still exist. That event is missing if the receipt was empty.

*guard*: before the first change of a guarded role the node arms a timer. It restores the state before the request and
restarts the same units, unless *confirm* comes over a new connection within `revert_s` of the last request with this
guard; also after a restart of the node. A failure of the role reverts at once.

*reboot*: if a change needs a restart of the node, the node records the id of the present boot before the change. The
difference has `reboot` until the node has another boot id, for whatever reason. The verb's answer may be lost.

*lease* (`lease`): *take* again is a heartbeat. A run that takes a lease from a dead holder, or from one that was silent
for `stale_s`, adds a line to the history: the holder's run was interrupted.

*Checks* with the same command are judged by one run of it in observe, also across roles. *finish* runs each.

*Facts* end every answer except those of first contact, the lease and the log. Only observe reports the GPU driver's
facts (`nvml`, and `amdgpu` for AMD), since that may take long. Their `error` is the reason for an incomplete report; a
GPU's `error` means that it is unusable, and its `troubles` name facts that could not be read.

*Answers.* A difference has all keys, and under each only the items that are not as desired. Its `removes` are packages
to be removed by the installation of missing ones; `unforeseen` are missing packages whose removals are not known yet,
since no list has them. `obstacles` are resources that converge would refuse in the present state. `surplus` is only
present if a role is desired or it was requested. `unowned` are desired roles that the receipt has only in part, and
`reverted` remains until the role runs again. Errors and details are plain text without control characters. If a request
fails as a whole, `done` counts all its roles as failed. If the program cannot be started, one `no_python` or `no_root`
line replaces all answers, see `contact`.
"""
