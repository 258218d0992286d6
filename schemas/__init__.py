"""The columnar data model: pyarrow and numpy types with their exact operations; no Beam, no noise."""
