import pytest

pytest.register_assert_rewrite("tests.support")  # a failed assertion there shows its values, too
