"""Machines without a system: management controllers, power, network boot, installation, and files for installers.

`install`, `arrivals`, `discover`, `power` and `serve` act on machines, with the leases and sites of `hpcforge.run`;
`bmc` and `netboot` do the single steps below them. `machine_matching`, `machine_list`, `installer_files` and
`installer_disks` are pure. The package may import neither `hpcforge.report` nor `hpcforge.cli`. Configuration of
installed nodes does not belong here.
"""
