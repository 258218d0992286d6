"""Beam's flags by name are those that its classes have."""

from __future__ import annotations

import argparse

from apache_beam.options.pipeline_options import PipelineOptions

from tracecloak.pipelines.runners import flags


def test_the_list_is_that_of_the_option_classes_of_the_installed_beam() -> None:
    """A flag of a newer Beam would be refused as nobody's, or one that went be handed over."""
    parser = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
    for options in PipelineOptions.__subclasses__():
        if options.__module__ == "apache_beam.options.pipeline_options":
            options._add_argparse_args(parser)  # Beam lists its flags nowhere else
    known = {flag for action in parser._actions for flag in action.option_strings}
    assert {f"--{name}" for name in flags._OF_OPTIONS.split()} == known - {
        f"--{name}" for name in flags._OF_JOB_SERVER.split()
    }
    assert known <= flags.BEAM_FLAGS
