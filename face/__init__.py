"""Anonymises process-mining event logs with Apache Beam."""
