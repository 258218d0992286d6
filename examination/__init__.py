"""What examines and what shows: attacks, comparisons, evaluations, experiments, demonstrations.

It stands above all that runs, and nothing that runs needs it. A release knows of it by the names of
its commands alone.
"""
