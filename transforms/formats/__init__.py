"""File formats: bytes to Arrow record batches and back, without Beam."""
