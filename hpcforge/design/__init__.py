"""Designs: facility, fabrics and storage, and the rules that judge them."""
