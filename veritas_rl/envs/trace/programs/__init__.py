"""A generator of Python programs, easy to hard, and a form of a program that ignores names.

`generate` composes a program of blocks: functions of `blocks/` that each write one small piece, such as a sieve, an
account, a state machine or a few random statements, with random structure, names and data. A block may use variables
that earlier blocks left. Programs need no import, read nothing, end without an error and print the same under every
implementation of Python: loops are bounded, recursion goes down from a small number, no name is bound to a set, and the
text of an exception that Python raises is never printed.

What 300 programs of each level measure on average (`measures.py`), and the kinds of block that join at a level:

| level | lines | characters | steps | output lines | output characters | live names | joins |
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

A step is one executed line. Live names are the greatest number of names bound at one moment in the module and the
function that runs.
"""

from veritas_rl.envs.trace.programs.canonical import canonical
from veritas_rl.envs.trace.programs.generate import generate
from veritas_rl.envs.trace.programs.program import Program

__all__ = ["Program", "canonical", "generate"]
