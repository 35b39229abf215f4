"""The code inside the sandboxed process. These modules import only the standard library and each other."""
