#!/usr/bin/python3 -IS
"""Fail if a plugin for Slurm (SPANK) was built for another release than the given one: PATH RELEASE.

Slurm compares the number plugin_version, which slurm/spank.h puts into each plugin: a byte each for the year, the month
and the update of a release. Standard library, Python 3.9.
"""

import ctypes
import os
import sys


def release_of(path: str) -> str:
    """The release that a plugin was built for, such as 22.05. Raises OSError or ValueError if it is none."""
    number = ctypes.c_uint32.in_dll(ctypes.CDLL(path, mode=os.RTLD_LAZY), "plugin_version").value
    return f"{number >> 16 & 255}.{number >> 8 & 255:02}"


def main() -> int:
    """Compare; 0 if they are the same."""
    path, release = sys.argv[1:]
    try:
        found = release_of(path)
    except (OSError, ValueError) as error:
        print(f"{path} is not a plugin for Slurm: {error}")
        return 1
    if found != release:
        print(f"{path} is built for Slurm {found}, and this node has {release}: build it with this libslurm-dev")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
