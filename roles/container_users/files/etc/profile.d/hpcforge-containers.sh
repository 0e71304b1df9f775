# Written by hpcforge. podman keeps this folder in its database: a login on the worker has to use the one of jobs.
if [ -O "/run/hpcforge-users/$(id -u)" ]; then export XDG_RUNTIME_DIR="/run/hpcforge-users/$(id -u)"; fi
