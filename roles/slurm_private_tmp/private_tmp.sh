#!/bin/sh
# hpcforge-private-tmp FOLDER: make the folder below which jobs have their /tmp, with all that lead there; each has to
# be root's, and no link. slurmd takes whatever has that name, and changes owners of files in it as root.
set -eu
umask 022
at='' rest=${1#/}
while [ -n "$rest" ]; do
  at=$at/${rest%%/*}
  case $rest in */*) rest=${rest#*/} ;; *) rest='' ;; esac
  mkdir -- "$at" 2>/dev/null || :
  case $(stat -c '%u %A' -- "$at") in
    "0 "d????-??-?) continue ;;
    "0 "d????????[tT]) [ -z "$rest" ] || continue ;;
  esac
  echo "$1: others than root could move or replace $at; move it away (ls -ld $at), then start slurmd again" >&2
  exit 1
done
