"""How addresses of services begin, or end."""

KAFKA = "kafka://"
EVENT_HUBS = tuple(
    f".servicebus.{cloud}" for cloud in ("windows.net", "usgovcloudapi.net", "chinacloudapi.cn")
)
