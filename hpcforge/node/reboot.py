"""The verb reboot: restart the node. The receipt on disk has the work that is due after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcforge.node import commands, lock, receipt
from hpcforge.node.events import EventReporter

if TYPE_CHECKING:
    from hpcforge.node.requests import RebootRequest

_ASK_S = 60.0


def reboot(request: RebootRequest, report: EventReporter) -> None:
    """Restart the node; `boot_id` names the boot to end: a repeated request restarts it once."""
    with lock.held(request, "reboot"):
        receipt.save(receipt.begin(request, report))
        if request["boot_id"] != receipt.boot_id():
            report.progress(None, "it has restarted already")
            return
        run = request.get("run")
        message = "--message=hpcforge " + (f"run {run['number']} of {run['who']}" if run else "of an unknown user")
        report.progress(None, "restarting")
        commands.succeed(["systemctl", "reboot", message], _ASK_S)  # it returns once systemd has started the restart
