"""No core dump of a process that holds secrets: what a crash writes to disk would hold them, too.

Source: core(5), prctl(2).
"""

from __future__ import annotations

import ctypes
import resource

_PR_SET_DUMPABLE = 4
# One byte: too small for a file, and the value at which the kernel starts no program of kernel.core_pattern either.
_LIMIT_BYTES = 1


def forbid() -> None:
    """Have the kernel write no core of this process, and let no other process of the user read its memory.

    Programs that it starts inherit the limit. They may be read by the user's other processes.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (_LIMIT_BYTES, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
