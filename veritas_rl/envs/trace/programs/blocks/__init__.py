"""The blocks that programs are composed of, one module for each subject.

A block writes definitions and statements of the main part into a draft. It may use variables of earlier blocks, and
later blocks may use its variables. The import of this package fills the table in `registry`.
"""

from veritas_rl.envs.trace.programs.blocks import (
    classes,
    closures,
    containers,
    errors,
    functions,
    generators,
    graphs,
    inheritance,
    machines,
    managers,
    numbers,
    recursion,
    statements,
    texts,
)
from veritas_rl.envs.trace.programs.blocks.registry import BLOCKS, Block

__all__ = [
    "BLOCKS",
    "Block",
    "classes",
    "closures",
    "containers",
    "errors",
    "functions",
    "generators",
    "graphs",
    "inheritance",
    "machines",
    "managers",
    "numbers",
    "recursion",
    "statements",
    "texts",
]
