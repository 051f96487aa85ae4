"""Creates, upgrades, checks and repairs the schema.

Start with `migrator.py`; `level.py` says which releases may share a schema.
"""
