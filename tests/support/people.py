"""People of a directory: who is put into it, and what nodes and those who log in there see of them."""

from __future__ import annotations

import shlex

from tests.support.site import Site

# What somebody who may write to the directory could put there: users, a group, and people and a group who want rights.
_PEOPLE = """dn: cn=vision,ou=groups,BASE
objectClass: posixGroup
cn: vision
gidNumber: 6001
memberUid: grace

dn: uid=grace,ou=people,BASE
objectClass: inetOrgPerson
objectClass: posixAccount
objectClass: ldapPublicKey
uid: grace
cn: Grace
sn: Hopper
uidNumber: 5001
gidNumber: 6001
homeDirectory: /etc/home
sshPublicKey: KEY

dn: uid=joan,ou=people,BASE
objectClass: inetOrgPerson
objectClass: posixAccount
objectClass: ldapPublicKey
uid: joan
cn: Joan
sn: Clarke
uidNumber: 5003
gidNumber: 6001
homeDirectory: /etc/home
sshPublicKey: KEY

dn: uid=toor,ou=people,BASE
objectClass: inetOrgPerson
objectClass: posixAccount
uid: toor
cn: Root
sn: Root
uidNumber: 0
gidNumber: 6001
homeDirectory: /root

dn: uid=helper,ou=people,BASE
objectClass: inetOrgPerson
objectClass: posixAccount
uid: helper
cn: Helper
sn: Helper
uidNumber: 5002
gidNumber: 27
homeDirectory: /root

dn: cn=sudo,ou=groups,BASE
objectClass: posixGroup
cn: sudo
gidNumber: 6002
memberUid: grace
memberUid: bob
"""
_BASE = "dc=full,dc=example,dc=org"
_DIRECTORY = "-Q -Y EXTERNAL -H ldapi:///"
LOG_IN = "ssh -o BatchMode=yes -i ~/hers grace"
WHO = "getent passwd grace; getent group vision; id grace; id bob; id toor; id helper; getent group 6002"
KNOWN = """grace:*:5001:6001:Grace:/home/grace:/bin/bash
vision:*:6001:grace
uid=5001(grace) gid=6001(vision) groups=6001(vision)
uid=2002(bob) gid=2002(bob) groups=2002(bob)
"""
JOAN = "getent passwd joan || echo nobody"  # whom w02 has never asked for
_OF_JOAN = "joan:*:5003:6001:Joan:/home/joan:/bin/bash\n"
_FALSE_CERTIFICATE = """cd /root
openssl req -x509 -newkey ed25519 -nodes -keyout key -out certificate -subj /CN=x -days 2
cat certificate > /etc/ldap/hpcforge_server.pem; cat key > /etc/ldap/hpcforge_server.key; systemctl restart slapd"""
_OF_SLAPD = "the certificate of slapd.service (/etc/ldap/hpcforge_server.pem)"


def enter(site: Site) -> None:
    """Put them into the directory, those who log in with a key that lies on the head."""
    site.ssh("head", "ssh-keygen -q -t ed25519 -N '' -f ~/hers")
    people = _PEOPLE.replace("KEY", site.ssh("head", "cat ~/hers.pub").strip()).replace("BASE", _BASE)
    site.ssh("head", f"sudo ldapadd {_DIRECTORY} <<'END'\n{people}\nEND")


def logged_in(site: Site, command: str) -> str:
    """What grace sees on the login node."""
    return site.ssh("head", f"{LOG_IN}@login {shlex.quote(command)}")


def another_certificate_is_refused_and_renewed(site: Site) -> None:
    """One that anybody could have made, and one that has ended; nobody new is known until an apply has made another."""
    site.ssh("head", f"sudo sh -c '{_FALSE_CERTIFICATE}' 2>/dev/null")
    assert "its certificate is refused: self-signed certificate" in site.cli("plan", "BLUEPRINT").stdout

    # As if nobody had applied for half a year.
    assert site.cli("apply", "BLUEPRINT", "--yes", "--only", "directory_server", steps=-2).returncode == 0
    assert site.ssh("w02", JOAN) == "nobody\n"
    assert f"{_OF_SLAPD} expired " in site.cli("status", "BLUEPRINT").stdout
    plan = site.cli("plan", "BLUEPRINT")
    assert plan.returncode == 2
    assert "its certificate is refused: certificate has expired" in plan.stdout
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    site.becomes("w02", JOAN, _OF_JOAN)
    assert site.ssh("head", "ssh -o BatchMode=yes -i ~/hers joan@w02 id -un") == "joan\n"
    assert _OF_SLAPD not in site.cli("status", "BLUEPRINT").stdout


def somebody_of_the_node_is_named(site: Site) -> None:
    """The directory gives grace a number that bob of the blueprint has."""
    change = f"dn: uid=grace,ou=people,{_BASE}\nchangetype: modify\nreplace: uidNumber\nuidNumber: 2002\n"
    site.ssh("head", f"sudo ldapmodify {_DIRECTORY} <<'END'\n{change}\nEND")
    conflict = f"user bob (2002) of /etc/passwd and user grace (2002) of uid=grace,ou=people,{_BASE}"
    assert conflict in site.cli("plan", "BLUEPRINT").stdout
