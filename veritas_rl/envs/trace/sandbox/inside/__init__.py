"""What runs inside the sandboxed process. These modules import nothing but the standard library and each other."""
