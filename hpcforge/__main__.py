"""`python -m hpcforge` is `hpcforge`."""

from hpcforge.cli import main

main()
