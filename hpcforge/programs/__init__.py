"""Programs whose text is sent to a node and run there: standard library only, Python 3.9 syntax.

The sender reads the text of the module. A program imports no other module of hpcforge; its constants may be imported.
"""
