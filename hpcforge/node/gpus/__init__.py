"""GPUs as their drivers report them on a node: a file for each maker.

A module reads facts and troubles and changes nothing. It may import the helpers of `hpcforge.node`, and needs no
program of the maker. Comparison with the declared GPUs does not belong here, but into `hpcforge.plan.gpus`.
"""
