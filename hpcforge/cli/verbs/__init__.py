"""The command line: one module for each verb, with its arguments and help.

Help and completion read all of them, at every TAB. So they import what describes a command line and nothing else; what
a verb does is in the module of `hpcforge.cli` with its name, which is imported when the verb is called.
"""
