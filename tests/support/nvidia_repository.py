"""A package repository with stubs of the names that NVIDIA's has, each in several versions, and keys to sign it."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.support.kernel_module import module, real

OLD, NEW = "580.82.07", "580.95.05"  # of the driver
DCGM, NEWER_DCGM = "4.4.1", "4.5.0"
TOOLKIT, NEWER_TOOLKIT = "1.17.8", "1.18.0"
OLD_570, NEW_570 = "570.153.02", "570.172.08"  # of the branch before; of the two only the second builds for NEW_KERNEL
KERNEL, NEW_KERNEL = "6.1.0-991-amd64", "6.15.0-991-amd64"  # that no archive has
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_UNITS = "lib/systemd/system"
_UNIT = "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
_MODULE = "usr/src/nvidia-stub/nvidia.ko"
# What DKMS does, which is no stub's to do: the module for each kernel that has headers, and for the one that runs.
_DKMS = f"""#!/bin/sh
set -e
test -e /{_MODULE} || exit 0
for kernel in $(uname -r) $(cd /lib/modules && find . -maxdepth 3 -path './*/build/include' | cut -d / -f 2)
do folder=/lib/modules/$kernel/updates/dkms; mkdir -p $folder; cp /{_MODULE} $folder; depmod $kernel
done
"""
# What the driver does: from the start of the node on the module is loaded that was there then, whatever comes later.
_LOAD = """#!/bin/sh
set -e
mount -t tmpfs stub /proc/driver
mkdir /proc/driver/nvidia
version=$({loads})
echo "loaded $version"
echo "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  $version  of a stub" > /proc/driver/nvidia/version
test ! -e /lib/systemd/system/nvidia-fabricmanager.service || mkdir -p /proc/driver/nvidia-nvswitch/devices
"""
_LOADS = """[Unit]
Before=nvidia-persistenced.service nvidia-fabricmanager.service slurmd.service
[Service]
Type=oneshot
ExecStart=/usr/lib/nvidia-stub/load
"""
_LOADED = "test ! -e /proc/driver/nvidia/version || grep -q ' {0} ' /proc/driver/nvidia/version"
_SMI = f"""#!/bin/sh
{_LOADED} || {{{{ echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18; }}}}
echo 'GPU 0: of a stub'
"""
_CTK = """#!/bin/sh
test "$1 $2" = "cdi generate" && echo 'kind: nvidia.com/gpu' > "${3#--output=}"
"""


@dataclass(frozen=True)
class Module:
    """The driver's module in stubs: the file for a version, and the command that loads it and says which was."""

    of: Callable[[str], bytes]
    loads: str


# No kernel takes it, and containers have none to give it to.
FILE_ALONE = Module(lambda version: module(version=version), "modinfo -k $(uname -r) -F version nvidia")


def loadable(cordic: bytes) -> Module:
    """One that the kernel loads whose own module `cordic` this is; then it is the kernel that says the version."""
    return Module(lambda version: real(cordic, "nvidia", version), "modprobe nvidia && cat /sys/module/nvidia/version")


@dataclass(frozen=True)
class Stub:
    """A package: text by path, programs executable; a text that begins with `->` is a link."""

    name: str
    version: str
    depends: str = ""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    postinst: str = ""


def stubs(kernel_module: Module = FILE_ALONE) -> Iterator[Stub]:
    """All that the repository for Debian has."""
    load = _LOAD.format(loads=kernel_module.loads)
    for driver in (OLD_570, NEW_570, OLD, NEW):
        own, same = f"{driver}-1", f"(= {driver}-1)"
        depends = ", ".join(f"{name} {same}" for name in ("libcuda1", "libnvidia-ml1", "nvidia-smi"))
        yield Stub("nvidia-driver-cuda", own, depends)
        yield Stub("libcuda1", own, f"libnvidia-ptxjitcompiler1 {same}", {f"{_LIBRARIES}/libcuda.so.1": "->libm.so.6"})
        yield Stub("libnvidia-ml1", own, "", {f"{_LIBRARIES}/libnvidia-ml.so.1": "->libm.so.6"})
        yield Stub("libnvidia-ptxjitcompiler1", own)
        yield Stub("nvidia-smi", own, "", {"usr/bin/nvidia-smi": _SMI.format(driver)})
        yield Stub("nvidia-persistenced", own, "", {f"{_UNITS}/nvidia-persistenced.service": _UNIT})
        files: dict[str, str | bytes] = {_MODULE: kernel_module.of(driver), "usr/lib/nvidia-stub/load": load}
        files[f"{_UNITS}/nvidia-stub.service"] = _LOADS
        files[f"{_UNITS}/multi-user.target.wants/nvidia-stub.service"] = "->../nvidia-stub.service"
        yield Stub("nvidia-kernel-open-dkms", own, "kmod, linux-base", files, _DKMS)
        refuses = f'[Service]\nExecStartPre=sh -c "{_LOADED.format(driver)}"\n'  # another version, to the last digit
        unit = _UNIT.replace("[Service]\n", refuses)
        yield Stub("nvidia-fabricmanager", own, "", {f"{_UNITS}/nvidia-fabricmanager.service": unit})
    yield from beside_the_driver()
    for kernel in (KERNEL, NEW_KERNEL):
        own = f"{kernel.partition('-')[0]}.991-1"
        yield Stub(f"linux-image-{kernel}", own, "linux-base", {f"boot/vmlinuz-{kernel}": ""})
        headers = {f"lib/modules/{kernel}/build/include/stub": ""}
        yield Stub(f"linux-headers-{kernel}", own, "kmod", headers, _DKMS)
    yield Stub("base-files", "999")  # of the distribution's, which is never taken from here


def ubuntu_stubs() -> Iterator[Stub]:
    """What the repository for Ubuntu has of branch 580, by the lists that nvidia.yaml names."""
    for driver in (OLD, NEW):
        own, same = f"{driver}-0ubuntu1", f"(= {driver}-0ubuntu1)"
        yield Stub("libnvidia-compute-580", own, f"nvidia-kernel-common-580 {same}, libnvidia-gpucomp-580 {same}")
        yield Stub("libnvidia-gpucomp-580", own)
        yield Stub("libnvidia-cfg1-580", own)
        yield Stub("nvidia-utils-580", own, f"libnvidia-compute-580 {same}")
        yield Stub("nvidia-kernel-common-580", own, f"nvidia-firmware-580 {same}")
        yield Stub("nvidia-firmware-580", own)
        yield Stub("nvidia-kernel-source-580-open", own)
        yield Stub(
            "nvidia-dkms-580-open", own, f"nvidia-kernel-source-580-open {same}, nvidia-kernel-common-580 {same}"
        )
        yield Stub("nvidia-persistenced", own, "libnvidia-cfg1-580")
        yield Stub("nvidia-fabricmanager", f"{driver}-1")
        yield Stub(f"nvidia-driver-pinning-{driver}", f"{driver}-1ubuntu1")
    yield Stub("nvidia-driver-pinning-580", "580-2ubuntu1")
    yield Stub("nvidia-driver-assistant", "0.22.82.07-1")
    yield from beside_the_driver()


def ubuntus_own_stubs() -> Iterator[Stub]:
    """What Ubuntu's own archive has by the same names: the same driver, in versions that apt takes for newer."""
    for one in ubuntu_stubs():
        if one.version.endswith("-0ubuntu1"):
            yield Stub(one.name, one.version.replace("-0ubuntu1", "-9ubuntu0.24.04.1"))


def beside_the_driver() -> Iterator[Stub]:
    """DCGM, the container toolkit and CUDA, whose packages have the same names everywhere."""
    for dcgm in (DCGM, NEWER_DCGM):
        own = f"1:{dcgm}-1"
        files = {f"{_UNITS}/nvidia-dcgm.service": _UNIT, "usr/bin/dcgmi": "#!/bin/sh\necho 2 GPUs found.\n"}
        yield Stub("datacenter-gpu-manager-4-core", own, "", files)
        yield Stub("datacenter-gpu-manager-4-cuda13", own, f"datacenter-gpu-manager-4-core (= {own})")
    for toolkit in (TOOLKIT, NEWER_TOOLKIT):
        own = f"{toolkit}-1"
        yield Stub("libnvidia-container1", own)
        yield Stub("libnvidia-container-tools", own, f"libnvidia-container1 (>= {own})")
        yield Stub("nvidia-container-toolkit-base", own, "", {"usr/bin/nvidia-ctk": _CTK})
        yield Stub("nvidia-container-toolkit", own, f"libnvidia-container-tools (>= {own})")
    for cuda in ("12-8", "13-0"):
        yield Stub(f"cuda-toolkit-{cuda}", f"{cuda.replace('-', '.')}.1-1", "", {f"usr/local/cuda-{cuda}/stub": ""})


def key(home: Path, name: str) -> tuple[str, str]:
    """Make a key: its public part in armour, and its fingerprint."""
    home.mkdir(mode=0o700, exist_ok=True)
    _gpg(home, "--passphrase", "", "--quick-gen-key", name, "ed25519", "sign", "1d")
    listed = _gpg(home, "--with-colons", "--list-keys", name)
    (fingerprint,) = (line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))
    return _gpg(home, "--armor", "--export", name), fingerprint


def repository(folder: Path, home: Path, signer: str, kernel_module: Module = FILE_ALONE) -> bytes:
    """The repository for Debian as a tar archive, signed by the key of that name."""
    publish(folder / "repository", stubs(kernel_module), home, signer)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(folder / "repository", "nvidia")
    return packed.getvalue()


def publish(
    place: Path, stubs: Iterable[Stub], home: Path, signer: str, origin: str = "NVIDIA", suite: str | None = None
) -> None:
    """Put these packages and their index, signed by the key of that name, into a new folder: flat, or with a suite."""
    place.mkdir()
    tree = place.with_name(f"{place.name}-tree")
    entries = [_entry(place, tree / f"{number}", stub) for number, stub in enumerate(stubs)]
    index = "\n".join(entries)
    lists, name = (place, "Packages") if suite is None else (place / "dists" / suite, "main/binary-amd64/Packages")
    (lists / name).parent.mkdir(parents=True, exist_ok=True)
    (lists / name).write_text(index)
    digest = hashlib.sha256(index.encode()).hexdigest()
    date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S UTC")
    of_suite = f"Suite: {suite}\nCodename: {suite}\nComponents: main\nArchitectures: amd64\n" if suite else ""
    (lists / "Release").write_text(
        f"Origin: {origin}\nLabel: {origin}\n{of_suite}Date: {date}\nSHA256:\n {digest} {len(index.encode())} {name}\n"
    )
    _gpg(home, "--local-user", signer, "--clearsign", "-o", str(lists / "InRelease"), str(lists / "Release"))


def _entry(place: Path, tree: Path, stub: Stub) -> str:
    """Build one package; return its paragraph of the index."""
    control = f"Package: {stub.name}\nVersion: {stub.version}\nArchitecture: all\nDescription: a stub\n"
    control += "Maintainer: nobody <nobody@example.org>\n" + (f"Depends: {stub.depends}\n" if stub.depends else "")
    _write(tree / "DEBIAN" / "control", control)
    if stub.postinst:
        _write(tree / "DEBIAN" / "postinst", stub.postinst)
    for path, text in stub.files.items():
        _write(tree / path, text)
    name = f"{stub.name}_{stub.version.replace(':', '%3a')}_all.deb"
    built = place / name.replace("%3a", ".")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, built], check=True, capture_output=True)
    data = built.read_bytes()
    return f"{control}Filename: ./{built.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"


def _write(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(text, str) and text.startswith("->"):
        path.symlink_to(text[2:])
        return
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(data)
    path.chmod(0o755 if data.startswith(b"#!") else 0o644)


def _gpg(home: Path, *arguments: str) -> str:
    env = {"GNUPGHOME": str(home), "PATH": os.environ["PATH"]}
    argv = ["gpg", "--batch", "--quiet", *arguments]
    output = subprocess.run(argv, env=env, check=True, capture_output=True, text=True, timeout=600).stdout
    subprocess.run(["gpgconf", "--kill", "gpg-agent"], env=env, check=True, timeout=600)  # which gpg leaves behind
    return output
