"""NCCL 2.30.7's decisions, rebuilt: paths, graph search, channels, tuner and chunks."""
