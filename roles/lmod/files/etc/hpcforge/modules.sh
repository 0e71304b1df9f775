# Written by hpcforge. Every bash that is no login shell reads it by BASH_ENV: `module` is there in batch scripts, too.
if ! command -v module > /dev/null 2>&1; then . /etc/profile.d/lmod.sh; fi
