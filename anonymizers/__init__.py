"""The privacy core: methods, mechanisms and keyed randomness on numpy arrays; no Beam."""
