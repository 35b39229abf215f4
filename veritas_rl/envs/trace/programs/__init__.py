"""A generator of Python programs of ten levels.

`generate` composes a program of blocks. Each block, a function in `blocks/`, writes one small piece, such as a sieve,
an account, a state machine or a few random statements, with random structure, names and data. A block may use variables
of earlier blocks. Programs need no import, read no input, end without an error and print the same output under every
implementation of Python: loops are bounded, recursion counts down from a small number, no name is bound to a set, and
the text of an exception that Python raises is never printed.

The means of 300 programs of each level (`measures.py`), and the kinds of blocks that are new at the level:

| level | lines | characters | steps | output lines | output characters | live names | new |
| --- | --- | --- | --- | --- | --- | --- | --- |
| 1 | 3 | 29 | 3 | 1.0 | 4 | 2.4 | assignments, one print |
| 2 | 6 | 104 | 9 | 1.6 | 10 | 2.8 | branches, loops, strings |
| 3 | 9 | 184 | 13 | 2.2 | 14 | 4.2 | functions, lists |
| 4 | 16 | 382 | 36 | 4.0 | 43 | 6.6 | dicts, algorithms on digits and letters |
| 5 | 23 | 593 | 88 | 6.5 | 67 | 8.6 | comprehensions, recursion, exceptions |
| 6 | 31 | 854 | 105 | 8.2 | 101 | 10.2 | sorting, matrices, objects, own exceptions |
| 7 | 41 | 1140 | 132 | 10.2 | 126 | 11.2 | classes, generators, closures, states |
| 8 | 51 | 1452 | 166 | 12.7 | 156 | 12.8 | inheritance, graphs, context managers, parsers |
| 9 | 64 | 1815 | 304 | 15.6 | 205 | 15.3 | mixins, send(), automata, calculators |
| 10 | 81 | 2324 | 380 | 20.5 | 285 | 18.6 | longer programs and loops |

A step is one executed line. Live names are the largest number of names that are bound at the same time in the module
and the running function.
"""

from veritas_rl.envs.trace.programs.generate import generate
from veritas_rl.envs.trace.programs.program import Program

__all__ = ["Program", "generate"]
