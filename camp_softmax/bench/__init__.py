"""`python -m camp_softmax.bench`: every kernel and its peers in one run, beside a copy of the same bytes."""
