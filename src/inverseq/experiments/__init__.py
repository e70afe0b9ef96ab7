"""Experiments: settings as data, a run, and what came out. Only the command line imports them."""
