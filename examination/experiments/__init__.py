"""The papers' evaluations: tables of settings, measures and statements, run and shown alike."""
