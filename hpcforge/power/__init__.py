"""Power and first boot of machines, by their management controllers (BMCs): Redfish, or IPMI by ipmitool.

What a controller answers is not believed: a verb ends when the machine is seen in the state that was asked for. What
controllers do wrong is data, in quirks.yaml. Nothing here knows nodes or jobs: `hpcforge.run.power` does.
"""
