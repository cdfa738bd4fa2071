"""Transforms: functions that take a function and return its derivative or map."""
