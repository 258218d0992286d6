"""`tracecloak attack`: a configuration audited by attacks on neighbouring logs."""
