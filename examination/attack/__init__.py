"""`tracecloak attack config`: attacks on neighbouring logs that audit a configuration."""
