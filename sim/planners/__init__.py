"""Planners: what a library would choose on a machine."""
