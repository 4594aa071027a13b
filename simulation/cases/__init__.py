"""Runs labelled cases through the production code, and scores one prediction for each."""
