"""Start, stop and inspect (`lifecycle`), deploy (`deployment`) and store (`files`) a stack."""
