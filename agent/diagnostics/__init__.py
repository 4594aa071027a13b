"""What a person will ask for, saved before a repair wipes it away.

A bundle is one compressed folder: a text file for each part and `report.html`, which says first
what stands out. Redaction of secrets is best effort.
"""
