"""`tracecloak attack config`: a configuration audited by attacks on neighbouring logs."""
