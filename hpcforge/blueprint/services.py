"""Services: a mapping of name to where it runs (`on`), or which outside service stands in (`external`).

A role declares what it offers under `services:` in its role.yaml; the blueprint's section follows from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from hpcforge.blueprint import values as v
from hpcforge.blueprint.section import Section
from hpcforge.errors import ExpectedError

_LISTS: dict[str, Any] = {"ipv4": tuple[v.Ipv4, ...], "host": tuple[v.HostOrAddress, ...]}
_Name = Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,30}$")]


class OfferError(ExpectedError):
    """What a role declares of its services is wrong."""

    hint = "this is a fault in a role, not in the blueprint"


class Listed(BaseModel):
    """A list of values of one type, and what they mean."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    list_of: Literal["ipv4", "host"]
    description: str


class Offer(BaseModel):
    """A service that a role offers. Without `external` it runs on a node or not at all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    description: str
    on: str = "The node that serves it."  # what `on` means
    external: Listed | None = None
    options: Mapping[_Name, Listed] = {}  # of a service of our own
    several: bool = False  # it may run on more than one node
    serves_artifacts: bool = False  # what roles call `artifacts`, over HTTP at its node's address, by their names
    required: bool = False  # a blueprint has to say where it comes from


_OFFERS = TypeAdapter(dict[_Name, Offer])


class Service(Section):
    """A service of a blueprint; what it may say follows from what a role declares of it."""

    @property
    def on_set(self) -> str | None:
        """The nodes that it runs on, as a node set."""
        return getattr(self, "on", None)

    @property
    def outside(self) -> tuple[str, ...]:
        """What stands in for it."""
        return getattr(self, "external", ())


class Services(Section):
    """What the cluster cannot do without."""

    offers: ClassVar[Mapping[str, Offer]] = {}  # what it was made from

    def by_name(self) -> dict[str, Service]:
        """Those that the blueprint says something of."""
        said = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: service for name, service in said.items() if service is not None}


def load_offers(folder: Path) -> dict[str, Offer]:
    """What the roles of a folder offer, by name. Raises `OfferError`."""
    offers: dict[str, Offer] = {}
    for path in sorted(folder.glob("*/role.yaml")):
        for name, offer in _offers(path).items():
            if name in offers:
                raise OfferError(f"{path}: services.{name}: another role offers it, too")
            if hasattr(Section, name):
                raise OfferError(f"{path}: services.{name}: this name cannot be a service's")
            offers[name] = offer
    return offers


def _offers(path: Path) -> dict[str, Offer]:
    text = path.read_text("utf-8")
    if "\nservices:" not in text:  # most roles: reading YAML takes longer
        return {}
    try:
        # every scalar stays text until pydantic types it: else YAML reads the key `on` as true
        return _OFFERS.validate_python(yaml.load(text, Loader=yaml.CBaseLoader).get("services"))  # noqa: S506
    except (yaml.YAMLError, AttributeError) as error:
        raise OfferError(f"{path}: {error}") from error
    except ValidationError as error:
        wrong = (f"services.{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise OfferError(f"{path}: {'; '.join(wrong)}") from error


def services_model(offers: Mapping[str, Offer]) -> type[Services]:
    """The section of a blueprint that follows from what roles offer; those that have to be there come first."""
    fields: dict[str, Any] = {}
    for name, offer in sorted(offers.items(), key=lambda item: not item[1].required):
        model = _service_model(name, offer)
        default = ... if offer.required else None
        fields[name] = (model if offer.required else model | None, Field(default, description=offer.description))
    made: type[Services] = create_model("Services", __base__=Services, __doc__=Services.__doc__, **fields)
    made.offers = offers
    return made


def _service_model(name: str, offer: Offer) -> type[Service]:
    outside = offer.external
    fields: dict[str, Any] = {"on": (v.NodeSet, Field(description=offer.on))}
    if outside:
        fields["on"] = v.NodeSet | None, Field(None, description=offer.on)
    for option, listed in offer.options.items():
        fields[option] = _listed(listed)
    if outside:
        fields["external"] = _listed(outside)
    doc = "Where it runs" + (", or what the site has instead." if outside else ".")
    return create_model(name.capitalize(), __base__=Service, __doc__=doc, **fields)


def _listed(listed: Listed) -> Any:
    return _LISTS[listed.list_of], Field((), description=listed.description)
