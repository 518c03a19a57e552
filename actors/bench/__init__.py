"""What the reconciler costs, measured on this machine: `cluster-reconciler bench`.

Rules for what may live here: it builds clusters out of the production parts, lets them work against
replies that are there at once, and reads the clocks of `time`.  It never touches a provider, a
network or a shape file, and changes nothing about the parts that it measures.
"""
