"""An object server that the site has, and whose buckets nodes mount: Debian's own, OpenStack Swift, which speaks S3."""

from __future__ import annotations

from tests.support.site import Site

ADDRESS = "https://head:8443/datasets"
# The site's server is the node `head`, since a lab has no other machine: hpcforge does not know of it.
KEY = "8f2c-the-key-of-the-nodes"
KEYS = f"datasets:lab:nodes:{KEY}\n"
_INSTALLS = (
    "sudo apt-get update -qq && sudo DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "
    "swift-proxy swift-account swift-container swift-object memcached openssl curl >/dev/null"
)
# One copy of everything, on one device of each kind; tempauth's user `lab:nodes` is S3's, too.
_SERVES = """
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=head \
    -addext subjectAltName=DNS:head -keyout /etc/swift/proxy.key -out /etc/swift/proxy.crt 2>/dev/null
chown swift: /etc/swift/proxy.key
install -d -o swift -g swift /srv/node /srv/node/d1
cd /etc/swift
printf '[swift-hash]\\nswift_hash_path_suffix = lab\\n[storage-policy:0]\\nname = only\\ndefault = yes\\n' >swift.conf
for one in account:6202 container:6201 object:6200; do
    name=${one%:*} port=${one#*:}
    swift-ring-builder $name.builder create 4 1 0 >/dev/null
    swift-ring-builder $name.builder add r1z1-127.0.0.1:$port/d1 1 >/dev/null
    swift-ring-builder $name.builder rebalance >/dev/null
    cat >$name-server.conf <<END
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = $port
workers = 0
mount_check = false
disable_fallocate = true
[pipeline:main]
pipeline = $name-server
[app:$name-server]
use = egg:swift#$name
END
done
cat >proxy-server.conf <<END
[DEFAULT]
bind_ip = 0.0.0.0
bind_port = 8443
workers = 0
cert_file = /etc/swift/proxy.crt
key_file = /etc/swift/proxy.key
[pipeline:main]
pipeline = catch_errors cache s3api tempauth slo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:cache]
use = egg:swift#memcache
[filter:s3api]
use = egg:swift#s3api
[filter:tempauth]
use = egg:swift#tempauth
user_lab_nodes = KEY .admin
[filter:slo]
use = egg:swift#slo
END
systemctl restart memcached swift-account swift-container swift-object swift-proxy
"""
# Swift's own way in, as somebody else's tool.
_ASKS = """
set -e
cd /etc/swift
asks() { curl -sS --fail --max-time 20 --cacert proxy.crt "$@"; }
token=$(asks -D - -o /dev/null -H 'X-Auth-User: lab:nodes' -H 'X-Auth-Key: KEY' https://head:8443/auth/v1.0 |
    tr -d '\\r' | sed -n 's/^X-Auth-Token: //p')
asks -H "X-Auth-Token: $token"
"""


def install(site: Site) -> str:
    """What a site has before its nodes: an object server, without a bucket yet; whose certificate is to be trusted."""
    site.ssh("head", _INSTALLS)
    site.ssh("head", f"sudo bash -ec {_quoted(_SERVES)}")
    site.becomes("head", "sudo curl -sk -o /dev/null https://head:8443/info && echo answers || :", "answers\n")
    return site.ssh("head", "sudo cat /etc/swift/proxy.crt")


def asked(site: Site, words: str) -> str:
    """What Swift says to who has the key; `words` for curl, with a path of the account."""
    path = f"https://head:8443/v1/AUTH_lab/{words}"
    return site.ssh("head", f"sudo bash -c {_quoted(_ASKS.rstrip() + ' ' + path)}")


def _quoted(script: str) -> str:
    return "'" + script.replace("KEY", KEY).replace("'", "'\\''") + "'"
