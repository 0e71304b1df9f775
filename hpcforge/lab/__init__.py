"""Rehearsal clusters: real Debian nodes in systemd-nspawn on one host, reached over SSH like any other machine."""
