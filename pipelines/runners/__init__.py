"""Beam's runners: their options, their capabilities, and corrections of the local ones."""
