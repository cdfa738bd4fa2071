"""Passes: functions from a program to an optimized program with the same results."""
