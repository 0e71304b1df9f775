"""Files that the operator host fetches for nodes: pinned artifacts, wheels, and collections of Ansible.

Each file is fetched once, by its address or by pip, and kept under its SHA-256. The package imports the types of
`hpcforge.plan` and shared modules. It may import nothing of a run, of secrets or of the command line. The server that
gives the files to nodes is a role.
"""
