"""The scenario `release` of the demo: three member clusters, Captain, a good and a bad release."""
