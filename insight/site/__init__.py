"""The pages of Insight for people."""
