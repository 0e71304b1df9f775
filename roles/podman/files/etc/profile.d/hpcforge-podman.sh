# Written by hpcforge, for logins on the worker; jobs have it from Slurm's TaskProlog.
export CONTAINERS_STORAGE_CONF=/etc/containers/storage.conf
