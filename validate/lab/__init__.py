"""Hosts on this machine for a trial of the model: network namespaces behind bridges, with rate-limited ports."""
