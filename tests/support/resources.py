"""Resources as the operator host sends them to the node program."""

from __future__ import annotations

import base64
import grp
import hashlib
import os
import pwd
from pathlib import Path
from typing import Any

OWNER = pwd.getpwuid(os.geteuid()).pw_name
GROUP = grp.getgrgid(os.getegid()).gr_name


class Resources:
    """Builds resources as the operator host sends them."""

    @staticmethod
    def file(path: Path | str, content: str = "new\n", mode: str = "0644", **more: Any) -> dict[str, Any]:
        data = content.encode()
        return {
            "path": str(path),
            "mode": mode,
            "owner": OWNER,
            "group": GROUP,
            "digest": hashlib.sha256(data).hexdigest(),
            "content_base64": base64.b64encode(data).decode(),
            "secret": None,
            "early": False,
            **more,
        }

    @staticmethod
    def root_file(path: Path | str, content: str = "new\n", **more: Any) -> dict[str, Any]:
        return Resources.file(path, content, **{"owner": "root", "group": "root", **more})

    @staticmethod
    def directory(path: Path | str, mode: str = "0755", owner: str = OWNER, group: str = GROUP) -> dict[str, Any]:
        return {"path": str(path), "mode": mode, "owner": owner, "group": group}

    @staticmethod
    def check(*command: str, stdout: str | None = None, wait_s: float = 0) -> dict[str, Any]:
        return {"name": "check", "command": list(command), "stdout": stdout, "wait_s": wait_s}
