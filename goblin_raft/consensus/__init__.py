"""Consensus: the only place that knows pysyncobj, sockets between nodes, and the log on disk."""
