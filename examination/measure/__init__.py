"""How far a release is from its log: measures and their registry, mined models, their quality."""
