"""The routes of streams as the contract has them."""
