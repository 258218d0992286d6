"""The columnar data model: Arrow and numpy types with exact operations; no Beam, no noise."""
