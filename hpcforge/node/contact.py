"""First contact in POSIX sh, for nodes that may lack Python or a login that can become root.

FIRST_CONTACT starts the node program, or answers with one of these lines and exit status 0::

    {"event": "no_python", "os_id", "os_release", "arch", "kernel", "hostname", "memory_kib": n, "cpus": n,
     "users": "NAME:NUMBER ...", "groups"}
    {"event": "no_root", "user", "error"}

The script of `bootstrap_script` answers like the node program: `progress`, `changed`, `failed`, `no_root` and `done`.
"""

from __future__ import annotations

_OS_RELEASE = "[ -r /etc/os-release ] && . /etc/os-release"
# Makes text safe for a JSON string: ASCII, one line, no quotes or backslashes.
_PLAIN = r"""plain() { LC_ALL=C tr '\n\t"\\' "  '/" | LC_ALL=C tr -cd ' -~' | cut -c1-1500 | sed 's/ *$//'; }"""
_NO_ROOT = (
    """no_root() { printf '{"event": "no_root", "user": "%s", "error": "%s"}\\n' """
    """"$(id -un | plain)" "$(printf %s "$1" | plain)"; }"""
)

# $1: "sudo -n" or nothing, $2: the loader. One line, so that csh and fish pass it on, too.
FIRST_CONTACT = "; ".join(
    (
        _PLAIN,
        _NO_ROOT,
        "if command -v python3 >/dev/null 2>&1",
        'then if [ -z "$1" ]',
        'then [ "$(id -u)" = 0 ] && exec python3 -IS -c "$2"',
        'no_root "$(id -un) is not root, and the blueprint says become: none"',
        "else command -v sudo >/dev/null 2>&1 || { cat >/dev/null; no_root 'there is no sudo on this node'; exit 0; }",
        'python=$(command -v python3); $1 "$python" -IS -c "$2"',  # also if sudo's secure_path lacks it
        "rc=$?",
        # Checked only after a failure, so that it costs nothing: did sudo refuse?
        '[ $rc = 0 ] || why=$(LC_ALL=C $1 "$python" -IS -c pass 2>&1 >/dev/null) '
        '|| { cat >/dev/null; no_root "$why"; exit 0; }',
        "exit $rc",
        "fi",
        f"else {_OS_RELEASE}",
        """memory=$(sed -n 's/^MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo)""",
        "cpus=$(getconf _NPROCESSORS_ONLN 2>/dev/null || grep -c ^processor /proc/cpuinfo)",
        """printf '{"event": "no_python", "os_id": "%s", "os_release": "%s", "arch": "%s", "kernel": "%s", """
        """"hostname": "%s", "memory_kib": %d, "cpus": %d, """
        """"users": "%s", "groups": "%s"}\\n' "$(printf %s "$ID" | plain)" """
        """"$(printf %s "${VERSION_ID:-$VERSION_CODENAME}" | plain)" """
        """"$(uname -m | plain)" "$(uname -r | plain)" "$(uname -n | plain)" """
        '"${memory:-0}" "${cpus:-0}" '
        '"$(cut -d: -f1,3 /etc/passwd | plain)" "$(cut -d: -f1,3 /etc/group | plain)"',
        "fi",
        "cat >/dev/null",
    )
)

_BOOTSTRAP = r"""
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C DEBIAN_FRONTEND=noninteractive
export PATH LC_ALL DEBIAN_FRONTEND
@PLAIN@
@NO_ROOT@

progress() { printf '{"event": "progress", "role": null, "detail": "%s"}\n' "$(printf %s "$1" | plain)"; }
end() { printf '{"event": "done", "changed": %d, "failed": [], "skipped": [], "facts": {}}\n' "$1"; exit "$2"; }

fail() {
    printf '{"event": "failed", "role": null, "kind": "package", "name": "python3", "error": "%s"}\n' \
        "$(printf %s "$1" | plain)"
    end 0 1
}

# What a login's environment has of proxies is no setting of apt's.
clean="env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY"
as_root() { if [ "$(id -u)" = 0 ]; then $clean "$@"; else sudo -n $clean "$@"; fi; }

# The process that holds a lock, by what apt or dpkg has printed: its command and its unit.
holder() {
    pid=$(printf '%s\n' "$said" | sed -nE 's/.*(held by process|process with pid) ([0-9]+).*/\2/p' | head -n 1)
    printf '%s' "$(printf '%s' "$said" | grep -m 1 -E 'Could not get lock|locked by another process')"
    [ -r "/proc/${pid:-none}/cgroup" ] || return 0
    printf ' %s (%s)' "$(tr '\0' ' ' <"/proc/$pid/cmdline")" "$(sed -n 's,.*/,,p' "/proc/$pid/cgroup" | head -n 1)"
}

# Says what it does, then does it; what was tried and the command's own words are kept for the case that it fails.
# Another process that holds a lock is waited for, 5 minutes in all.
attempt() {
    progress "$1"
    tried=$1
    shift
    while ! said=$(as_root "$@" </dev/null 2>&1); do
        case $said in
        *"Could not get lock"* | *"locked by another process"*) held=$(holder) ;;
        *) return 1 ;;
        esac
        [ "$waited" -lt 300 ] || { said="waited 300 s: $held"; return 1; }
        [ $((waited % 30)) != 0 ] || progress "waiting: $held"
        sleep 3
        waited=$((waited + 3))
    done
}

# $1: what apt printed. Names what python3 may not come for: packages on hold, sources, a proxy.
hints() {
    plan=$(as_root apt-get -s -q -o APT::Ignore-Hold=1 --no-install-recommends install python3 2>/dev/null </dev/null |
        sed -n 's/^Inst \([^ ]*\).*/\1/p')
    for name in $(apt-mark showhold 2>/dev/null); do
        for needed in $plan; do
            [ "$name" != "$needed" ] || printf '; package %s is on hold: run there: apt-mark unhold %s' "$name" "$name"
        done
    done
    for uri in $(printf '%s\n' "$1" | sed -nE 's/^Err:[0-9]+ ([^ ]+) .*/\1/p' | sort -u); do
        place=$(grep -nHF "$uri" /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
            /etc/apt/sources.list.d/*.sources 2>/dev/null | grep -v ':[0-9]*: *#' | head -n 1 | cut -d: -f1,2)
        printf '; package source %s fails' "${place:-$uri}"
    done
    for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
        proxy=$(sed -nE 's,^[^/#"]*[Pp]roxy[^"]*"(https?://)?([^"/@]*@)?([^":/]+).*,\3,p' "$file" 2>/dev/null |
            head -n 1)
        case $1 in *"${proxy:-no proxy}"*) printf '; %s sends apt to the proxy %s' "$file" "$proxy" ;; esac
    done
}

there() { [ "$(dpkg-query -W -f '${db:Status-Status}' python3 2>/dev/null)" = installed ]; }

# A source or a package that python3 does not need may be broken: apt reports it, and does the rest.
with_apt() {
    patient="-q -y -o DPkg::Lock::Timeout=0 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0"
    install="apt-get $patient --no-install-recommends --no-remove install python3"
    waited=0 trouble=
    if [ -n "$(ls /var/lib/dpkg/updates 2>/dev/null)" ]; then
        attempt "dpkg --configure -a" dpkg --force-confold --configure -a || trouble=$said
    fi
    attempt "apt-get install python3" $install || there && return 0
    attempt "apt-get update" apt-get $patient update || trouble=$said
    case $said in *Err:*) trouble=$said ;; esac
    attempt "apt-get install python3" $install || there && return 0
    # Package lists that a power cut emptied are invalid, and an update keeps them: see lists.py.
    case $said in
    *"Unable to locate package"* | *"no installation candidate"* | *MergeList*)
        attempt "fetched all package lists again" find /var/lib/apt/lists -maxdepth 1 -type f -name '*_*' -delete
        attempt "apt-get update" apt-get $patient update || trouble=$said
        case $said in *Err:*) trouble=$said ;; esac
        attempt "apt-get install python3" $install || there && return 0
        ;;
    esac
    fail "$tried$(hints "$trouble
$said"): $(printf '%s\n' "$said" | tail -n 8)"
}

with_dnf() { waited=0; attempt "dnf install python3" dnf -y -q install python3 || fail "dnf install: $said"; }

with_zypper() {
    waited=0
    attempt "zypper install python3" zypper --non-interactive --quiet install --no-recommends python3 ||
        fail "zypper install: $said"
}

main() {
    if command -v python3 >/dev/null 2>&1; then end 0 0; fi
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null 2>&1 || { no_root "not root, and there is no sudo on this node"; exit 1; }
        why=$(sudo -n true 2>&1 </dev/null) || { no_root "$why"; exit 1; }
    fi
    if command -v apt-get >/dev/null 2>&1; then with_apt
    elif command -v dnf >/dev/null 2>&1; then with_dnf
    elif command -v zypper >/dev/null 2>&1; then with_zypper
    else fail "none of apt-get, dnf and zypper is on this node: install python3 by hand"
    fi
    command -v python3 >/dev/null 2>&1 || fail "the package manager reports success and there is no python3 in $PATH"
    printf '{"event": "changed", "role": null, "kind": "package", "name": "python3", "detail": "%s"}\n' \
        "$(python3 -V 2>&1 | plain)"
    end 1 0
}

main
"""


def bootstrap_script() -> str:
    """Return a POSIX sh script that installs a missing python3 with the node's package manager, as root or by sudo.

    It works as `sh -c SCRIPT` or on the standard input of `sh`. It is tested with apt; dnf and zypper are not tested.
    """
    return _BOOTSTRAP.lstrip().replace("@PLAIN@", _PLAIN).replace("@NO_ROOT@", _NO_ROOT)
