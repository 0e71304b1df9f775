"""No core dump of a process that holds secrets: the dump of a crash would contain them, too.

Source: core(5), prctl(2).
"""

from __future__ import annotations

import ctypes
import resource

_PR_SET_DUMPABLE = 4
# One byte: too small for a file, and the kernel starts no program of kernel.core_pattern with it.
_LIMIT_BYTES = 1


def forbid() -> None:
    """Prevent core dumps of this process, and access to its memory by other processes of the user.

    Its child programs inherit the limit. Other processes of the user can read their memory.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (_LIMIT_BYTES, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
