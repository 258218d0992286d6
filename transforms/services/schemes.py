"""How addresses of services begin, or end."""

KAFKA = "kafka://"
EVENT_HUBS = ".servicebus.windows.net"
