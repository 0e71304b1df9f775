"""A site's secrets: their encrypted file, the files on nodes that contain them, and certificates.

`secrets` has the file, `secret_files` fills values in on the way to a node, and the modules of certificates derive
them. The package may import `hpcforge.plan`, `hpcforge.cluster`, `hpcforge.kinds` and the packages below them. Plans,
messages and logs contain no value; the roles' declarations of secrets are in `hpcforge.plan.secrets`.
"""
