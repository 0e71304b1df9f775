"""Ship roles/, smoke_tests/, page/ and other folders of data in the wheel: hpcforge works without a clone."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = ("roles", "smoke_tests", "blueprints", "inventory", "vagrant", "page")


class BuildWithShipped(build_py):
    """Copies the folders to hpcforge/shipped/ of what is built."""

    def run(self) -> None:
        """Build as usual, then copy; not in an editable install, which finds them in the clone."""
        super().run()
        if not self.editable_mode:
            for name in SHIPPED:
                target = Path(self.build_lib) / "hpcforge" / "shipped" / name
                ignore = shutil.ignore_patterns("__pycache__", "*.age", ".vagrant")
                shutil.copytree(name, target, dirs_exist_ok=True, ignore=ignore)


setup(cmdclass={"build_py": BuildWithShipped})
