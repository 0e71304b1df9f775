"""Programs whose text is sent to a node and run there: standard library alone, Python 3.9 syntax.

Who sends one takes its text. A program imports no other module of hpcforge, and may be imported for its constants.
"""
