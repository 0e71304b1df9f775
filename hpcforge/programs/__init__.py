"""Programs whose text is sent to a node and run there: standard library only, Python 3.9 syntax.

The package that sends a program reads its text. A program imports no other module of hpcforge; other packages may
import it for its constants. The node program is not here: it is `hpcforge.node`.
"""
