"""Expert play as training data: an expert labels states or plays games, and good answers are written as parquet."""
