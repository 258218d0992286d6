"""How addresses of services begin."""

KAFKA = "kafka://"
