"""Services: a mapping of name to its nodes (`on`), or to an outside service (`external`).

A role declares its services under `services:` in its role.yaml; the blueprint's section follows from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, create_model

from hpcforge.blueprint import values as v
from hpcforge.blueprint.section import Section
from hpcforge.blueprint.validate import Draft
from hpcforge.blueprint.value_types import TYPES, TypeName, list_of

ServiceName = Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,30}$")]


class ListValue(BaseModel):
    """A list of values of one type, and what they mean."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    list_of: TypeName = Field(description="The type of each.")
    description: str = Field(description="What they are.")


class Offer(BaseModel):
    """A service that a role offers. Without `external` it runs on a node or not at all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    description: str = Field(description="Description of the service.")
    on: str = Field("The node that provides it.", description="What `on` means in a blueprint.")
    external: ListValue | None = Field(None, description="External services that may replace it. Default: none.")
    options: Mapping[ServiceName, ListValue] = Field({}, description="More keys that a blueprint may set with `on`.")
    needs: tuple[ServiceName, ...] = Field((), description="Services that a blueprint must have, too.")
    multiple_nodes: bool = Field(False, description="It may run on more than one node.")
    serves_artifacts: bool = Field(
        False, description="It serves the `artifacts` of roles over HTTP at its node's address, by their names."
    )
    logs: str | None = Field(
        None,
        description="A folder on its node that has what each node logs, in a file `NODE.log`: for `hpcforge logs`.",
    )
    certified: bool = Field(
        False,
        description="Its node gets a certificate from the cluster's own authority: the secret `tls_certificate:NODE`.",
    )
    required: bool = Field(False, description="A blueprint must set `on` or `external`.")


class ServiceSection(Section):
    """A service of a blueprint; what it may say follows from what a role declares of it."""

    @property
    def on_set(self) -> str | None:
        """The nodes that it runs on, as a node set."""
        return getattr(self, "on", None)

    @property
    def outside(self) -> tuple[str, ...]:
        """Return the addresses of the outside service."""
        return getattr(self, "external", ())


class Services(Section):
    """What the cluster cannot do without."""

    offers: ClassVar[Mapping[str, Offer]] = {}  # the offers that this model was made from

    def by_name(self) -> dict[str, ServiceSection]:
        """Return the services that the blueprint sets."""
        sections = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: service for name, service in sections.items() if service is not None}


def services_model(offers: Mapping[str, Offer]) -> type[Services]:
    """Return the section of a blueprint for the services that roles offer; required ones come first."""
    fields: dict[str, Any] = {}
    for name, offer in sorted(offers.items(), key=lambda item: not item[1].required):
        model = _service_model(name, offer)
        default = ... if offer.required else None
        fields[name] = (model if offer.required else model | None, Field(default, description=offer.description))
    made: type[Services] = create_model("Services", __base__=Services, __doc__=Services.__doc__, **fields)
    made.offers = offers
    return made


def _service_model(name: str, offer: Offer) -> type[ServiceSection]:
    outside = offer.external
    fields: dict[str, Any] = {"on": (v.NodeSet, Field(description=offer.on))}
    if outside:
        fields["on"] = v.NodeSet | None, Field(None, description=offer.on)
    for option, listed in offer.options.items():
        fields[option] = _listed(listed)
    if outside:
        fields["external"] = _listed(outside)
    doc = "Where it runs" + (", or the site's own service." if outside else ".")
    return create_model(name.capitalize(), __base__=ServiceSection, __doc__=doc, **fields)


def _listed(listed: ListValue) -> Any:
    return list_of(TYPES[listed.list_of].written), Field((), description=listed.description)


def has_directory(draft: Draft) -> bool:
    """Return whether people of a directory exist on nodes beside the blueprint's users."""
    services: Services | None = draft.sections["services"]
    return services is not None and "directory" in services.by_name()
