"""A controller of a make: it says whose it is, and takes no boot override without what makes.yaml does for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hpcforge.metal.bmc.makes import Action, Traits
from tests.support.fake_bmc import ROOT, SYSTEM, FakeBmc, collection

MANAGER = f"{ROOT}/Managers/1"
OF_MAKES = ("refused-in-post", "override-by-ipmi")  # quirks that rows of makes.yaml name


@dataclass
class BmcOfMake(FakeBmc):
    """One; `needs` are the actions without which an override fails."""

    traits: Traits = field(default_factory=Traits)
    needs: frozenset[Action] = frozenset()
    in_post: int = 2  # requests that it refuses in its self-test
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list)  # overrides, with their paths

    def boot(self) -> dict[str, Any]:
        """The override; of a make that has modes only once it was told one, without."""
        override: dict[str, Any] = dict(super().boot())
        if "uefi-mode" in self.needs:
            override["BootSourceOverrideMode"] = None
        return override

    def system(self) -> dict[str, Any]:
        """The system, of this maker."""
        system = super().system() | {"Manufacturer": self.traits.maker, "Model": self.traits.model}
        if "settings-sd" in self.needs:  # what SD has shows here after the next start
            system["Boot"] = {**system["Boot"], "BootSourceOverrideEnabled": "Disabled"}
        return system | {"Links": {"ManagedBy": [{"@odata.id": MANAGER}]}}

    def get(self, path: str) -> Any:
        """What a GET returns."""
        if path in self.resources:
            return self.resources[path]
        if path == ROOT:
            maker = {"Vendor": self.traits.vendor, "Product": self.traits.product}
            return super().get(path) | maker | {"Managers": {"@odata.id": f"{ROOT}/Managers"}}
        if path == f"{ROOT}/Managers":
            return collection(MANAGER)
        if path == MANAGER:
            return {"Model": self.traits.manager, "FirmwareVersion": self.traits.firmware}
        if path == f"{SYSTEM}/SD" and "settings-sd" in self.needs:
            return {"Boot": self.boot()}
        return super().get(path)

    def patch(self, path: str, body: dict[str, Any]) -> int:
        """Take an override as its make does."""
        self.sent.append((path, body))
        if message_id := self._why_not(path, body):
            self.refusal = {
                "error": {"message": "See ExtendedInfo", "@Message.ExtendedInfo": [{"MessageId": message_id}]}
            }
            return 400
        status = super().patch(path, body)
        if "uefi-boot-next" in self.needs and self.target == "Pxe":
            self.target = "UefiBootNext"
        return status

    def _why_not(self, path: str, body: dict[str, Any]) -> str:
        boot, needs = body["Boot"], self.needs
        if "ipmi" in needs:
            return "iLO.2.14.UnsupportedOperation"
        if "without-mode" in needs and "BootSourceOverrideMode" in boot:
            return "Base.1.8.PropertyNotWritable"
        if "uefi-mode" in needs and boot.get("BootSourceOverrideMode") != "UEFI":
            return "Base.1.8.PropertyMissing"
        if "if-match" in needs and body["If-Match"] != '"7"':
            return "Ami.1.0.PreconditionHeaderMissing"
        if "keep-target" in needs and boot["BootSourceOverrideTarget"] == "None":
            return "Base.1.4.PropertyValueNotInList"
        if "settings-sd" in needs and path != f"{SYSTEM}/SD":
            return "Ami.1.0.OperationSupportedInFutureStateURI"
        if "retry-in-post" in needs and self.in_post:
            self.in_post -= 1
            return "iLO.2.14.UnableToModifyDuringSystemPOST"
        return ""
