"""The program that runs on a node: it compares the desired with the observed state, or changes the node.

Standard library only, Python 3.9 syntax; of the rest of hpcforge it imports the table `kinds` and `forms`, which travel
with it: the operator host runs `bundle.first_command`, sends one JSON document on its standard input
(`bundle.payload`), and reads JSON lines from its standard output. The program runs as root and nothing is installed on
the node for it.

What it is asked are the types of `requests`, in a table by verb; what it answers are those of `wire`, one JSON object a
line, the last one always `done`. Both sides are checked against them. A request that is not of its type is refused
before anything is done: one `failed` without a role, then `done`. This is what types cannot say:

*Fencing.* The node takes a request's run down before it changes anything, and refuses one with a lower number than the
highest it has seen, or with the same number and another id, and one of another cluster than the one it belongs to.

*Tasks.* converge and record with a `task` are done by a process that outlives the connection, see `apart`. The same
request of the same run, sent again, is attached to and never done twice.

*prepare* goes through all roles at once, a kind at a time: what is early; one package transaction with service starts
held; the rest. `restarts` are remembered on the node before a file changes, so that a run that is cut off between the
file and the restart is seen by the next observe; units with a refresh belong into them, too. *finish* goes role by
role: units in order, each seen to be active, then checks, each repeated until it passes or its `wait_s` is over; at the
end all units are looked at once more. A role that fails stops only the roles that need it.

*remove* takes away what the receipt (`receipt`) says is ours: units go back to what they were before us, resources to
what their kind kept of that, packages that are listed are purged, trees that were not there before their role's opaque
work go with all that is in them, directories that we made go if they are empty. `stays` are in a surplus what will not
be removed by what the receipt says, in *remains* what is there still; that event does not come where the receipt had
nothing.

*guard*: before the first change of such a role a timer is armed on the node that puts back what was there before the
request and restarts the units that were restarted, unless *confirm* comes over a new connection within `revert_s` of
the last request that had this guard; also when the node restarts meanwhile. It reverts at once when the role fails.

*reboot*: that a change only shows after a restart is remembered with the id of the boot it was changed in, before the
change, and is told (`reboot` of a difference) until the node has another one, however it came to it. The verb's answer
may be lost on the way.

*lease* (`lease`): *take* again is a heartbeat. Whoever takes a lease that was never given back, because its holder is
dead or has been silent for `stale_s`, leaves a line in the history that that run was cut off.

*Checks* of one command are judged by one run of it in observe, whatever roles they are of. *finish* runs each.

*Facts* are told at the end of every answer but those of first contact, the lease and the log; what the driver says of
GPUs (`nvml`, and of AMD's `amdgpu`) by observe alone, since it may take long. Its `error` says why not all was told, or
nothing; a GPU's `error` that it cannot be used, its `troubles` which of its facts could not be had.

*Answers.* A difference has under each key only what is not as wanted, and all keys. Its `removes` are packages that
would be removed to install what is missing; `unforeseen` are missing packages of which that is not known yet, as no
list has them; `obstacles` are resources that converge would refuse to put, as things are now. `surplus` is only told
where something is wanted or asked for, `unowned` are wanted roles that the receipt does not have in full, `reverted` is
told until the role is worked on again. Errors and details are plain text without control characters. Where a request as
a whole could not be done, `done` counts all its roles as failed. Instead of all this, one `no_python` or `no_root` line
comes where the program cannot be started, see `contact`.
"""
