"""GPUs as a blueprint names them, and versions of their software."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from hpcforge.blueprint.sections.gpus import (
    AmdSection,
    GpuSet,
    NvidiaRepositorySection,
    NvidiaSection,
    Present,
    gpus_named,
)


@pytest.mark.parametrize(
    ("text", "count", "gpus"),
    [
        ("all", 3, (0, 1, 2)),
        ("0-2", 8, (0, 1, 2)),
        ("3,0-1,1", 8, (3, 0, 1)),
        ("7", 4, (7,)),  # which the node has not: a check says so
    ],
)
def test_gpus_are_named_by_number(text: str, count: int, gpus: tuple[int, ...]) -> None:
    assert TypeAdapter(GpuSet).validate_python(text) == text
    assert gpus_named(text, count) == gpus


@pytest.mark.parametrize("text", ["", "1g.10gb", "2-1", "16", "0-16", "01", "0,", "0 1", "-1", "first"])
def test_other_texts_name_no_gpus(text: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(GpuSet).validate_python(text)


@pytest.mark.parametrize(
    ("section", "right", "wrong"),
    [
        (AmdSection, {"rocm": "5.7.1"}, {"rocm": "5.7"}),
        (NvidiaSection, {"driver": "535.261.03", "modules": "open"}, {"driver": "535", "modules": "open"}),
        (NvidiaSection, {"driver": "570.86.15", "modules": "open", "cuda": ["12.4"]},
         {"driver": "570.86.15", "modules": "open", "cuda": ["12.4.1"]}),
        (Present, {"fabric_manager": "matched"}, {"fabric_manager": "driver"}),
        (Present, {"kernel": "6.12.48+deb13-amd64"}, {"kernel": "linux-6.1"}),
        (NvidiaRepositorySection, {"key": "k.asc", "url": "file:///srv/cuda/"}, {"key": "k.asc", "url": "ftp://a/b"}),
        (NvidiaRepositorySection, {"key": "k.asc", "fingerprint": "A" * 40}, {"key": "k.asc", "fingerprint": "a" * 40}),
    ],
)  # fmt: skip
def test_versions_and_addresses_have_one_form(
    section: type[AmdSection], right: dict[str, object], wrong: dict[str, object]
) -> None:
    section.model_validate(right)
    with pytest.raises(ValidationError):
        section.model_validate(wrong)
