"""Memory and time of a run before a machine is rented: from the model's shape and the resolved settings alone.

`docs/planning.md` has every formula, where it comes from and how far it was checked.
"""
