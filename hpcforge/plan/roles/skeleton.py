"""The skeleton of a new role: small, valid, and ready for edits. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Kind = Literal["data", "pyinfra", "ansible"]

_HEAD = """\
# What every key means: docs/roles.md. Is it right? hpcforge role check ROLE
description: Say in a sentence what @NAME@ is for.
on: "'worker' in node.functions"     # the nodes that get it: an expression over `cluster` and `node`
needs: [base]                        # roles that come before it on the same node
"""
_DATA = (
    _HEAD
    + """\
packages: []                         # of the distribution
files:
  - /etc/@NAME@.conf                 # what is in it: files/etc/@NAME@.conf.j2
checks:                              # run in every plan: what proves that it works
  - name: the file is there
    command: [test, -s, /etc/@NAME@.conf]
"""
)
_CONF = """\
# Written by hpcforge.
{# A template; without .j2 at the end of its name this file would be handed on as it is. #}
cluster = {{ cluster.name }}
"""
_OPAQUE = """\
inputs:                              # inputs of the code below: it runs again when they change
  greeting: "'hello from ' ~ cluster.name"
delete_on_removal: [/var/lib/@NAME@] # what only this code creates: removed with the role
checks:                              # where one fails, the code runs again
  - name: the greeting is there
    command: [grep, -q, hello, /var/lib/@NAME@/greeting]
"""
_DEPLOY = '''\
"""pyinfra operations, for what data cannot say. `host.data` has the `inputs` of role.yaml."""

from io import StringIO

from pyinfra import host
from pyinfra.operations import files

files.directory(name="Make the folder", path="/var/lib/@NAME@", mode="755")
greeting = StringIO(host.data.greeting + "\\n")
files.put(name="Write the greeting", src=greeting, dest="/var/lib/@NAME@/greeting", mode="644")
'''
_TASKS = """\
# The `inputs` of role.yaml are variables here.
- name: Make the folder
  ansible.builtin.file:
    path: /var/lib/@NAME@
    state: directory
    mode: "0755"
- name: Write the greeting
  ansible.builtin.copy:
    content: "{{ greeting }}\\n"
    dest: /var/lib/@NAME@/greeting
    mode: "0644"
"""
_OF: Mapping[Kind, Mapping[str, str]] = {
    "data": {"role.yaml": _DATA, "files/etc/@NAME@.conf.j2": _CONF},
    "pyinfra": {"role.yaml": _HEAD + _OPAQUE, "deploy.py": _DEPLOY},
    "ansible": {"role.yaml": _HEAD + _OPAQUE, "tasks/main.yml": _TASKS},
}


def skeleton(name: str, kind: Kind) -> dict[str, str]:
    """Return the texts by path in the role's folder."""
    return {path.replace("@NAME@", name): text.replace("@NAME@", name) for path, text in _OF[kind].items()}
