"""The local model's service: it gathers reports that were randomised before they were sent, and counts them.

It never sees a true answer, and keeps no address, no time of arrival and no link between a token and a report.
"""
