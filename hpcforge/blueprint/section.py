"""What every mapping of a blueprint, an inventory and the hardware catalog is made of."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


class Section(BaseModel):
    """A mapping with known keys. A key without a value counts as absent."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=False, str_strip_whitespace=False)

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, data: Any) -> Any:
        if isinstance(data, dict) and None in data.values():
            known = {field.alias or name for name, field in cls.model_fields.items()}
            return {key: value for key, value in data.items() if value is not None or key not in known}
        return data
