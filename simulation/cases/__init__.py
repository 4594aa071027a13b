"""Labelled cases through the code that decides: one prediction for each, and how good they are."""
