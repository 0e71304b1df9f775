"""The catalog's models as text."""

from hpcforge.catalog import load_catalog
from hpcforge.report.catalog_text import facts, found, model_text, models_of

MODELS = models_of(load_catalog())


def test_every_hardware_model_is_there_once() -> None:
    assert len({(model.kind, model.name) for model in MODELS}) == len(MODELS) > 90
    assert {model.kind for model in MODELS} == {
        "servers", "gpus", "cpus", "nics", "drives", "pdus", "ups", "racks", "cables", "switches",
    }  # fmt: skip


def test_every_model_can_be_shown() -> None:
    for model in MODELS:
        text = model_text(model, columns=80)
        known = [name for name in facts(model.entry) if name not in ("sources", "description")]
        assert text.startswith(f"{model.name}: ")
        assert all(f"\n{name[:20]}" in text for name in known)


def test_all_words_must_be_found_and_names_come_first() -> None:
    assert found(MODELS, ["no", "such-thing-at-all"]) == []
    named = found(MODELS, ["L40S"])
    assert named[0].name == "l40s"
