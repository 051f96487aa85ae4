"""One module per experiment; `benchmarks/experiment.py` says what each has."""
