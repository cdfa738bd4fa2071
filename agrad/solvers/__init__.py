"""Solvers with derivatives: linear systems, equations, initial value problems."""
