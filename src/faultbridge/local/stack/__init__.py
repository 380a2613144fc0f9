"""Start and stop (`lifecycle`), deploy (`deployment`), store (`files`) and inspect (`status`) a stack."""
