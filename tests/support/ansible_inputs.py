"""Inputs that Ansible could take for templates, and what Ansible itself reads."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

HOSTILE: dict[str, Any] = {
    "text": "{{ 7 * 6 }} {% raw %} # ' \" : - !vault | >",
    "odd": "\u2028\u2029\x85\x7f\t\n é \U0001f600 \x00",
    "deep": {"{{ key }}": ["{{ lookup('pipe', 'id') }}", 1, 2.5, True, None, {"a": "%}"}]},
    "yes": "yes",
    "number": "0640",
}


def read_by_ansible(text: str) -> Any:
    """Return a file as Ansible reads it; strings that it would render are marked."""
    script = """
import json, sys
from ansible._internal._datatag._tags import Origin, TrustedAsTemplate
from ansible.parsing.utils.yaml import from_yaml
def shown(value):
    if isinstance(value, dict):
        return {str(key): shown(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shown(item) for item in value]
    return {"rendered": str(value)} if TrustedAsTemplate.is_tagged_on(value) else value
print(json.dumps(shown(from_yaml(TrustedAsTemplate().tag(sys.stdin.read())))))
"""
    done = subprocess.run([sys.executable, "-c", script], input=text, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
