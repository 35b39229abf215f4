"""Check whether this machine can run a training: `train/tools/doctor.py`."""
