"""Every point where an effect is dispatched, with every fault there: see `__main__` for commands.

`world` has the gates, `scenarios` the lives, `planting` and `faults_*` what may go wrong and what
it may cost by the design's rules, `life` what is demanded of each life, `cases` their names.
"""
