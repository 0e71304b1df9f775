"""Network boot: what machines are served until they have an operating system, and what keeps disks from being wiped.

dnsmasq gives addresses and the first file, nginx serves large files, and a small server here decides for each machine
and each request. `decide`, `dnsmasq`, `nginx` and `ipxe` are pure.
"""
