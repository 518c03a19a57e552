"""The command line: reads shape files, drives a `Cluster`, speaks to people and to programs.

Never decides anything about a node; all it knows of the cluster comes through the embedding API.
"""
