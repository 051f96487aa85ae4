"""Commands for operators: status, why, top, ops, maintenance, bench."""
