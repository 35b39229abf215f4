"""Write tasks of an environment to JSONL and parquet files, and score answers to them."""
