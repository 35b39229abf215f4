"""Whether this machine can run what a person wants to run: `train/tools/doctor.py`."""
