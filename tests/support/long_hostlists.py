"""Hostlists that are none, made to take long: in blueprints, from squeue, on a test's stderr."""

LONG = [
    "my-gpu-nodes-room2-rack07-[01-32",  # doubled with each letter
    "a" * 200_000 + "[",
    "[1-2]" * 100_000,
    "," * 330_000,  # 15 s
    "a," * 165_000 + "@",
    "[," * 100_000,
    "w[" + "1," * 100_000 + "1]",
    "w[" + ",".join(map(str, range(200_000))) + "]",
    "a" * 100_000 + "[1-16000]",  # 1.6 GB of names
    "a[1]" + "[2]" * 100_000 + "[1-16000]",
]
