"""Inspection: values, graphs, profiles, comparisons of backends."""
