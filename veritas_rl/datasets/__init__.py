"""Tasks as files: rows drawn from an environment, written as JSONL and parquet, and answers to them scored."""
