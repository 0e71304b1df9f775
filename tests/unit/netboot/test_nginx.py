"""nginx's own check of what is written for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hpcforge.netboot.nginx import nginx_conf


def test_it_is_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "bodies").mkdir()
    (tmp_path / "conf").write_text(nginx_conf("127.0.0.1", 21700, str(tmp_path), "/srv/image", None))
    argv = ["nginx", "-t", "-p", str(tmp_path), "-c", f"{tmp_path}/conf", "-e", "stderr"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "test is successful" in done.stderr, done.stderr
