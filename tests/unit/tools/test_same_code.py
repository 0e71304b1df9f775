"""Modules with the same bytecode differ in docstrings and line numbers only."""

import subprocess
from pathlib import Path

import pytest

from tools.same_code import differing, facts, main

BEFORE = '''"""A module."""

def area(width, height=2):
    """What it is."""
    result = width * height
    return result

class Shape:
    """A shape."""

    def draw(self):
        """Draw it."""
'''


def test_docstrings_and_line_numbers_are_no_difference() -> None:
    after = BEFORE.replace('    """What it is."""\n', "").replace('"""A module."""', '"""Shapes."""\n\n# and a comment')
    assert facts(after) == facts(BEFORE)
    assert facts(BEFORE.replace('"""Draw it."""', "...")) == facts(BEFORE)


@pytest.mark.parametrize(
    ("old", "new"), [("width * height", "height * width"), ("=2", "=3"), ("=2", "=2.0"), ("draw", "paint")]
)
def test_code_is_a_difference(old: str, new: str) -> None:
    after = BEFORE.replace(old, new)
    assert differing({"a.py": BEFORE, "b.py": BEFORE}, {"a.py": after, "b.py": BEFORE}) == ("a.py",)
    assert differing({"a.py": BEFORE}, {"a.py": after}, local_names=True) == ("a.py",)


def test_local_names_are_a_difference_unless_allowed() -> None:
    after = BEFORE.replace("result", "product")
    assert facts(after) != facts(BEFORE)
    assert facts(after, local_names=True) == facts(BEFORE, local_names=True)
    arguments = BEFORE.replace("width", "breadth")
    assert facts(arguments, local_names=True) != facts(BEFORE, local_names=True)


def test_a_module_of_one_tree_is_a_difference() -> None:
    assert differing({"a.py": ""}, {"b.py": ""}) == ("a.py", "b.py")


def test_the_working_tree_is_compared_with_a_revision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = tmp_path / "hpcforge" / "shapes.py"
    module.parent.mkdir()
    module.write_text(BEFORE)
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "shapes"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    module.write_text(BEFORE.replace("What it is", "Return the area"))
    assert main(["HEAD"], tmp_path) == 0
    module.write_text(BEFORE.replace("width * height", "height"))
    assert main(["HEAD"], tmp_path) == 1
    assert capsys.readouterr().out == "hpcforge/shapes.py\n"
