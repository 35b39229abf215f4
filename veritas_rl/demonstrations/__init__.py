"""Expert play as training data: states labelled or games played, filtered, and written as parquet."""
