"""What may be wrong with a machine, by part; `topo.findings.RULES` is the one table of it all."""
