"""Passes: functions from a program to a better one that computes the same."""
